"""What KRaft controllers state about the metadata quorum, and requests that change its voters."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import DescribeQuorumRequest, DescribeQuorumResponse
from kafka.protocol.consumer import FetchRequest, FetchResponse

from harness.errors import UnfitError
from harness.kafka.model import NO_LEADER, Endpoint
from harness.kafka.wire.admin import RequestResult
from harness.kafka.wire.connection import Question, Target, ask, exchange
from harness.kafka.wire.dialect import Dialect
from harness.kafka.wire.own_messages import message

METADATA_TOPIC = "__cluster_metadata"
_METADATA_TOPIC_ID = uuid.UUID(int=1)
_NO_DIRECTORY = uuid.UUID(int=0)
"""The directory id of a voter of a static quorum."""
_FETCH_WITH_TOPIC_IDS = 13
_QUORUM_WITH_DIRECTORIES = 2


AddRaftVoterRequest = message("AddRaftVoterRequest")
AddRaftVoterResponse = message("AddRaftVoterResponse")
RemoveRaftVoterRequest = message("RemoveRaftVoterRequest")
RemoveRaftVoterResponse = message("RemoveRaftVoterResponse")


@dataclass(frozen=True)
class LeaderAndEpoch:
    """The quorum leader that a controller follows (NO_LEADER: none) and its epoch.

    A leader that has just resigned names itself for up to 0.8 s more; only `describe_quorum` shows whether a
    node claims to lead.
    """

    leader: int = NO_LEADER
    epoch: int = -1
    error: int = 0


@dataclass(frozen=True, kw_only=True)
class QuorumInfo:
    """The quorum as a node that claims to lead it describes it; ``error`` is 6 if the node does not lead."""

    error: int = 0
    leader: int = NO_LEADER
    epoch: int = -1
    high_watermark: int = -1
    voters: tuple[tuple[int, int], ...] = ()
    observers: tuple[tuple[int, int], ...] = ()
    """Node id and log end offset of each."""
    voter_directories: Mapping[int, uuid.UUID] = field(default_factory=dict)
    """Directory ids of the voters by node id; none in a static quorum, and if they were not asked for."""
    observer_directories: Mapping[int, uuid.UUID] = field(default_factory=dict)
    """The same of the observers."""


def controller_fetch_probe(
    target: Target, epoch: int = 0, fetch_offset: int = 0, timeout_s: float | None = None
) -> LeaderAndEpoch:
    """Ask one controller, at its own listener, whom it follows. Resets no timer of the quorum.

    With ``epoch`` 0 every node answers error 74 and names its leader; with the epoch learnt that way, only a
    node that leads answers 0.
    """

    def request() -> Any:
        asked = FetchRequest.FetchTopic(
            topic_id=_METADATA_TOPIC_ID,
            partitions=[
                FetchRequest.FetchTopic.FetchPartition(
                    partition=0,
                    current_leader_epoch=epoch,
                    fetch_offset=fetch_offset,
                    last_fetched_epoch=0,
                    log_start_offset=-1,
                    partition_max_bytes=1 << 20,
                )
            ],
        )
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[asked],
            forgotten_topics_data=[],
            rack_id="",
        )

    question = Question(
        key=(epoch, fetch_offset),
        request=request,
        response=FetchResponse,
        version=_FETCH_WITH_TOPIC_IDS,
        parse=_followed,
    )
    return ask(target, question, timeout_s)


def _followed(answer: Any) -> LeaderAndEpoch:
    if answer.error_code or not answer.responses:
        return LeaderAndEpoch(error=answer.error_code)
    partition = answer.responses[0].partitions[0]
    current = partition.current_leader
    if current is None:
        return LeaderAndEpoch(error=partition.error_code)
    return LeaderAndEpoch(current.leader_id, current.leader_epoch, partition.error_code)


def describe_quorum(target: Target, timeout_s: float | None = None) -> QuorumInfo:
    """Ask a controller to describe the quorum as its leader; a broker asks its controller."""
    return _describe(target, 0, timeout_s)


def describe_voters(target: Target, *, dialect: Dialect, timeout_s: float | None = None) -> QuorumInfo:
    """As `describe_quorum`, with directory ids. Raises UnfitError before Kafka 3.9, and with ZooKeeper."""
    _voters_version(dialect)
    return _describe(target, _QUORUM_WITH_DIRECTORIES, timeout_s)


def _describe(target: Target, version: int, timeout_s: float | None) -> QuorumInfo:
    question = Question(
        key=(), request=_quorum_request, response=DescribeQuorumResponse, version=version, parse=_described
    )
    return ask(target, question, timeout_s)


def _quorum_request() -> Any:
    topic_class = DescribeQuorumRequest.TopicData
    asked = topic_class(topic_name=METADATA_TOPIC, partitions=[topic_class.PartitionData(partition_index=0)])
    return DescribeQuorumRequest(topics=[asked])


def _described(answer: Any) -> QuorumInfo:
    if answer.error_code or not answer.topics:
        return QuorumInfo(error=answer.error_code)
    partition = answer.topics[0].partitions[0]
    if partition.error_code:
        return QuorumInfo(error=partition.error_code)
    return QuorumInfo(
        leader=partition.leader_id,
        epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=tuple((replica.replica_id, replica.log_end_offset) for replica in partition.current_voters),
        observers=tuple((replica.replica_id, replica.log_end_offset) for replica in partition.observers),
        voter_directories=_directories(partition.current_voters),
        observer_directories=_directories(partition.observers),
    )


def _directories(replicas: Iterable[Any]) -> dict[int, uuid.UUID]:
    stated = ((replica.replica_id, replica.replica_directory_id) for replica in replicas)
    return {node_id: directory for node_id, directory in stated if directory not in (None, _NO_DIRECTORY)}


def add_raft_voter(
    target: Target,
    node_id: int,
    directory: uuid.UUID,
    listeners: Iterable[Endpoint],
    *,
    wait_ms: int = 5000,
    dialect: Dialect,
) -> RequestResult:
    """Add a controller, which must have caught up, to the voters of the quorum (AddRaftVoter, KIP-853).

    ``listeners`` are those at which the other controllers reach it. ``target`` is a broker, which forwards
    the request, or the quorum's leader: others answer with error 6. Error 7 means that the controller has
    not caught up, or that the change was not committed in time. Raises UnfitError as `describe_voters` does.
    """
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=wait_ms,
        voter_id=node_id,
        voter_directory_id=directory,
        listeners=[
            AddRaftVoterRequest.Listener(name=one.listener, host=one.host, port=one.port) for one in listeners
        ],
    )
    version = _voters_version(dialect)
    answer = exchange(target, request, AddRaftVoterResponse, version, wait_ms / 1000 + 2)
    return RequestResult(answer.error_code, answer.error_message or "")


def remove_raft_voter(
    target: Target, node_id: int, directory: uuid.UUID, *, timeout_s: float = 10.0, dialect: Dialect
) -> RequestResult:
    """Remove a controller, dead or alive, from the voters of the quorum (RemoveRaftVoter, KIP-853).

    ``target`` and errors are as for `add_raft_voter`.
    """
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory)
    answer = exchange(target, request, RemoveRaftVoterResponse, _voters_version(dialect), timeout_s)
    return RequestResult(answer.error_code, answer.error_message or "")


def _voters_version(dialect: Dialect) -> int:
    if dialect.raft_voters is None:
        raise UnfitError(
            "This Kafka version cannot change the voters of a KRaft quorum (KIP-853); 3.9 and later can."
        )
    return dialect.raft_voters
