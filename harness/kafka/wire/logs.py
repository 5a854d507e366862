"""Reading logs over the wire: any replica's own log, or what a consumer would receive.

FETCH names topics by their ids from version 13 on (KIP-516), and puts the replica id into `ReplicaState` from
version 15 on (KIP-903). Topics without an id, which were made before Kafka 2.8, are named as before.

A replica id of 0 or more is never sent: it would move the leader's view of that follower, and with it the
high watermark.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
)

from harness.errors import UnfitError
from harness.kafka.batches import ParsedBatches, Record, offset_after, parse, positions
from harness.kafka.model import TopicPartition
from harness.kafka.wire.connection import Connection, NoAnswerError, Question, Target, connected
from harness.kafka.wire.dialect import MODERN, Dialect
from harness.kafka.wire.metadata import topic_ids
from harness.kafka.wire.offsets import CONSUMER

OWN_LOG = -3
"""Kafka's `FutureLocalReplicaId`: reads a replica's own log to its end, whatever its role."""
_BY_NAME = 12
"""The last version of FETCH that names topics, and not their ids."""
_REPLICA_STATE = 15
"""The version of FETCH from which on the replica id is in `ReplicaState`."""
_QUOTA_S = 60.0
"""How long a quota may keep an answer back."""
_STALE_IDS = (100, 103)
"""UNKNOWN_TOPIC_ID and INCONSISTENT_TOPIC_ID: the topic was deleted, and perhaps created again."""
_NO_OWN_LOG = "This Kafka version cannot show a follower's own log over the wire; read its files."


@dataclass(frozen=True, kw_only=True)
class FetchResult:
    """Result of a FETCH of one partition, or of reading its files; ``error`` is Kafka's code, 0 for none."""

    raw: bytes = b""
    """Record batches from the one with the requested offset on; the last may be cut short."""
    offset: int = 0
    """The requested offset."""
    bodies: bool = True
    """If not, `parsed` reads headers alone."""
    error: int = 0
    high_watermark: int = -1
    last_stable_offset: int | None = None
    """LSO of the replica that answers; None if the broker states none."""
    aborted: tuple[tuple[int, int], ...] = ()
    """Producer id and first offset of the aborted transactions among the records, by offset. Only answers to
    a consumer of committed records state them.
    """
    log_start: int = -1
    size_bytes: int = 0
    limit_bytes: int = 0
    """How many bytes were requested at most; 0 for no limit."""
    to_end: bool = False
    """It reaches the log's end. A FETCH returns nothing from behind the segment in which it starts."""

    @cached_property
    def parsed(self) -> ParsedBatches:
        """The records at and after the requested offset, and their batches."""
        return parse(self.raw, self.offset, bodies=self.bodies)

    @cached_property
    def positions(self) -> list[int]:
        """Where each complete batch begins and, last, where they end."""
        return positions(self.raw)

    @property
    def begun_only(self) -> bool:
        """Whether there is a batch, but not even the first one is complete. Bytes 8 to 11 are its size."""
        return 0 < len(self.raw) < 12 + int.from_bytes(self.raw[8:12], "big")

    @property
    def consumed_bytes(self) -> int:
        """Size of the batches that are complete."""
        return self.positions[-1]

    @property
    def next_offset(self) -> int | None:
        """The offset after the last complete batch; None if there is none."""
        return offset_after(self.raw, self.positions[-2]) if len(self.positions) > 1 else None

    @property
    def records(self) -> list[Record]:
        """Records at and after the requested offset."""
        return self.parsed.records

    @property
    def log_end_offset(self) -> int:
        """LEO: the offset after the last record; the log start of an empty log."""
        following = self.next_offset
        return max(self.log_start, 0) if following is None else following

    @property
    def cut_short(self) -> bool:
        """Whether the byte limit was reached, so that there may be more."""
        return self.consumed_bytes < self.size_bytes or 0 < self.limit_bytes <= self.size_bytes


def _fetch(
    target: Target,
    replica_id: int,
    offsets: Mapping[TopicPartition, int],
    max_bytes: int,
    dialect: Dialect,
    timeout_s: float | None,
    isolation_level: int = 0,
    bodies: bool = True,
) -> dict[TopicPartition, FetchResult]:
    """One FETCH; if it names a topic by an id that is not the topic's any more, one more with the new id.

    Where a quota of the user is used up, a broker answers with no partition at all and reads the next request
    later (`KafkaApis.handleFetchRequest`): it is sent again until every partition is there. Raises
    NoAnswerError if they do not come.
    """
    deadline = time.monotonic() + _QUOTA_S

    def attempt(connection: Connection) -> dict[TopicPartition, FetchResult]:
        ids = _ids(connection, offsets, dialect, timeout_s)
        question = _question(replica_id, offsets, ids, max_bytes, dialect, isolation_level, bodies=bodies)
        return connection.ask(question, timeout_s)

    with connected(target) as connection:
        answers = attempt(connection)
        if any(answer.error in _STALE_IDS for answer in answers.values()):
            connection.topic_ids.clear()
            answers = attempt(connection)
        while not offsets.keys() <= answers.keys():
            if not connection.muted or time.monotonic() > deadline:
                raise NoAnswerError(f"{connection.endpoint} answered without a partition that was asked for")
            answers = {**answers, **attempt(connection)}
    return answers


def _ids(
    connection: Connection,
    offsets: Mapping[TopicPartition, int],
    dialect: Dialect,
    timeout_s: float | None,
) -> Mapping[str, UUID] | None:
    """The ids of the topics; None if FETCH has to name one of them.

    The broker then says itself why: the topic is unknown or may not be described, or has no id.
    """
    if dialect.fetch <= _BY_NAME:
        return None
    topics = {key.topic for key in offsets}
    if not topics <= connection.topic_ids.keys():
        try:
            stated = topic_ids(connection, sorted(topics), timeout_s=timeout_s)
        except LookupError:
            return None
        connection.topic_ids |= {name: one for name, one in stated.items() if one is not None and one.int}
    return connection.topic_ids if topics <= connection.topic_ids.keys() else None


def _question(
    replica_id: int,
    offsets: Mapping[TopicPartition, int],
    ids: Mapping[str, UUID] | None,
    max_bytes: int,
    dialect: Dialect,
    isolation_level: int,
    *,
    bodies: bool,
) -> Question[dict[TopicPartition, FetchResult]]:
    version = dialect.fetch if ids is not None else min(dialect.fetch, _BY_NAME)
    names = sorted({key.topic for key in offsets})
    by_id = {} if ids is None else {str(ids[name]): name for name in names}

    def request() -> Any:
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
        shape = FetchRequest.FetchTopic
        reader = {"replica_id": replica_id}
        if version >= _REPLICA_STATE:
            reader = {"replica_state": FetchRequest.ReplicaState(replica_id=replica_id)}
        return FetchRequest(
            **reader,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes * max(1, len(offsets)),
            isolation_level=isolation_level,
            session_id=0,
            session_epoch=-1,
            topics=[
                shape(topic=name, partitions=asked)
                if ids is None
                else shape(topic_id=ids[name], partitions=asked)
                for name, asked in by_topic.items()
            ],
            forgotten_topics_data=[],
            rack_id="",
        )

    def fetched(answer: Any) -> dict[TopicPartition, FetchResult]:
        if version >= 7 and answer.error_code:
            return {key: FetchResult(error=answer.error_code) for key in offsets}
        fetched_logs = {}
        for topic in answer.responses:
            name = topic.topic if ids is None else by_id[str(topic.topic_id)]
            for data in topic.partitions:
                key = TopicPartition(name, data.partition_index)
                fetched_logs[key] = _of_partition(data, offsets[key], max_bytes, version, bodies=bodies)
        return fetched_logs

    return Question(
        key=(replica_id, tuple(offsets.items()), tuple(by_id), max_bytes, isolation_level, bodies),
        request=request,
        response=FetchResponse,
        version=version,
        parse=fetched,
    )


def _of_partition(data: Any, offset: int, max_bytes: int, version: int, *, bodies: bool) -> FetchResult:
    raw = bytes(data.records or b"")
    has_lso, has_start = version >= 4, version >= 5
    aborted = (data.aborted_transactions or ()) if has_lso else ()
    return FetchResult(
        raw=raw,
        offset=offset,
        bodies=bodies,
        error=data.error_code,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset if has_lso and data.last_stable_offset >= 0 else None,
        aborted=tuple(
            sorted(((one.producer_id, one.first_offset) for one in aborted), key=lambda pair: pair[1])
        ),
        log_start=data.log_start_offset if has_start else -1,
        size_bytes=len(raw),
        limit_bytes=max_bytes,
    )


def _joined(before: FetchResult, after: FetchResult) -> FetchResult:
    """An answer, and the one that continues it: the later one states the newer offsets."""
    return replace(
        after,
        raw=before.raw + after.raw,
        offset=before.offset,
        size_bytes=before.size_bytes + after.size_bytes,
        to_end=after.size_bytes == 0,
    )


def fetch_own_logs(
    target: Target,
    offsets: Mapping[TopicPartition, int],
    max_bytes: int = 1 << 20,
    *,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
    bodies: bool = True,
) -> dict[TopicPartition, FetchResult]:
    """`fetch_own_log` for several partitions at once, each from its own offset.

    A broker answers a FETCH from one segment of the log, so the end of an answer is not that of the log: each
    partition is requested further on until its answer is empty, or has reached ``max_bytes``.
    """
    if not dialect.own_log_by_fetch:
        raise UnfitError(_NO_OWN_LOG)
    read: dict[TopicPartition, FetchResult] = {}
    following = dict(offsets)
    while following:
        answers = _fetch(target, OWN_LOG, following, max_bytes, dialect, timeout_s, bodies=bodies)
        following = {}
        for key, answer in answers.items():
            if key in read and answer.error:
                continue
            read[key] = fetched = _joined(read[key], answer) if key in read else answer
            end = answer.next_offset
            if end is not None and not fetched.cut_short:
                following[key] = end
    return read


def fetch_more_of_own_logs(
    target: Target,
    offsets: Mapping[TopicPartition, int],
    max_bytes: int = 1 << 20,
    *,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
) -> dict[TopicPartition, FetchResult]:
    """`fetch_own_logs` for somebody who goes on reading: what one request shows of each partition.

    While records come, no answer is empty, so a reader that wants the end of the log runs after it. A
    partition whose first batch did not fit beside the others is requested by itself.
    """
    if not dialect.own_log_by_fetch:
        raise UnfitError(_NO_OWN_LOG)
    answers = _fetch(target, OWN_LOG, offsets, max_bytes, dialect, timeout_s, bodies=True)
    for key in [key for key, answer in answers.items() if answer.begun_only] if len(offsets) > 1 else ():
        answers |= _fetch(target, OWN_LOG, {key: offsets[key]}, max_bytes, dialect, timeout_s, bodies=True)
    return answers


def fetch_own_log(
    target: Target,
    topic: str,
    partition: int,
    offset: int = 0,
    max_bytes: int = 1 << 20,
    *,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
    bodies: bool = True,
) -> FetchResult:
    """This replica's own log from ``offset`` on, beyond the high watermark, up to ``max_bytes``.

    Without ``bodies`` a record stands for each batch (`parse`).
    The watermark in the answer is this replica's own. No side effects on ISR or watermark.
    Raises UnfitError before Kafka 1.1: there the files must be read (`harness.kafka.batches`).
    """
    key = TopicPartition(topic, partition)
    offsets = {key: offset}
    return fetch_own_logs(target, offsets, max_bytes, dialect=dialect, timeout_s=timeout_s, bodies=bodies)[
        key
    ]


def fetch_as_consumer(
    target: Target,
    topic: str,
    partition: int,
    offset: int = 0,
    max_bytes: int = 1 << 20,
    *,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
    committed: bool = False,
    bodies: bool = True,
) -> FetchResult:
    """What a consumer that fetches from this broker receives from ``offset`` on.

    With ``committed`` it reads up to the last stable offset, as with isolation.level=read_committed. The
    consumer itself leaves out control records and aborted ones (`FetchResult.aborted`): see
    `committed_records`.
    """
    key = TopicPartition(topic, partition)
    offsets, level = {key: offset}, int(committed)
    return _fetch(target, CONSUMER, offsets, max_bytes, dialect, timeout_s, level, bodies=bodies)[key]


def committed_records(records: Iterable[Record], aborted: Iterable[tuple[int, int]]) -> list[Record]:
    """Those of ``records`` that a consumer hands to an application that wants committed ones.

    ``aborted`` is that of `FetchResult`.
    """
    waiting, aborting, kept = list(aborted), set[int](), []
    for record in records:
        while waiting and waiting[0][1] <= record.offset:
            aborting.add(waiting.pop(0)[0])
        if record.control:
            if record.marker is not None and record.marker.end == "abort":
                aborting.discard(record.producer_id)
        elif not (record.transactional and record.producer_id in aborting):
            kept.append(record)
    return kept
