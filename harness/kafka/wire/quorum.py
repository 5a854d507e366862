"""What KRaft controllers say about who leads the metadata quorum."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from kafka.protocol.admin import DescribeQuorumRequest, DescribeQuorumResponse
from kafka.protocol.consumer import FetchRequest, FetchResponse

from harness.kafka.wire.connection import Target, exchange

METADATA_TOPIC = "__cluster_metadata"
_METADATA_TOPIC_ID = uuid.UUID(int=1)
_FETCH_WITH_TOPIC_IDS = 13


@dataclass(frozen=True)
class ControllerView:
    """Whom a controller takes for the leader of the quorum (-1: nobody), in which epoch.

    A leader that has just resigned names itself for up to 0.8 s more; `describe_quorum` is the proof that
    a node claims to lead.
    """

    leader: int
    epoch: int
    error: int


@dataclass(frozen=True)
class QuorumView:
    """The quorum as its believed leader describes it; ``error`` 6 when the node does not lead."""

    error: int
    leader: int = -1
    epoch: int = -1
    high_watermark: int = -1
    voters: tuple[tuple[int, int], ...] = ()
    observers: tuple[tuple[int, int], ...] = ()
    """Node id and log end offset of each."""


def controller_fetch_probe(
    target: Target, epoch: int = 0, fetch_offset: int = 0, timeout_s: float | None = None
) -> ControllerView:
    """Ask one controller (its own listener) whom it follows. It disturbs no quorum timer.

    With ``epoch`` 0 every node answers 74 and names its leader; with the epoch learnt that way, only a
    node that leads answers 0.
    """
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
    request = FetchRequest(
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
    answer = exchange(target, request, FetchResponse, _FETCH_WITH_TOPIC_IDS, timeout_s)
    if answer.error_code or not answer.responses:
        return ControllerView(-1, -1, answer.error_code)
    told = answer.responses[0].partitions[0]
    current = told.current_leader
    if current is None:
        return ControllerView(-1, -1, told.error_code)
    return ControllerView(current.leader_id, current.leader_epoch, told.error_code)


def describe_quorum(target: Target, timeout_s: float | None = None) -> QuorumView:
    """Ask a controller, or the controller that a broker believes in, to describe the quorum as its leader."""
    topic_class = DescribeQuorumRequest.TopicData
    asked = topic_class(topic_name=METADATA_TOPIC, partitions=[topic_class.PartitionData(partition_index=0)])
    answer = exchange(target, DescribeQuorumRequest(topics=[asked]), DescribeQuorumResponse, 0, timeout_s)
    if answer.error_code or not answer.topics:
        return QuorumView(answer.error_code)
    told = answer.topics[0].partitions[0]
    if told.error_code:
        return QuorumView(told.error_code)
    return QuorumView(
        0,
        told.leader_id,
        told.leader_epoch,
        told.high_watermark,
        tuple((replica.replica_id, replica.log_end_offset) for replica in told.current_voters),
        tuple((replica.replica_id, replica.log_end_offset) for replica in told.observers),
    )
