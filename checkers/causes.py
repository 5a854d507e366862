"""Why a message was lost, duplicated or left on one replica only, as far as the evidence goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.evidence import Evidence, FaultSpan, Sightings, hosts_in
from checkers.partition.fate import LOSSES
from checkers.partition.fates import FATE, INFO, OK, Context, Sends

NO_EVIDENCE = "not known: no election, truncation or fault in the history explains it"


@dataclass(frozen=True)
class Event:
    """A truncation or an election of one partition, placed in time."""

    ns: int
    kind: str
    broker: int
    offset: int
    epoch: int
    isr_before: tuple[int, ...]


def partition_events(evidence: Evidence, topic: str, partition: int) -> tuple[list[Event], list[Event]]:
    """Truncations (from broker logs) and elections (from views) of a partition, by time."""
    cuts = [
        Event(row["ns"], row["kind"], _number(row["host"]), _or(row["offset"]), _or(row["epoch"]), ())
        for row in evidence.rows("log_events")
        if row["kind"] in ("truncated", "truncated_to_hw", "unclean_election")
        and (row["topic"], row["partition"]) == (topic, partition)
    ]
    views = sorted(
        (
            row
            for row in evidence.rows("views")
            if row["subject"] == "partition" and (row["topic"], row["partition"]) == (topic, partition)
        ),
        key=lambda row: int(row["ns"]),
    )
    elections: list[Event] = []
    epoch, isr = -2, tuple[int, ...]()
    for row in views:
        told, leader = _or(row["epoch"]), _or(row["leader"])
        if told > epoch and leader >= 0:
            elections.append(Event(row["ns"], "elected", leader, -1, told, isr))
        if told >= epoch:
            epoch, isr = told, tuple(row["isr"] or ())
    return sorted(cuts, key=lambda event: event.ns), elections


def _or(value: Any) -> int:
    return -1 if value is None else int(value)


def _number(host: str) -> int:
    digits = "".join(c for c in host if c.isdigit())
    return int(digits) if digits else -1


def loss_causes(
    context: Context,
    evidence: Evidence,
    fate: Any,
    acked_ns: Any,
    acked_by: Any,
    offset: Any,
    seen: Sightings,
) -> Any:
    """A cause for every message whose fate is a loss; null for the others."""
    rows = np.flatnonzero(np.isin(fate, [FATE[name] for name in LOSSES]))
    if not len(rows):
        return pa.nulls(len(fate), pa.string())
    cuts, elections = partition_events(evidence, context.topic, context.partition)
    holder = np.where(seen.last_broker >= 0, seen.last_broker, acked_by)[rows]
    end = np.where(seen.gone_ns >= 0, seen.gone_ns, np.iinfo(np.int64).max)[rows]
    when, at, by = acked_ns[rows], offset[rows], acked_by[rows]
    marks = [event.ns for event in (*cuts, *elections)]
    marks += [ns for fault in evidence.faults for ns in (fault.from_ns, fault.until_ns)]
    edge_ns = np.unique(np.array(marks, dtype=np.int64))
    cell = [np.searchsorted(edge_ns, when), np.searchsorted(edge_ns, end), by, holder]
    offsets = np.unique(np.array([cut.offset for cut in cuts], dtype=np.int64))
    cell.append(np.searchsorted(offsets, at, side="right"))
    table = np.stack([np.asarray(values, dtype=np.int64) for values in cell], axis=1)
    _, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    texts = [
        _explain(evidence.faults, cuts, elections, int(when[i]), int(by[i]), int(holder[i]), int(at[i]))
        for i in first
    ]
    found = np.full(len(fate), None, dtype=object)
    found[rows] = np.array(texts, dtype=object)[inverse.reshape(-1)]
    return pa.array(found, pa.string())


def _explain(
    faults: tuple[FaultSpan, ...],
    cuts: list[Event],
    elections: list[Event],
    acked_ns: int,
    acked_by: int,
    holder: int,
    offset: int,
) -> str:
    """The mechanism that took one message away, in words. Same inputs within a cell, same answer."""
    storage = [f for f in faults if f.kind == "storage" and f.from_ns >= acked_ns]
    for fault in storage:
        named = hosts_in(fault.targets) | {fault.name}
        if acked_by < 0 or any(f"broker{acked_by}" in name for name in named):
            return _storage(fault, acked_by)
    later = [e for e in elections if e.ns >= acked_ns and e.broker != acked_by]
    earlier = [e for e in elections if e.ns < acked_ns]
    ruling = earlier[-1] if earlier else None
    cut = next(
        (
            c
            for c in cuts
            if c.ns >= acked_ns and 0 <= c.offset <= max(offset, 0) and (holder < 0 or c.broker == holder)
        ),
        None,
    )
    high_watermark = next((c for c in cuts if c.kind == "truncated_to_hw" and c is cut), None)
    done = f"; broker{cut.broker} truncated its log to offset {cut.offset}" if cut else ""
    usurped = ruling is not None and acked_by >= 0 and ruling.broker != acked_by
    winner = ruling if usurped else (later[0] if later else None)
    if winner is not None and winner.isr_before and winner.broker not in winner.isr_before:
        return (
            f"unclean election: broker{winner.broker} became leader in epoch {winner.epoch} although the "
            f"in-sync replicas were {list(winner.isr_before)}{done}"
        )
    if high_watermark is not None:
        return (
            f"high-watermark truncation: broker{high_watermark.broker} truncated to its own high watermark "
            f"{high_watermark.offset} instead of asking for the epoch's end"
        )
    if usurped and ruling is not None:
        healed = [f for f in faults if f.until_ns <= acked_ns]
        standing = [f for f in faults if f.from_ns <= acked_ns < f.until_ns]
        if healed and not standing:
            return (
                f"zombie accepted after heal: broker{acked_by} acknowledged it after `{healed[-1].name}` was "
                f"healed, while broker{ruling.broker} led in epoch {ruling.epoch}{done}"
            )
        return (
            f"old leader truncated on rejoin: broker{acked_by} acknowledged it while broker{ruling.broker} "
            f"led in epoch {ruling.epoch}{done}"
        )
    if winner is not None:
        return (
            f"old leader truncated on rejoin: broker{acked_by if acked_by >= 0 else holder} acknowledged it "
            f"alone, then broker{winner.broker} was elected in epoch {winner.epoch}{done}"
        )
    if cut is not None:
        return f"truncated: broker{cut.broker} cut its log at offset {cut.offset}; no election was seen"
    return NO_EVIDENCE


def _storage(fault: FaultSpan, broker: int) -> str:
    name = fault.name.lower()
    who = f"broker{broker}" if broker >= 0 else "the leader"
    if any(word in name for word in ("power", "sync", "truncate", "page")):
        return f"un-fsynced data lost: `{fault.name}` took what {who} had acknowledged but not flushed"
    if any(word in name for word in ("wipe", "empty", "disk", "erase", "lose")):
        return f"last in-sync replica wiped: `{fault.name}` emptied {who}, which then led again"
    return f"storage fault: `{fault.name}` on {who}"


def duplicate_causes(evidence: Evidence, fate: Any, sends: Sends, attempts: Any) -> Any:
    """A cause for every duplicated or phantom message; null for the others."""
    texts = pa.array(
        [
            None,
            "client retry of an unknown outcome",
            "client retry: the acknowledged attempt was not the only one that was written",
            "idempotence broken: an idempotent producer's message was written twice",
            "not known: the client made one attempt as far as the history tells",
            "reported as definitely failed, yet appended",
        ],
        pa.string(),
    )
    code = np.zeros(len(fate), dtype=np.int32)
    twice = fate == FATE["duplicated"]
    idempotent = [w for w, row in evidence.writers.items() if row.get("idempotent")]
    code[twice] = 4
    code[twice & (sends.outcome == OK) & (attempts > 1)] = 2
    code[twice & (sends.outcome == INFO)] = 1
    if idempotent:
        code[twice & np.isin(sends.writer, idempotent)] = 3
    code[fate == FATE["phantom"]] = 5
    return texts.take(pa.array(code))
