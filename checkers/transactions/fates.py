"""The fate of every transaction: what was reported to its application, and how much of it can be read.

Works on counts by transaction (`TRANSACTION_PARTS`), however many there are. The findings that follow are
few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.evidence import Evidence
from checkers.partition.messages import Flags, Ints, pair_order
from checkers.tables.output import COUNTS, TRANSACTION, TRANSACTION_PARTS, build
from checkers.tables.rows import nullable
from checkers.transactions.answers import ABORTED, COMMITTED, REPORTED, may_commit

VISIBLE = ("all", "part", "none", "unknown")
"""How much of a transaction readers of committed records can see; null: no log holds any of it."""
TRANSACTION_CLASSES = (
    "fenced_write_read", "torn_transaction", "lost_transaction", "aborted_read", "hanging_transaction",
)  # fmt: skip
"""Findings about transactions, in the order in which they are decided: the first one counts.

What makes a transaction torn although every part of it that is in a log was committed is decided last.
"""
WAITING_CLIENTS = ("librdkafka", "java")
"""See `waits_for_answers`."""


def fates_of(parts: pa.Table, evidence: Evidence) -> pa.Table:
    """One row of `TRANSACTION` for each transaction that has a message or an event."""
    sums = _summed(parts)
    writer, txn = sums["writer"], sums["txn"]
    transactions = evidence.transactions
    without = np.ones(len(transactions), dtype=bool)
    rows = transactions.find(writer, txn)
    without[rows[rows >= 0]] = False
    more = np.flatnonzero(without)
    writer, txn = np.append(writer, transactions.writer[more]), np.append(txn, transactions.txn[more])
    rows = np.append(rows, more).astype(np.int64)
    order = pair_order(writer, txn)
    writer, txn, rows = writer[order], txn[order], rows[order]

    def column(name: str, missing: int = 0) -> Ints:
        values = np.append(sums[name], np.full(len(more), missing, dtype=np.int64))
        return _permuted(values, order)

    counts = {name: column(name) for name in COUNTS}
    reported, asked = transactions.reported_of(rows), transactions.asked_of(rows)
    begin_ns = transactions.ns_of("begin_ns", rows)
    expires_ns = np.maximum(begin_ns, column("last_sent_ns", -1)) + transactions.timeouts(writer)
    producers = [evidence.writers.get(int(number), {}) for number in np.unique(writer)]
    place = np.unique(writer, return_inverse=True)[1].reshape(-1).astype(np.int32)
    which = pa.array(place)
    facts = _Facts(
        **counts,
        owed=column("owed"),
        overdue=column("undecided_ns", -1) > expires_ns,
        early=column("early") > 0,
        waits=np.array([waits_for_answers(row) for row in producers], dtype=bool)[place],
    )
    return build(
        TRANSACTION,
        {
            "writer": writer,
            "txn": txn,
            "writer_name": _taken([row.get("name") for row in producers], which),
            "transactional_id": _taken([row.get("transactional_id") for row in producers], which),
            "begin_ns": nullable(begin_ns, pa.int64()),
            "ending_ns": nullable(transactions.ns_of("ending_ns", rows), pa.int64()),
            "ended_ns": nullable(transactions.ns_of("ended_ns", rows), pa.int64()),
            "asked": pa.array([None, "commit", "abort", "commit"], pa.string()).take(pa.array(asked)),
            "reported": pa.array(REPORTED).take(pa.array(reported)),
            "visible": _visible(counts),
            "messages": column("messages"),
            "acknowledged": column("acknowledged"),
            **counts,
            "finding": _findings(facts, reported, asked),
        },
        len(writer),
    )


def _taken(values: list[str | None], which: pa.Array) -> pa.Array:
    return pa.array(values, pa.string()).take(which)


def _summed(parts: pa.Table) -> dict[str, Ints]:
    """The counts of each transaction over all partitions, by column.

    `early` counts the partitions in which a commit marker stands before a message that was acknowledged
    before the application asked for an end.
    """
    columns = _columns(parts)
    return _added({**columns, "early": (columns["first_commit"] < columns["last_before"]).astype(np.int64)})


def _columns(parts: pa.Table) -> dict[str, Ints]:
    return {name: parts[name].to_numpy().astype(np.int64, copy=False) for name in TRANSACTION_PARTS.names}


def _added(columns: dict[str, Ints]) -> dict[str, Ints]:
    """One entry for each transaction, by column."""
    order = pair_order(columns["writer"], columns["txn"])
    columns = {name: _permuted(values, order) for name, values in columns.items()}
    writer, txn = columns["writer"], columns["txn"]
    if not len(writer):
        return columns
    first = np.flatnonzero(np.append(True, (writer[1:] != writer[:-1]) | (txn[1:] != txn[:-1])))
    if len(first) == len(writer):
        return columns
    ways = {**dict.fromkeys(_LATEST, np.maximum), "first_commit": np.minimum}
    return {
        name: ways.get(name, np.add).reduceat(values, first) if values.any() else values[: len(first)]
        for name, values in columns.items()
    }


def _permuted(values: Ints, order: Ints | slice) -> Ints:
    """``values`` in this order; most counts are 0 of every transaction, and have no order."""
    return values[order] if values.any() else values


_LATEST = ("writer", "txn", "last_sent_ns", "undecided_ns", "last_before")
"""Columns of `TRANSACTION_PARTS` of which the greatest value counts, not the sum."""


def _visible(counts: dict[str, Ints]) -> pa.Array:
    present = sum(counts[name] for name in ("readable", "blocked", "aborted", "undecided", "lost"))
    readable = counts["readable"]
    code = np.where(readable == 0, 2, np.where(readable == present + counts["dropped"], 0, 1))
    code = np.where((counts["unknown"] > 0) & (code != 1), 3, code)
    code = np.where((present == 0) & (counts["unknown"] == 0), -1, code)
    return pa.array(VISIBLE).take(nullable(code, pa.int32()))


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """What findings rest on: one entry for each transaction; numbers of messages, and flags."""

    readable: Ints
    blocked: Ints
    aborted: Ints
    undecided: Ints
    lost: Ints
    dropped: Ints
    absent: Ints
    unknown: Ints
    fenced: Ints
    owed: Ints
    """Undecided messages whose marker a coordinator still had to write."""
    overdue: Flags
    """A log with undecided messages was read after the time-out."""
    early: Flags
    """A commit marker decided a part before its application asked for an end."""
    waits: Flags
    """Its client asks for a commit only when all messages are acknowledged."""


def _findings(facts: _Facts, reported: Ints, asked: Ints) -> pa.Array:
    """The class of the finding about each transaction, null for none."""
    committed = facts.readable + facts.blocked
    aborted, undecided = facts.aborted, facts.undecided
    code = np.full(len(reported), -1, dtype=np.int32)
    code[(committed > 0) & (facts.early | ((facts.dropped > 0) & facts.waits))] = 1
    ended = (reported == COMMITTED) | (reported == ABORTED)
    code[(undecided > 0) & (facts.overdue | (ended & (facts.owed < undecided)))] = 4
    code[(committed > 0) & ~may_commit(reported, asked)] = 3
    code[(reported == COMMITTED) & (committed == 0) & (aborted > 0)] = 2
    code[(committed > 0) & (aborted > 0)] = 1
    code[facts.fenced > 0] = 0
    return pa.array(TRANSACTION_CLASSES).take(nullable(code, pa.int32()))


def waits_for_answers(writer: Mapping[str, Any]) -> bool:
    """Whether a producer asks for a commit only when every message of the transaction is acknowledged.

    Kafka's clients do: `commitTransaction` flushes, and fails if a message failed. A client that sends
    requests one by one may ask at any time. ``writer`` is a row of `writers`.
    """
    waits: bool = writer.get("client") in WAITING_CLIENTS
    return waits


def suspects(fates: pa.Table) -> pa.Table:
    """The transactions that have a finding."""
    return fates.filter(pc.is_valid(fates["finding"]))
