"""What applications asked for, and the answers that they received: one row per transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.partition.fate import TRANSACTION_ENDS
from checkers.partition.messages import NOTHING, Flags, Ints, KeyIndex, pair_order

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
class ReportedTransactions:
    """The rows of `transactions` by transaction, ordered by writer and number; times are -1 if not known."""

    writer: Ints = field(default_factory=NOTHING.copy)
    txn: Ints = field(default_factory=NOTHING.copy)
    reported: Ints = field(default_factory=NOTHING.copy)
    """Positions in `REPORTED`."""
    asked: Ints = field(default_factory=NOTHING.copy)
    begin_ns: Ints = field(default_factory=NOTHING.copy)
    ending_ns: Ints = field(default_factory=NOTHING.copy)
    """When an end was first asked for."""
    ended_ns: Ints = field(default_factory=NOTHING.copy)
    """When the last answer arrived."""
    timeout_ns: Mapping[int, int] = field(default_factory=dict)
    """By writer: after this time the coordinator has ended a transaction by itself."""
    fence_ns: Mapping[int, int] = field(default_factory=dict)
    """By writer: when another producer with its transactional id first began a transaction after it."""

    def __len__(self) -> int:
        return len(self.txn)

    def for_tasks(self) -> ReportedTransactions:
        """The same without what only the driver needs: there may be millions, and all of them travel."""
        return replace(self, asked=NOTHING, ending_ns=NOTHING, ended_ns=NOTHING)

    def find(self, writer: Ints, txn: Ints) -> Ints:
        """Row of each transaction, -1 where `transactions` has none."""
        found = np.full(len(txn), -1, dtype=np.int64)
        if not len(self) or not len(txn):
            return found
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
        return _by_writer(writer, self.timeout_ns, (TIMEOUT_MS + CLEANUP_MS) * 1_000_000)

    def fences(self, writer: Ints) -> Ints:
        """When each writer was fenced; -1: never."""
        return _by_writer(writer, self.fence_ns, -1)


def _by_writer(writer: Ints, known: Mapping[int, int], default: int) -> Ints:
    found = np.full(len(writer), default, dtype=np.int64)
    for number, value in known.items():
        found[writer == number] = value
    return found


def may_commit(reported: Ints, asked: Ints) -> Flags:
    """Whether it can have been committed: not if it was aborted, or if nobody asked for a commit."""
    possible: Flags = (reported == COMMITTED) | ((reported == UNKNOWN) & (asked != ASKED_ABORT))
    return possible


def transactions_of(table: pa.Table, writers: Iterable[Mapping[str, Any]] = ()) -> ReportedTransactions:
    """Condense the table `transactions` to one row per transaction.

    An `aborted` outweighs a `committed`, and both outweigh an `unknown`. An end that was asked for and never
    answered is unknown.
    """
    producers = list(writers)
    timeouts = {row["writer"]: ns for row in producers if (ns := _timeout_ns(row)) is not None}
    if not table.num_rows:
        return ReportedTransactions(timeout_ns=timeouts)
    columns = (table[name].to_numpy() for name in ("writer", "txn", "ns"))
    writer, txn, ns = (values.astype(np.int64, copy=False) for values in columns)
    order = pair_order(writer, txn)
    writer, txn, ns = writer[order], txn[order], ns[order]
    first = np.flatnonzero(np.append(True, (writer[1:] != writer[:-1]) | (txn[1:] != txn[:-1])))
    events = _codes(table["event"])[order]
    seen = {name: events == code for code, name in enumerate(_EVENTS)}

    def any_of(name: str) -> Flags:
        found: Flags = np.logical_or.reduceat(seen[name], first)
        return found

    def earliest(*names: str) -> Ints:
        mine = np.logical_or.reduce([seen[name] for name in names])
        found = np.minimum.reduceat(np.where(mine, ns, np.iinfo(np.int64).max), first)
        return np.where(found == np.iinfo(np.int64).max, -1, found)

    def latest(*names: str) -> Ints:
        mine = np.logical_or.reduce([seen[name] for name in names])
        return np.maximum.reduceat(np.where(mine, ns, -1), first)

    asked = any_of("committing") * ASKED_COMMIT + any_of("aborting") * ASKED_ABORT
    reported = np.full(len(first), OPEN, dtype=np.int8)
    reported[any_of("unknown") | (asked > 0)] = UNKNOWN
    reported[any_of("committed")] = COMMITTED
    reported[any_of("aborted")] = ABORTED
    found = ReportedTransactions(
        writer=writer[first],
        txn=txn[first],
        reported=reported,
        asked=asked.astype(np.int8),
        begin_ns=earliest("begin"),
        ending_ns=earliest("committing", "aborting"),
        ended_ns=latest(*TRANSACTION_ENDS),
        timeout_ns=timeouts,
    )
    return replace(found, fence_ns=_fences(found, producers))


def _codes(events: pa.ChunkedArray) -> Ints:
    """Positions in `_EVENTS`, -1 for any other event."""
    found: Ints = pc.fill_null(pc.index_in(events, pa.array(_EVENTS)), -1).to_numpy().astype(np.int8)
    return found


def _timeout_ns(writer: Mapping[str, Any]) -> int | None:
    """How long a transaction of the producer can stay open, if its configuration says so."""
    try:
        config = json.loads(writer.get("config") or "{}")
        return (int(config["transaction.timeout.ms"]) + CLEANUP_MS) * 1_000_000
    except (ValueError, TypeError, KeyError):
        return None


def _fences(transactions: ReportedTransactions, writers: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """When each writer was fenced, because another with the same transactional id began after it."""
    ids = {row["writer"]: row.get("transactional_id") for row in writers if row.get("transactional_id")}
    firsts: dict[int, int] = {}
    for number in ids:
        low, high = np.searchsorted(transactions.writer, [number, number + 1])
        begun = transactions.begin_ns[low:high]
        begun = begun[begun >= 0]
        if len(begun):
            firsts[number] = int(begun.min())
    found: dict[int, int] = {}
    for number, ns in firsts.items():
        later = [t for other, t in firsts.items() if ids[other] == ids[number] and t > ns]
        if later:
            found[number] = min(later)
    return found
