"""What the history documents about removals of messages, and the causes that follow from it.

`checkers.partition.removals` says which reasons there are, and which message each of them explains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.causes import Causes, cause_of_log_start, fault_row, log_start_row
from checkers.evidence import Evidence, FaultSpan, Row
from checkers.partition.logs import PartitionReplicas, Replica
from checkers.partition.messages import FOREVER, Ints
from checkers.partition.removals import (
    BY_SIZE,
    BY_TIME,
    BY_TIME_OR_SIZE,
    COMPACTED,
    NONE,
    NOT_RECORDED,
    RECORDS_DELETED,
    TOPIC_DELETED,
    Removals,
)
from checkers.records import Cause, evidence_row
from checkers.retention import config_rows, retention_of
from harness.kafka.model import TopicPartition

_STARTS = ("log_start", "records_deleted")
"""Kinds of `log_events` with a log start offset that a broker reports."""
_OF_OWN_CLIENTS = ("raw", "librdkafka", "java")
"""Clients that give each record the time of sending as its timestamp if they are given no other."""


def removals_of(evidence: Evidence, where: TopicPartition, reference: Replica | None) -> Removals:
    """The documented reasons for which a partition, by its ``reference`` replica, may lack messages."""
    retention = retention_of(evidence, where.topic)
    deletions = [ns for ns, _ in _topic_deletions(evidence, where)]
    deleted_ns = max(deletions, default=-1)
    starts = (
        [] if reference is None else list(_reported_starts(evidence, where, reference.broker, deleted_ns))
    )
    offsets, times = _earliest(starts)
    requests = [offset for offset, _ in _deleted_records(evidence, where, deleted_ns)]
    ages = sorted(_ages(evidence))
    limited = retention.deletes and (retention.age_ms or 0) >= 0
    return Removals(
        recorded=retention.recorded,
        retention_ns=(retention.age_ms or 0) * 1_000_000 if limited and retention.recorded else FOREVER,
        by_size=retention.deletes and _may_exceed(retention.size_bytes, reference),
        deleted_below=max(requests, default=0),
        topic_deleted_ns=deleted_ns,
        start_offset=offsets,
        start_ns=times,
        read_ns=-1 if reference is None else reference.read_ns,
        stamped_by_broker=retention.stamped_by_broker,
        dated=np.array([writer for writer, _ in ages], dtype=np.int64),
        age_ns=np.array([age_ns for _, age_ns in ages], dtype=np.int64),
    )


def _may_exceed(limit: int | None, reference: Replica | None) -> bool:
    """Whether the log was ever large enough for retention by size: it leaves at least ``limit`` bytes."""
    if limit is None or limit < 0:
        return False
    return reference is None or reference.size_bytes < 0 or reference.size_bytes >= limit


def _ages(evidence: Evidence) -> Iterator[tuple[int, int]]:
    """Writers whose timestamps are known, and by how many ns they are older than the time of sending."""
    for number, writer in evidence.writers.items():
        age_ms = writer.get("event_age_ms")
        if age_ms is not None or writer.get("client") in _OF_OWN_CLIENTS:
            yield number, (age_ms or 0) * 1_000_000


# ---- what the run did, and what brokers reported


def _log_rows(evidence: Evidence, kinds: tuple[str, ...], where: TopicPartition) -> list[Row]:
    """Rows of `log_events` of some kinds about a partition, or about its topic as a whole."""
    table = evidence.tables.get("log_events")
    if table is None or not table.num_rows:
        return []
    here = pc.or_kleene(pc.equal(table["partition"], where.partition), pc.is_null(table["partition"]))
    about = pc.and_kleene(pc.equal(table["topic"], where.topic), here)
    rows: list[Row] = table.filter(pc.and_kleene(about, pc.is_in(table["kind"], pa.array(kinds)))).to_pylist()
    return rows


def _faults(evidence: Evidence, mechanism: str, where: TopicPartition) -> Iterator[FaultSpan]:
    name = f"{where.topic}/{where.partition}"
    return (fault for fault in evidence.faults if fault.mechanism == mechanism and name in fault.partitions)


def _topic_deletions(evidence: Evidence, where: TopicPartition) -> Iterator[tuple[int, Any]]:
    """When the topic was deleted, and the fault or row of `log_events` that says so."""
    for fault in _faults(evidence, "delete_topic", where):
        yield fault.from_ns, fault
    for row in _log_rows(evidence, ("topic_deleted",), where):
        yield row["ns"], row


def _deleted_records(evidence: Evidence, where: TopicPartition, since_ns: int) -> Iterator[tuple[int, Any]]:
    """Offsets below which DeleteRecords requests removed records after a time, and what says so."""
    for fault in _faults(evidence, "delete_records", where):
        before = fault.targets.get("before_offset")
        if fault.from_ns > since_ns and type(before) is int:
            yield before, fault
    for row in _log_rows(evidence, ("records_deleted",), where):
        if row["ns"] > since_ns and row["offset"] is not None:
            yield row["offset"], row


def _reported_starts(
    evidence: Evidence, where: TopicPartition, broker: int, since_ns: int
) -> Iterator[tuple[int, int]]:
    """Log start offsets that a broker reported after a time, each with the time of the report."""
    for row in _log_rows(evidence, _STARTS, where):
        if row["host"] == f"broker{broker}" and row["ns"] > since_ns and row["offset"] is not None:
            yield row["offset"], row["ns"]


def _earliest(starts: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    """Log start offsets, rising, and when each of them or a later one was first reported."""
    ordered = np.array(sorted(starts), dtype=np.int64).reshape(-1, 2)
    earliest = np.minimum.accumulate(ordered[::-1, 1])[::-1]
    return ordered[:, 0], earliest


# ---- causes


def removal_causes(partition: PartitionReplicas, evidence: Evidence, codes: Ints) -> Causes:
    """A cause for every message that may have been removed for a reason (``codes``); null for others."""
    where = TopicPartition(partition.topic, partition.number)
    present = np.unique(codes[codes >= 0]).tolist()
    if not present:
        return Causes.none(len(codes))
    start = log_start_row(partition, evidence)
    causes = [_described(code, partition.removals, start, evidence, where) for code in present]
    chosen = np.where(codes >= 0, np.searchsorted(np.array(present, dtype=np.int64), codes), -1)
    return Causes.of(causes, pa.array(chosen, mask=chosen < 0))


def cause_of_start(evidence: Evidence, where: TopicPartition, mark: Row, offset: int, since_ns: int) -> Cause:
    """Why a log began above ``offset`` when a row of `watermarks` (``mark``) says so.

    It is not known which record stood there. It was sent after the history began, and if the topic was
    deleted, that explains its removal only after ``since_ns``, when a reader had that position.
    """
    broker, log_start, ns = mark["broker"], mark["log_start"], mark["ns"]
    start = evidence_row("watermarks", ns, f"broker{broker}: log start offset {log_start}")
    removals = removals_of(evidence, where, Replica(broker=broker, log_start=log_start, read_ns=ns))
    if not since_ns < removals.topic_deleted_ns <= ns:
        removals = replace(removals, topic_deleted_ns=-1)
    oldest = removals.dated[np.argsort(-removals.age_ns)][:1]
    dated = oldest if len(removals.dated) == len(evidence.writers) else oldest[:0]
    (code,) = removals.reasons(
        np.array([offset]),
        np.array([False]),
        np.array([evidence.start_ns]),
        dated if len(dated) else np.array([-1]),
        log_start=log_start,
        compacted_below=-1,
    ).tolist()
    if code == NONE:
        return cause_of_log_start(evidence, where, start, evidence.start_ns, ns)
    return _described(code, removals, start, evidence, where)


def _described(code: int, removals: Removals, start: str, evidence: Evidence, where: TopicPartition) -> Cause:
    """The cause of a removal; ``start`` is the row of the log start."""
    deleted_ns = removals.topic_deleted_ns
    if code == TOPIC_DELETED:
        last = max(_topic_deletions(evidence, where), key=lambda deletion: deletion[0])
        return Cause(kind="topic_deleted", facts={"topic": where.topic}, rows=(_row_of(last[1]),))
    if code == RECORDS_DELETED:
        below = removals.deleted_below
        by = [
            _row_of(said) for offset, said in _deleted_records(evidence, where, deleted_ns) if offset == below
        ]
        return Cause(kind="records_deleted", facts={"offset": below}, rows=(*by[:1], start))
    if code == NOT_RECORDED:
        return Cause(kind="retention_not_recorded", rows=(start,))
    settings = [
        evidence_row("configs", None, f"topic {where.topic}: {row['key']}={row['value']}")
        for row in config_rows(evidence, where.topic)
        if row["key"] in _DECIDING[code]
    ]
    retention = retention_of(evidence, where.topic)
    if code == COMPACTED:
        return Cause(kind="compaction", rows=(*settings, start))
    kinds = ("segment_expired", "segment_oversized")
    lines = [row for row in _log_rows(evidence, kinds, where) if row["ns"] > deleted_ns]
    if code == BY_TIME_OR_SIZE and len({row["kind"] for row in lines}) == 1:
        code = BY_TIME if lines[0]["kind"] == "segment_expired" else BY_SIZE
    facts = {
        "retention_ms": None if code == BY_SIZE else retention.age_ms,
        "retention_bytes": None if code == BY_TIME else retention.size_bytes,
    }
    kind = {BY_TIME: "retention_by_time", BY_SIZE: "retention_by_size"}.get(code, "retention_by_time_or_size")
    return Cause(kind=kind, facts=facts, rows=(*settings, *(_row_of(row) for row in lines[:1]), start))


_DECIDING = {
    COMPACTED: ("cleanup.policy",),
    BY_TIME: ("retention.ms", "message.timestamp.type"),
    BY_SIZE: ("retention.bytes",),
    BY_TIME_OR_SIZE: ("retention.ms", "retention.bytes"),
}
"""The properties of the topic on which each reason rests."""


def _row_of(said: FaultSpan | Row) -> str:
    if isinstance(said, FaultSpan):
        return fault_row(said)
    offset = "" if said["offset"] is None else f" at offset {said['offset']}"
    return evidence_row("log_events", said["ns"], f"{said['host']} {said['kind']}{offset}")
