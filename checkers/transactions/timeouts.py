"""Why a transaction was aborted although its application had not asked for that: its time-out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checkers.causes import Causes
from checkers.evidence import Evidence
from checkers.partition.decisions import ABORTED, Decisions
from checkers.partition.messages import SendArrays
from checkers.records import Cause, evidence_row
from checkers.transactions.answers import CLEANUP_MS


def timeout_causes(evidence: Evidence, sends: SendArrays, decisions: Decisions | None) -> Causes:
    """A cause for each message that the coordinator aborted after `transaction.timeout.ms`; null for others.

    An abort marker decided it, and the transaction had been open for that long when its application first
    asked for an end, or the application never asked.
    """
    count = len(sends)
    transactions = evidence.transactions
    if decisions is None or not len(transactions):
        return Causes.none(count)
    rows = decisions.row[decisions.state == ABORTED]
    transaction = sends.transaction[rows]
    begin_ns, ending_ns = (transactions.ns_of(name, transaction) for name in ("begin_ns", "ending_ns"))
    limits_ns = transactions.timeouts(sends.writer[rows]) - CLEANUP_MS * 1_000_000
    late = (begin_ns >= 0) & ((ending_ns < 0) | (ending_ns - begin_ns >= limits_ns))
    distinct, first, inverse = np.unique(transaction[late], return_index=True, return_inverse=True)
    chosen = np.full(count, -1, dtype=np.int64)
    chosen[rows[late]] = inverse.reshape(-1)
    limits_ms = (limits_ns[late][first] // 1_000_000).tolist()
    begun, asked = begin_ns[late][first].tolist(), ending_ns[late][first].tolist()
    numbers = transactions.txn[distinct].tolist()
    causes = [
        Cause(
            kind="transaction_timed_out",
            facts={"timeout_ms": limit_ms},
            rows=(
                evidence_row("transactions", since, f"transaction {number} began"),
                *([evidence_row("transactions", end, "its end was first asked for")] if end >= 0 else ()),
            ),
        )
        for limit_ms, number, since, end in zip(limits_ms, numbers, begun, asked, strict=True)
    ]
    return Causes.of(causes, pa.array(chosen, mask=chosen < 0))
