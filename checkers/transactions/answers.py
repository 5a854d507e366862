"""What applications asked for, and the answers that they received: one row per transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.partition.fate import TRANSACTION_ENDS
from checkers.partition.messages import EMPTY, FOREVER, Flags, Ints, KeyIndex, pair_order
from harness.errors import BadDataError, json_object

REPORTED = ("open", *TRANSACTION_ENDS)
_EVENTS = ("begin", "committing", "aborting", *TRANSACTION_ENDS)
OPEN, COMMITTED, ABORTED, UNKNOWN = range(4)
ASKED_COMMIT, ASKED_ABORT = 1, 2
"""Bits: which ends the application asked for."""

TIMEOUT_MS = 60_000
"""Default of `transaction.timeout.ms`."""
CLEANUP_MS = 10_000
"""By how much a time-out may be late: `transaction.abort.timed.out.transaction.cleanup.interval.ms`."""


@dataclass(frozen=True, kw_only=True)
class Fence:
    """A span in which a producer was fenced: after ``from_ns``, and not after ``until_ns``."""

    from_ns: int
    until_ns: int
    """When the producer was given a producer id again."""
    recorded: bool
    """The history has the answer to the producer's own InitProducerId."""
    by_recorded: bool
    """The history has the answer to its successor's InitProducerId, at ``from_ns``."""


@dataclass(frozen=True, kw_only=True)
class ReportedTransactions:
    """The rows of `transactions` by transaction, ordered by writer and number; times are -1 if not known."""

    writer: Ints = field(default_factory=EMPTY.copy)
    txn: Ints = field(default_factory=EMPTY.copy)
    reported: Ints = field(default_factory=EMPTY.copy)
    """Positions in `REPORTED`."""
    asked: Ints = field(default_factory=EMPTY.copy)
    begin_ns: Ints = field(default_factory=EMPTY.copy)
    ending_ns: Ints = field(default_factory=EMPTY.copy)
    """When an end was first asked for."""
    ended_ns: Ints = field(default_factory=EMPTY.copy)
    """When the last answer arrived."""
    timeout_ns: Mapping[int, int] = field(default_factory=dict)
    """By writer: after this time the coordinator has ended a transaction by itself."""
    fences: Mapping[int, Sequence[Fence]] = field(default_factory=dict)
    """By writer: when another producer had taken its transactional id, by rising time."""

    def __len__(self) -> int:
        return len(self.txn)

    def for_tasks(self) -> ReportedTransactions:
        """The same without what only the driver needs: there may be millions, and all of them travel."""
        return replace(self, asked=EMPTY, ended_ns=EMPTY)

    def find(self, writer: Ints, txn: Ints) -> Ints:
        """Row of each transaction, -1 where `transactions` has none."""
        if not len(self) or not len(txn):
            return np.full(len(txn), -1, dtype=np.int64)
        low, high = int(writer.min()), int(writer.max())
        first, end = np.searchsorted(self.writer, [low, high + 1])
        index = KeyIndex(self.writer[first:end], self.txn[first:end], "transactions")
        place = index.find(writer, txn)
        return np.where(place >= 0, place + first, -1)

    def reported_of(self, rows: Ints) -> Ints:
        """What was reported about transactions (rows of `find`); nothing is known of one without a row."""
        return np.where(rows >= 0, self.reported[rows], UNKNOWN) if len(self) else np.full(len(rows), UNKNOWN)

    def asked_of(self, rows: Ints) -> Ints:
        """Which ends were asked for."""
        return np.where(rows >= 0, self.asked[rows], 0) if len(self) else np.zeros(len(rows), np.int64)

    def ns_of(self, name: str, rows: Ints) -> Ints:
        """A time of each transaction, -1 if not known."""
        empty = np.full(len(rows), -1, dtype=np.int64)
        return np.where(rows >= 0, getattr(self, name)[rows], -1) if len(self) else empty

    def timeouts(self, writer: Ints) -> Ints:
        """The time-out of each writer's transactions."""
        timeouts_ns = np.full(len(writer), (TIMEOUT_MS + CLEANUP_MS) * 1_000_000, dtype=np.int64)
        for number, value in self.timeout_ns.items():
            timeouts_ns[writer == number] = value
        return timeouts_ns

    def sent_fenced(self, writer: Ints, sent_ns: Ints, rows: Ints) -> Flags:
        """Whether a producer was fenced when it sent a message of a transaction (a row of `find`).

        If the history does not say when the producer was given its id, a transaction that began later and was
        reported as committed shows that it was given one again.
        """
        fenced = np.zeros(len(writer), dtype=bool)
        if not self.fences:
            return fenced
        begun, committed = self.ns_of("begin_ns", rows), self.reported_of(rows) == COMMITTED
        for number, spans in self.fences.items():
            of_writer = writer == number
            for span in spans if of_writer.any() else ():
                inside = of_writer & (sent_ns > span.from_ns) & (sent_ns <= span.until_ns)
                fenced |= inside & (span.recorded | ~committed | (begun < span.from_ns))
        return fenced


def may_commit(reported: Ints, asked: Ints) -> Flags:
    """Whether it can have been committed: not if it was aborted, or if nobody asked for a commit."""
    possible: Flags = (reported == COMMITTED) | ((reported == UNKNOWN) & (asked != ASKED_ABORT))
    return possible


def transactions_of(
    table: pa.Table, writers: Iterable[Mapping[str, Any]] = (), ids: Iterable[Mapping[str, Any]] = ()
) -> ReportedTransactions:
    """Condense the table `transactions` to one row per transaction; ``ids`` are rows of `producer_ids`.

    An `aborted` outweighs a `committed`, and both outweigh an `unknown`. An end that was asked for and never
    answered is unknown.
    """
    producers = list(writers)
    timeouts = {row["writer"]: ns for row in producers if (ns := _timeout_ns(row)) is not None}
    if not table.num_rows:
        transactions = ReportedTransactions(timeout_ns=timeouts)
        return replace(transactions, fences=_fences(transactions, producers, ids))
    columns = (table[name].to_numpy() for name in ("writer", "txn", "ns"))
    writer, txn, ns = (values.astype(np.int64, copy=False) for values in columns)
    order = pair_order(writer, txn)
    writer, txn, ns = writer[order], txn[order], ns[order]
    first = np.flatnonzero(np.append(True, (writer[1:] != writer[:-1]) | (txn[1:] != txn[:-1])))
    events = _codes(table["event"])[order]
    seen = {name: events == code for code, name in enumerate(_EVENTS)}

    def any_of(name: str) -> Flags:
        has_event: Flags = np.logical_or.reduceat(seen[name], first)
        return has_event

    def earliest(*names: str) -> Ints:
        is_event = np.logical_or.reduce([seen[name] for name in names])
        first_ns = np.minimum.reduceat(np.where(is_event, ns, np.iinfo(np.int64).max), first)
        return np.where(first_ns == np.iinfo(np.int64).max, -1, first_ns)

    def latest(*names: str) -> Ints:
        is_event = np.logical_or.reduce([seen[name] for name in names])
        return np.maximum.reduceat(np.where(is_event, ns, -1), first)

    asked = any_of("committing") * ASKED_COMMIT + any_of("aborting") * ASKED_ABORT
    reported = np.full(len(first), OPEN, dtype=np.int8)
    reported[any_of("unknown") | (asked > 0)] = UNKNOWN
    reported[any_of("committed")] = COMMITTED
    reported[any_of("aborted")] = ABORTED
    transactions = ReportedTransactions(
        writer=writer[first],
        txn=txn[first],
        reported=reported,
        asked=asked.astype(np.int8),
        begin_ns=earliest("begin"),
        ending_ns=earliest("committing", "aborting"),
        ended_ns=latest(*TRANSACTION_ENDS),
        timeout_ns=timeouts,
    )
    return replace(transactions, fences=_fences(transactions, producers, ids))


def _codes(events: pa.ChunkedArray) -> Ints:
    """Positions in `_EVENTS`, -1 for any other event."""
    codes: Ints = pc.fill_null(pc.index_in(events, pa.array(_EVENTS)), -1).to_numpy().astype(np.int8)
    return codes


def _timeout_ns(writer: Mapping[str, Any]) -> int | None:
    """How long a transaction of the producer can stay open, if its configuration says so."""
    try:
        config = json_object(writer.get("config") or "{}", "config of writers")
        timeout_ms = int(config["transaction.timeout.ms"])
    except (BadDataError, ValueError, TypeError, KeyError, OverflowError):
        return None
    return (timeout_ms + CLEANUP_MS) * 1_000_000 if 0 <= timeout_ms < 2**31 else None


def _fences(
    transactions: ReportedTransactions,
    writers: Iterable[Mapping[str, Any]],
    ids: Iterable[Mapping[str, Any]],
) -> dict[int, tuple[Fence, ...]]:
    """When each writer was fenced, because another one with its transactional id had begun after it."""
    starts = _starts(transactions, ids)
    by_id: dict[str, list[int]] = {}
    for row in writers:
        if row.get("transactional_id") and row["writer"] in starts:
            by_id.setdefault(row["transactional_id"], []).append(row["writer"])
    fences: dict[int, tuple[Fence, ...]] = {}
    for same in by_id.values():
        for number in same if len(same) > 1 else ():
            others = [start for other in same if other != number for start in starts[other]]
            spans = tuple(_spans(starts[number], others))
            if spans:
                fences[number] = spans
    return fences


@dataclass(frozen=True, kw_only=True)
class _Start:
    """A producer was given its producer id or, if that was not recorded, began its first transaction."""

    asked_ns: int
    ns: int
    recorded: bool


def _starts(transactions: ReportedTransactions, ids: Iterable[Mapping[str, Any]]) -> dict[int, list[_Start]]:
    starts: dict[int, list[_Start]] = {}
    for row in sorted(ids, key=lambda row: int(row["ns"])):
        if not row["error"]:
            asked_ns = row["ns"] if row["asked_ns"] is None else row["asked_ns"]
            starts.setdefault(row["writer"], []).append(
                _Start(asked_ns=asked_ns, ns=row["ns"], recorded=True)
            )
    begun = transactions.begin_ns >= 0
    writer, begin_ns = transactions.writer[begun], transactions.begin_ns[begun]
    if len(writer):
        edges = np.flatnonzero(np.append(True, writer[1:] != writer[:-1]))
        firsts = np.minimum.reduceat(begin_ns, edges)
        for number, ns in zip(writer[edges].tolist(), firsts.tolist(), strict=True):
            starts.setdefault(number, [_Start(asked_ns=ns, ns=ns, recorded=False)])
    return starts


def _spans(own: Sequence[_Start], others: Sequence[_Start]) -> Iterator[Fence]:
    """Spans between a producer's starts in which a certainly later start of another one had been answered."""
    ends = [*(start.ns for start in own[1:]), FOREVER]
    for start, until_ns in zip(own, ends, strict=True):
        later = [other for other in others if other.asked_ns > start.ns]
        first = min(later, key=lambda other: other.ns, default=None)
        if first is not None and first.ns < until_ns:
            yield Fence(
                from_ns=first.ns,
                until_ns=until_ns,
                recorded=start.recorded,
                by_recorded=first.recorded,
            )
