"""Committed offsets of consumer groups: one commit or one fetch, sent to exactly one broker.

A request names no member of the group (generation -1), as those of an administrator or of a consumer that
assigned its partitions itself. A coordinator accepts such a commit while the group has no members.
Nothing is retried, and nobody is asked who coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from harness.kafka.model import TopicPartition
from harness.kafka.wire.connection import Connection, Target, exchange

NO_GENERATION = -1
_COMMIT_VERSION = 2
_FETCH_VERSION = 2
_LIST_VERSION = 2
_DELETE_VERSION = 1
_HEARTBEAT_VERSION = 1
"""Versions that every Kafka from 1.0 to 4.x understands."""
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
    version = _STABLE_VERSION if stable else _FETCH_VERSION
    request = _offset_request(group, [partition], stable=stable)
    answer = connection.call_once(request, OffsetFetchResponse, version, timeout_s)
    return _committed(answer, [partition])[partition]


def fetch_offsets(
    target: Target, group: str, partitions: Iterable[TopicPartition], timeout_s: float | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """What this broker answers when it is asked for committed offsets, which needs DESCRIBE on the group."""
    keys = list(partitions)
    request = _offset_request(group, keys, stable=False)
    return _committed(exchange(target, request, OffsetFetchResponse, _FETCH_VERSION, timeout_s), keys)


def list_groups(target: Target, timeout_s: float | None = None) -> tuple[int, tuple[str, ...]]:
    """Error code, and the groups that this broker coordinates and the user may describe."""
    answer = exchange(target, ListGroupsRequest(), ListGroupsResponse, _LIST_VERSION, timeout_s)
    return answer.error_code, tuple(sorted(one.group_id for one in answer.groups))


def delete_group(target: Target, group: str, timeout_s: float | None = None) -> int:
    """Ask a group's coordinator to delete it with its offsets; returns the error code."""
    request = DeleteGroupsRequest(groups_names=[group])
    answer = exchange(target, request, DeleteGroupsResponse, _DELETE_VERSION, timeout_s)
    return int(answer.results[0].error_code)


def may_read_group(target: Target, group: str, timeout_s: float | None = None) -> int:
    """The error code that a member gets which does not exist: 30 without READ on the group."""
    request = HeartbeatRequest(group_id=group, generation_id=NO_GENERATION, member_id="")
    return int(exchange(target, request, HeartbeatResponse, _HEARTBEAT_VERSION, timeout_s).error_code)


def _offset_request(group: str, keys: list[TopicPartition], *, stable: bool) -> Any:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in keys:
        by_topic.setdefault(topic, []).append(partition)
    shape = OffsetFetchRequest.OffsetFetchRequestTopic
    topics = [shape(name=name, partition_indexes=numbers) for name, numbers in by_topic.items()]
    return OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)


def _committed(answer: Any, keys: list[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
    if answer.error_code:
        return {key: CommittedOffset(answer.error_code) for key in keys}
    return {
        TopicPartition(topic.name, part.partition_index): CommittedOffset(
            part.error_code,
            part.committed_offset if part.committed_offset >= 0 and not part.error_code else None,
        )
        for topic in answer.topics
        for part in topic.partitions
    }
