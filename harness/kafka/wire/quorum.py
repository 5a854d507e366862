"""What KRaft controllers state about the leader of the metadata quorum."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeQuorumRequest, DescribeQuorumResponse
from kafka.protocol.consumer import FetchRequest, FetchResponse

from harness.kafka.model import NO_LEADER
from harness.kafka.wire.connection import Question, Target, ask

METADATA_TOPIC = "__cluster_metadata"
_METADATA_TOPIC_ID = uuid.UUID(int=1)
_FETCH_WITH_TOPIC_IDS = 13


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
    question = Question(
        key=(), request=_quorum_request, response=DescribeQuorumResponse, version=0, parse=_described
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
    )
