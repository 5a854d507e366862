"""Reading logs over the wire: any replica's own log, or what a consumer would get.

A replica id of 0 or more is never sent: it would move the leader's view of that follower, and with it the
high watermark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
)

from harness.errors import UnfitError
from harness.kafka.batches import Parsed, Record, parse
from harness.kafka.wire.connection import Target, exchange
from harness.kafka.wire.dialect import MODERN, Dialect

TopicPartition = tuple[str, int]

CONSUMER = -1
OWN_LOG = -3
"""Kafka's `FutureLocalReplicaId`: reads a replica's own log to its end, whatever its role."""


@dataclass(frozen=True)
class Fetched:
    """What one FETCH of one partition gave; ``error`` is Kafka's code, 0 when all is well."""

    parsed: Parsed
    error: int
    high_watermark: int
    log_start: int
    size_bytes: int
    limit_bytes: int = 0
    """How much was asked for; 0 for no limit."""

    @property
    def records(self) -> list[Record]:
        """Records at and after the offset that was asked for."""
        return self.parsed.records

    @property
    def cut_short(self) -> bool:
        """The byte limit was reached, so there may be more."""
        return self.parsed.consumed_bytes < self.size_bytes or 0 < self.limit_bytes <= self.size_bytes


def _fetch(
    target: Target,
    replica_id: int,
    offsets: Mapping[TopicPartition, int],
    max_bytes: int,
    dialect: Dialect,
    timeout_s: float | None,
) -> dict[TopicPartition, Fetched]:
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), offset in offsets.items():
        asked = FetchRequest.FetchTopic.FetchPartition(
            partition=partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            log_start_offset=-1,
            partition_max_bytes=max_bytes,
        )
        by_topic.setdefault(topic, []).append(asked)
    request = FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes * max(1, len(offsets)),
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=name, partitions=asked) for name, asked in by_topic.items()],
        forgotten_topics_data=[],
        rack_id="",
    )
    answer = exchange(target, request, FetchResponse, dialect.fetch, timeout_s)
    if dialect.fetch >= 7 and answer.error_code:
        return {key: Fetched(Parsed([], [], 0), answer.error_code, -1, -1, 0) for key in offsets}
    found = {}
    for topic in answer.responses:
        for data in topic.partitions:
            key = (topic.topic, data.partition_index)
            raw = bytes(data.records or b"")
            log_start = data.log_start_offset if dialect.fetch >= 5 else -1
            parsed = parse(raw, offsets[key])
            found[key] = Fetched(parsed, data.error_code, data.high_watermark, log_start, len(raw), max_bytes)
    return found


def fetch_own_logs(
    target: Target,
    offsets: Mapping[TopicPartition, int],
    max_bytes: int = 1 << 20,
    *,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
) -> dict[TopicPartition, Fetched]:
    """`fetch_own_log` of several partitions with one request, each from an offset of its own."""
    if not dialect.own_log_by_fetch:
        raise UnfitError("This Kafka version cannot show a follower's own log over the wire; read its files.")
    return _fetch(target, OWN_LOG, offsets, max_bytes, dialect, timeout_s) if offsets else {}


def fetch_own_log(
    target: Target,
    topic: str,
    partition: int,
    offset: int = 0,
    max_bytes: int = 1 << 20,
    *,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
) -> Fetched:
    """This replica's own log from ``offset`` on, beyond the high watermark, up to ``max_bytes``.

    The watermark in the answer is this replica's own. No side effects on ISR or watermark.
    Raises UnfitError before Kafka 1.1: there the files must be read (`harness.kafka.batches`).
    """
    key = (topic, partition)
    return fetch_own_logs(target, {key: offset}, max_bytes, dialect=dialect, timeout_s=timeout_s)[key]


def fetch_as_consumer(
    target: Target,
    topic: str,
    partition: int,
    offset: int = 0,
    max_bytes: int = 1 << 20,
    *,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
) -> Fetched:
    """What a consumer that asks this broker would be handed from ``offset`` on."""
    key = (topic, partition)
    return _fetch(target, CONSUMER, {key: offset}, max_bytes, dialect, timeout_s)[key]
