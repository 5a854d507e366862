"""Replicas against each other, and messages against the order in which they were acknowledged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from checkers.partition.fates import FATE, OK, Context, Fates, Log, Sends, empty_log

CONTENT, EPOCH, MISSING, EXTRA, LENGTH, BEGIN = 0, 1, 2, 3, 4, 5
KINDS = (
    "another record stands there",
    "the same record, written in another leader epoch",
    "the record is missing there",
    "a record that the reference log does not have",
    "its log ends earlier",
    "its log begins later",
)


@dataclass(frozen=True)
class Difference:
    """Offsets at which a follower disagrees with the reference log; one entry per offset."""

    broker: int
    kind: int
    offset: Any
    epoch: Any
    writer: Any
    seq: Any
    count: Any


def differences(context: Context, logs: list[Log], *, first: bool = True) -> list[Difference]:
    """Where the in-sync replicas differ from the reference.

    ``first`` says that the logs given begin where the replicas do (they are no later piece of them). A log
    that ends early is reported by every piece beyond its end; the first such report counts.
    """
    if context.spans is not None:
        logs = [*logs, *(empty_log(b) for b in context.spans if b not in {log.broker for log in logs})]
    reference = next((log for log in logs if log.broker == context.reference), None)
    if reference is None or not (len(reference.offset) or context.spans):
        return []
    found: list[Difference] = []
    for log in logs:
        known = context.replicas.get(log.broker)
        if log.broker == context.reference or (known is not None and known.in_sync is False):
            continue
        found += _against(context, reference, log, first)
    for broker, known in context.replicas.items():
        bare = known.complete and known.in_sync is not False and broker not in {log.broker for log in logs}
        if bare and first and len(reference.offset) and known.log_start <= int(reference.offset[0]):
            found.append(_pick(broker, LENGTH, reference, np.array([0]), len(reference.offset)))
    return found


def _against(context: Context, reference: Log, log: Log, first: bool) -> list[Difference]:
    same = len(log.offset) == len(reference.offset) and np.array_equal(log.offset, reference.offset)
    mine: Any = slice(None)
    theirs: Any = slice(None)
    if same:
        only_mine = only_theirs = np.empty(0, dtype=np.int64)
    else:
        place = reference.at(log.offset)
        mine, theirs = np.flatnonzero(place >= 0), place[place >= 0]
        only_mine = np.flatnonzero(place < 0)
        only_theirs = np.flatnonzero(log.at(reference.offset) < 0)
    other = (log.writer[mine] != reference.writer[theirs]) | (log.seq[mine] != reference.seq[theirs])
    other |= log.control[mine] != reference.control[theirs]
    epochs = log.epoch[mine] != reference.epoch[theirs]
    if epochs.any():
        epochs &= ~other & (log.epoch[mine] >= 0) & (reference.epoch[theirs] >= 0)
    content = np.flatnonzero(other)
    renewed = np.flatnonzero(epochs)
    if not same:
        content, renewed = mine[content], mine[renewed]
    found = [
        _pick(log.broker, CONTENT, log, content),
        _pick(log.broker, EPOCH, log, renewed),
    ]
    if not same:
        found += _missing(context, reference, log, only_theirs, first)
        found += _extra(context, reference, log, only_mine)
    return [difference for difference in found if len(difference.offset)]


def _missing(context: Context, reference: Log, log: Log, rows: Any, first: bool) -> list[Difference]:
    known = context.replicas.get(log.broker)
    if context.spans is not None:
        begin, end = context.spans[log.broker]
    else:
        begin, end = int(log.offset[0]), int(log.offset[-1])
    offsets = reference.offset[rows]
    head = rows[offsets < begin] if first else rows[:0]
    tail = rows[offsets > end]
    middle = rows[(offsets >= begin) & (offsets <= end)]
    found = []
    if known is not None:
        head = head[reference.offset[head] >= known.log_start]
    if len(head) and not context.compacted:
        found.append(_pick(log.broker, BEGIN, reference, head[:1], len(head)))
    if len(middle) and not context.compacted:
        found.append(_pick(log.broker, MISSING, reference, middle))
    if len(tail) and (known is None or known.complete):
        found.append(_pick(log.broker, LENGTH, reference, tail[:1], len(tail)))
    return found


def _extra(context: Context, reference: Log, log: Log, rows: Any) -> list[Difference]:
    if context.compacted:
        whole = None if context.spans is None else context.spans[context.reference][1]
        rows = rows[log.offset[rows] > (reference.offset[-1] if whole is None else whole)]
    known = context.replicas.get(context.reference)
    if known is not None:
        rows = rows[log.offset[rows] >= known.log_start]
    return [_pick(log.broker, EXTRA, log, rows)]


def _pick(broker: int, kind: int, log: Log, rows: Any, count: int = 1) -> Difference:
    counts = np.full(len(rows), count, dtype=np.int64)
    return Difference(
        broker, kind, log.offset[rows], log.epoch[rows], log.writer[rows], log.seq[rows], counts
    )


@dataclass(frozen=True)
class Edge:
    """Lowest and highest offset of one writer's ordered messages in a piece; pieces are compared by these."""

    writer: int
    low: int
    high: int


def ordered(sends: Sends, fates: Fates) -> Any:
    """Messages whose order counts: acknowledged, in the reference log once, and at the offset reported."""
    return np.flatnonzero((sends.outcome == OK) & (fates.fate == FATE["kept"]) & (fates.copies == 1))


def out_of_order(sends: Sends, fates: Fates, later_low: dict[int, int]) -> tuple[Any, list[Edge]]:
    """Messages that stand behind a later one of their writer, and the piece's edges.

    ``later_low`` gives, per writer, the lowest offset among its ordered messages in later pieces.
    """
    rows = ordered(sends, fates)
    late: list[Any] = []
    edges: list[Edge] = []
    writers = sends.writer[rows]
    for writer in np.unique(writers):
        mine = rows[writers == writer]
        seqs = sends.seq[mine]
        if len(seqs) > 1 and not np.all(seqs[1:] > seqs[:-1]):
            mine = mine[np.argsort(seqs, kind="stable")]
        offsets = fates.found_offset[mine]
        ahead = later_low.get(int(writer), np.iinfo(np.int64).max)
        edges.append(Edge(int(writer), int(offsets.min()), int(offsets.max())))
        if ahead > edges[-1].high and (len(offsets) < 2 or np.all(offsets[1:] > offsets[:-1])):
            continue
        lowest = np.minimum.accumulate(np.append(offsets[1:], ahead)[::-1])[::-1]
        late.append(mine[offsets > lowest])
    return (np.concatenate(late) if late else rows[:0]), edges
