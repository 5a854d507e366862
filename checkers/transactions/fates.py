"""The fate of every transaction: what was reported to its application, and how much of it can be read.

Works on counts by transaction (`PARTS`), however many there are. The findings that follow are few.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.evidence import Evidence
from checkers.partition.messages import Flags, Ints, pair_order
from checkers.tables.output import COUNTS, PARTS, TRANSACTION, build
from checkers.tables.rows import nullable
from checkers.transactions.answers import ABORTED, COMMITTED, REPORTED, may_commit

VISIBLE = ("all", "part", "none", "unknown")
"""How much of a transaction readers of committed records can see; null: no log holds any of it."""
CLASSES = (
    "fenced_write_read", "torn_transaction", "lost_transaction", "aborted_read", "hanging_transaction",
)  # fmt: skip
"""Findings about transactions, in the order in which they are decided: the first one counts."""


def fates_of(parts: pa.Table, evidence: Evidence) -> pa.Table:
    """One row of `TRANSACTION` for each transaction that has a message or an event."""
    sums = _summed(parts)
    writer, txn = sums["writer"], sums["txn"]
    known = evidence.transactions
    without = np.ones(len(known), dtype=bool)
    rows = known.find(writer, txn)
    without[rows[rows >= 0]] = False
    more = np.flatnonzero(without)
    writer, txn = np.append(writer, known.writer[more]), np.append(txn, known.txn[more])
    rows = np.append(rows, more).astype(np.int64)
    order = pair_order(writer, txn)
    writer, txn, rows = writer[order], txn[order], rows[order]

    def column(name: str, missing: int = 0) -> Ints:
        values = np.append(sums[name], np.full(len(more), missing, dtype=np.int64))
        return values[order]

    counts = {name: column(name) for name in COUNTS}
    reported, asked = known.reported_of(rows), known.asked_of(rows)
    begin_ns = known.ns_of("begin_ns", rows)
    expires_ns = np.maximum(begin_ns, column("last_sent_ns", -1)) + known.timeouts(writer)
    overdue = column("undecided_ns", -1) > expires_ns
    producers = [evidence.writers.get(int(number), {}) for number in np.unique(writer)]
    which = pa.array(np.unique(writer, return_inverse=True)[1].reshape(-1).astype(np.int32))
    return build(
        TRANSACTION,
        {
            "writer": writer,
            "txn": txn,
            "writer_name": _taken([row.get("name") for row in producers], which),
            "transactional_id": _taken([row.get("transactional_id") for row in producers], which),
            "begin_ns": nullable(begin_ns, pa.int64()),
            "ending_ns": nullable(known.ns_of("ending_ns", rows), pa.int64()),
            "ended_ns": nullable(known.ns_of("ended_ns", rows), pa.int64()),
            "asked": pa.array([None, "commit", "abort", "commit"], pa.string()).take(pa.array(asked)),
            "reported": pa.array(REPORTED).take(pa.array(reported)),
            "visible": _visible(counts),
            "messages": column("messages"),
            "acknowledged": column("acknowledged"),
            **counts,
            "finding": _findings(counts, reported, asked, overdue),
        },
        len(writer),
    )


def _taken(values: list[str | None], which: pa.Array) -> pa.Array:
    return pa.array(values, pa.string()).take(which)


def _summed(parts: pa.Table) -> dict[str, Ints]:
    """The counts of each transaction over all partitions, by column."""
    columns = {name: parts[name].to_numpy().astype(np.int64, copy=False) for name in PARTS.names}
    order = pair_order(columns["writer"], columns["txn"])
    columns = {name: values[order] for name, values in columns.items()}
    writer, txn = columns["writer"], columns["txn"]
    if not len(writer):
        return columns
    first = np.flatnonzero(np.append(True, (writer[1:] != writer[:-1]) | (txn[1:] != txn[:-1])))
    if len(first) == len(writer):
        return columns
    ways = {"writer": np.maximum, "txn": np.maximum, "last_sent_ns": np.maximum, "undecided_ns": np.maximum}
    return {name: ways.get(name, np.add).reduceat(values, first) for name, values in columns.items()}


def _visible(counts: dict[str, Ints]) -> pa.Array:
    present = sum(counts[name] for name in ("readable", "blocked", "aborted", "undecided", "lost"))
    readable = counts["readable"]
    code = np.where(readable == 0, 2, np.where(readable == present, 0, 1))
    code = np.where((counts["unknown"] > 0) & (code != 1), 3, code)
    code = np.where((present == 0) & (counts["unknown"] == 0), -1, code)
    return pa.array(VISIBLE).take(nullable(code, pa.int32()))


def _findings(counts: dict[str, Ints], reported: Ints, asked: Ints, overdue: Flags) -> pa.Array:
    """The class of the finding about each transaction, null for none."""
    committed = counts["readable"] + counts["blocked"]
    aborted, undecided = counts["aborted"], counts["undecided"]
    code = np.full(len(reported), -1, dtype=np.int32)
    ended = (reported == COMMITTED) | (reported == ABORTED)
    code[(undecided > 0) & (ended | overdue)] = 4
    code[(committed > 0) & ~may_commit(reported, asked)] = 3
    code[(reported == COMMITTED) & (committed == 0) & (aborted > 0)] = 2
    code[(committed > 0) & (aborted > 0)] = 1
    code[counts["fenced"] > 0] = 0
    return pa.array(CLASSES).take(nullable(code, pa.int32()))


def suspects(fates: pa.Table) -> pa.Table:
    """The transactions that have a finding."""
    return fates.filter(pc.is_valid(fates["finding"]))


def asked_only_to_abort(asked: str | None, reported: str) -> bool:
    """Whether nobody asked for the commit of a transaction."""
    return reported in ("aborted", "open") or (reported == "unknown" and asked == "abort")
