"""Committed offsets of a consumer group: one commit or one fetch, sent to exactly one broker.

A request names no member of the group (generation -1), as those of an administrator or of a consumer that
assigned its partitions itself. A coordinator accepts such a commit while the group has no members.
Nothing is retried, and nobody is asked who coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka.protocol.consumer import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from harness.kafka.model import TopicPartition
from harness.kafka.wire.connection import Connection

NO_GENERATION = -1
_COMMIT_VERSION = 2
_FETCH_VERSION = 2
"""Versions that every Kafka from 0.11 to 4.x understands."""
_STABLE_VERSION = 7
"""The first version of OffsetFetch that can wait for transactions (KIP-447, Kafka 2.5)."""


@dataclass(frozen=True)
class CommittedOffset:
    """The committed offset of a partition, None if there is none; or Kafka's error code."""

    error: int
    offset: int | None = None


def commit_offset(
    connection: Connection, group: str, partition: TopicPartition, offset: int, timeout_s: float
) -> int:
    """Commit an offset without membership; returns the error code.

    Raises NotSentError or NoAnswerError.
    """
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=NO_GENERATION,
        member_id="",
        retention_time_ms=-1,
        topics=[
            topic(
                name=partition.topic,
                partitions=[
                    topic.OffsetCommitRequestPartition(
                        partition_index=partition.partition, committed_offset=offset, committed_metadata=""
                    )
                ],
            )
        ],
    )
    answer = connection.call_once(request, OffsetCommitResponse, _COMMIT_VERSION, timeout_s)
    return int(answer.topics[0].partitions[0].error_code)


def fetch_offset(
    connection: Connection, group: str, partition: TopicPartition, timeout_s: float, *, stable: bool = False
) -> CommittedOffset:
    """What this broker answers when it is asked for a committed offset.

    With ``stable`` the answer is error 88 (UNSTABLE_OFFSET_COMMIT) while a transaction that commits offsets
    of the partition has no marker. Raises NotSentError or NoAnswerError.
    """
    topic = OffsetFetchRequest.OffsetFetchRequestTopic
    request = OffsetFetchRequest(
        group_id=group,
        topics=[topic(name=partition.topic, partition_indexes=[partition.partition])],
        require_stable=stable,
    )
    version = _STABLE_VERSION if stable else _FETCH_VERSION
    answer = connection.call_once(request, OffsetFetchResponse, version, timeout_s)
    if answer.error_code:
        return CommittedOffset(answer.error_code)
    partition_answer = answer.topics[0].partitions[0]
    if partition_answer.error_code:
        return CommittedOffset(partition_answer.error_code)
    return CommittedOffset(
        0, partition_answer.committed_offset if partition_answer.committed_offset >= 0 else None
    )
