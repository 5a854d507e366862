"""Start and end offsets of logs. A replica id of 0 or more is never sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)

from harness.kafka.model import TopicPartition
from harness.kafka.wire.connection import Target, exchange
from harness.kafka.wire.dialect import MODERN, Dialect

CONSUMER = -1
DEBUGGER = -2
LATEST = -1
EARLIEST = -2


@dataclass(frozen=True)
class Offset:
    """An offset, or Kafka's error code instead of it."""

    offset: int
    error: int


def end_offsets(
    target: Target,
    partitions: Iterable[TopicPartition],
    *,
    at: int = LATEST,
    replica_id: int = DEBUGGER,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
) -> dict[TopicPartition, Offset]:
    """Log end offset of this replica of each partition; with ``at=EARLIEST``, its log start.

    ``replica_id=CONSUMER`` asks for the leader's high watermark instead.
    """
    if replica_id >= 0:
        raise ValueError(f"replica_id {replica_id} would pose as a follower; use a negative one")
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    asked = [
        topic_class(
            name=name,
            partitions=[
                topic_class.ListOffsetsPartition(partition_index=p, current_leader_epoch=-1, timestamp=at)
                for p in numbers
            ],
        )
        for name, numbers in by_topic.items()
    ]
    request = ListOffsetsRequest(replica_id=replica_id, isolation_level=0, topics=asked)
    answer = exchange(target, request, ListOffsetsResponse, dialect.list_offsets, timeout_s)
    return {
        TopicPartition(topic.name, p.partition_index): Offset(p.offset, p.error_code)
        for topic in answer.topics
        for p in topic.partitions
    }
