"""Requests of a transactional producer, and requests that describe transactions, one at a time.

Kafka has two generations of the transaction protocol, and the client decides which one to use:

* v1 (all versions from 0.11): the client adds partitions and groups to the transaction at its coordinator
  before it writes to them or commits their offsets, and the producer epoch stays the same from one
  transaction to the next. So a request that arrives late cannot be told from one of the current transaction.
* v2 (KIP-890 part 2, 4.0 and later): the broker that is written to adds the partition, the coordinator of
  the group adds the group, and the epoch rises by 1 at the end of each transaction.

Every function sends one request and returns what the broker answered; nothing is retried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kafka.protocol.admin.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

from harness.kafka.model import Generation, ProducerIdentity, TopicPartition
from harness.kafka.wire.connection import Target, exchange
from harness.kafka.wire.produce import BatchSequence, one_record_batch

COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
CONCURRENT_TRANSACTIONS = 51
"""Error codes, by their names in the protocol."""
RETRIABLE = (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    CONCURRENT_TRANSACTIONS,
)
"""Errors after which every client asks again, because the coordinator has not carried out the request."""


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Versions of the requests that make up one generation of the protocol."""

    init: int
    add: int | None
    """AddPartitionsToTxn; None: the broker that is written to adds the partition."""
    produce: int
    end: int
    add_offsets: int | None
    """AddOffsetsToTxn; None: the coordinator of the group adds it."""
    commit_offsets: int
    """TxnOffsetCommit."""


VERSIONS: Mapping[Generation, Versions] = MappingProxyType(
    {
        "v1": Versions(init=3, add=1, produce=7, end=1, add_offsets=1, commit_offsets=2),
        "v2": Versions(init=4, add=None, produce=12, end=5, add_offsets=None, commit_offsets=5),
    }
)
"""v1: what every version from 2.5 to 4.x understands."""


@dataclass(frozen=True)
class IdentityAnswer:
    """The answer to InitProducerId or EndTxn: an error code, and the identity to use from now on."""

    error: int
    identity: ProducerIdentity | None = None


def find_coordinator(
    target: Target, name: str, timeout_s: float | None = None, *, group: bool = False
) -> tuple[int, int]:
    """Error code, and the node id of the broker that coordinates a transactional id or a consumer group."""
    request = FindCoordinatorRequest(key=name, key_type=0 if group else 1)
    answer = exchange(target, request, FindCoordinatorResponse, 2, timeout_s)
    return answer.error_code, answer.node_id


def init_producer_id(
    target: Target,
    transactional_id: str,
    transaction_timeout_ms: int,
    *,
    generation: Generation = "v1",
    timeout_s: float | None = None,
) -> IdentityAnswer:
    """Ask the coordinator for a producer id and a new epoch; it aborts what an older producer left open.

    Without a transactional id any broker answers, with a new producer id each time.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id or None,
        transaction_timeout_ms=transaction_timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
    )
    answer = exchange(target, request, InitProducerIdResponse, VERSIONS[generation].init, timeout_s)
    if answer.error_code:
        return IdentityAnswer(answer.error_code)
    return IdentityAnswer(0, ProducerIdentity(answer.producer_id, answer.producer_epoch))


def add_partition(
    target: Target,
    transactional_id: str,
    identity: ProducerIdentity,
    partition: TopicPartition,
    timeout_s: float | None = None,
) -> int:
    """Add a partition to the transaction (v1); returns the error code."""
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
        name=partition.topic, partitions=[partition.partition]
    )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[topic],
    )
    version = VERSIONS["v1"].add
    answer = exchange(target, request, AddPartitionsToTxnResponse, version or 0, timeout_s)
    errors = [
        part.partition_error_code
        for topic_answer in answer.results_by_topic_v3_and_below
        for part in topic_answer.results_by_partition
    ]
    return int(max(errors))


def add_offsets(
    target: Target,
    transactional_id: str,
    identity: ProducerIdentity,
    group: str,
    timeout_s: float | None = None,
) -> int:
    """Add the offsets of a group to the transaction (v1), at its coordinator; returns the error code."""
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group,
    )
    version = VERSIONS["v1"].add_offsets
    return int(exchange(target, request, AddOffsetsToTxnResponse, version or 0, timeout_s).error_code)


def commit_offsets(
    target: Target,
    transactional_id: str,
    identity: ProducerIdentity,
    group: str,
    partition: TopicPartition,
    offset: int,
    *,
    generation: Generation = "v1",
    timeout_s: float | None = None,
) -> int:
    """Let the transaction commit an offset of a group, at the coordinator of that group.

    The request names no member of the group, which a coordinator accepts even if the group has members.
    Returns the error code.
    """
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        topics=[
            topic(
                name=partition.topic,
                partitions=[
                    topic.TxnOffsetCommitRequestPartition(
                        partition_index=partition.partition, committed_offset=offset, committed_metadata=""
                    )
                ],
            )
        ],
    )
    version = VERSIONS[generation].commit_offsets
    answer = exchange(target, request, TxnOffsetCommitResponse, version, timeout_s)
    return int(answer.topics[0].partitions[0].error_code)


@dataclass(frozen=True)
class PreparedRequest:
    """A request that is ready to be sent, with the class of its response and its version."""

    request: Any
    response: Any
    version: int


def end_request(
    transactional_id: str, identity: ProducerIdentity, *, commit: bool, generation: Generation = "v1"
) -> PreparedRequest:
    """An EndTxn request. `ended` reads its answer."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=commit,
    )
    return PreparedRequest(request, EndTxnResponse, VERSIONS[generation].end)


def ended(answer: Any, generation: Generation) -> IdentityAnswer:
    """What the answer to EndTxn says; from v2 on it names the epoch of the next transaction."""
    if answer.error_code or VERSIONS[generation].end < 5:
        return IdentityAnswer(answer.error_code)
    return IdentityAnswer(0, ProducerIdentity(answer.producer_id, answer.producer_epoch))


def produce_request(
    transactional_id: str,
    identity: ProducerIdentity,
    partition: TopicPartition,
    value: bytes,
    *,
    sequence: int,
    generation: Generation = "v1",
    timeout_ms: int = 2000,
) -> PreparedRequest:
    """A ProduceRequest with one transactional record, acks=all. `produced` reads its answer."""
    data = ProduceRequest.TopicProduceData.PartitionProduceData(
        index=partition.partition,
        records=one_record_batch(value, of=BatchSequence(identity, sequence, transactional=True)),
    )
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=[ProduceRequest.TopicProduceData(name=partition.topic, partition_data=[data])],
    )
    return PreparedRequest(request, ProduceResponse, VERSIONS[generation].produce)


def produced(answer: Any) -> tuple[int, int | None]:
    """Error code and offset of the answer to a ProduceRequest with one partition."""
    response = answer.responses[0].partition_responses[0]
    return response.error_code, response.base_offset if response.base_offset >= 0 else None


@dataclass(frozen=True, kw_only=True)
class ActiveProducer:
    """A producer as the leader of a partition knows it (Kafka 2.8 and later)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """Epoch of the coordinator that wrote the last marker; -1: there is none."""
    transaction_start: int | None
    """Offset of the first record of its open transaction; None: none is open."""
    last_sequence: int = -1
    """Sequence number of its last record; -1: not known."""


@dataclass(frozen=True)
class Producers:
    """The producers of one partition, or Kafka's error code instead of them."""

    error: int
    producers: tuple[ActiveProducer, ...] = field(default_factory=tuple)


def describe_producers(
    target: Target, partitions: Iterable[TopicPartition], timeout_s: float | None = None
) -> dict[TopicPartition, Producers]:
    """The producers of partitions that this broker leads."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    shape = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(
        topics=[shape(name=name, partition_indexes=numbers) for name, numbers in by_topic.items()]
    )
    answer = exchange(target, request, DescribeProducersResponse, 0, timeout_s)
    return {
        TopicPartition(topic.name, part.partition_index): Producers(
            part.error_code,
            tuple(
                ActiveProducer(
                    producer_id=one.producer_id,
                    producer_epoch=one.producer_epoch,
                    coordinator_epoch=one.coordinator_epoch,
                    transaction_start=one.current_txn_start_offset
                    if one.current_txn_start_offset >= 0
                    else None,
                    last_sequence=one.last_sequence,
                )
                for one in part.active_producers
            ),
        )
        for topic in answer.topics
        for part in topic.partitions
    }


@dataclass(frozen=True, kw_only=True)
class CoordinatedTransaction:
    """A transactional id as its coordinator knows it (Kafka 3.0 and later)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    """`Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit`, `CompleteAbort` or `Dead`."""
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]
    """Of the open transaction; while it is completed, those whose marker is not written yet."""


def coordinated_transactions(
    target: Target, timeout_s: float | None = None, *, only: str = ""
) -> tuple[CoordinatedTransaction, ...]:
    """Every transactional id that this broker coordinates, or that one alone if it is among them (``only``).

    None while it loads the transaction log.
    """
    listed = exchange(
        target,
        ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
        ListTransactionsResponse,
        0,
        timeout_s,
    )
    ids = sorted(
        one.transactional_id for one in listed.transaction_states if not only or one.transactional_id == only
    )
    if listed.error_code or not ids:
        return ()
    request = DescribeTransactionsRequest(transactional_ids=ids)
    answer = exchange(target, request, DescribeTransactionsResponse, 0, timeout_s)
    return tuple(
        CoordinatedTransaction(
            transactional_id=one.transactional_id,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            state=one.transaction_state,
            timeout_ms=one.transaction_timeout_ms,
            partitions=tuple(
                sorted(
                    TopicPartition(topic.topic, number) for topic in one.topics for number in topic.partitions
                )
            ),
        )
        for one in answer.transaction_states
        if not one.error_code
    )


def write_abort_marker(
    target: Target, partition: TopicPartition, producer: ActiveProducer, timeout_s: float | None = None
) -> int:
    """Abort what a producer left open in a partition, as `kafka-transactions.sh abort` does.

    Returns the error code. Kafka 2.8 and later. No tool can commit instead.
    """
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    request = WriteTxnMarkersRequest(
        markers=[
            marker(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transaction_result=False,
                topics=[
                    marker.WritableTxnMarkerTopic(
                        name=partition.topic, partition_indexes=[partition.partition]
                    )
                ],
                coordinator_epoch=producer.coordinator_epoch,
            )
        ]
    )
    answer = exchange(target, request, WriteTxnMarkersResponse, 1, timeout_s)
    return int(answer.markers[0].topics[0].partitions[0].error_code)
