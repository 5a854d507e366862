"""The findings about transactions: one for each, at the record that shows it best, with its cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.causes import partition_events, read_ns, unclean_election
from checkers.evidence import Evidence, Row
from checkers.partition.decisions import COMMITTED
from checkers.records import Cause, evidence_row, facts_text
from checkers.tables.output import FINDING
from checkers.transactions.answers import CLEANUP_MS, REPORTED
from checkers.transactions.debts import Debt
from checkers.transactions.fates import waits_for_answers


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A transaction with a finding, its records, and the other records that its markers decided."""

    fate: Row
    records: Sequence[Row]
    neighbours: Mapping[tuple[str, int, int], Sequence[Row]] = field(default_factory=dict)
    """By topic, partition and offset of the marker: all records that it decided."""
    evidence: Evidence

    @property
    def may_commit(self) -> bool:
        """Whether the application asked for a commit, as far as the history tells."""
        reported: str = self.fate["reported"]
        return reported == "committed" or (reported == "unknown" and self.fate["asked"] != "abort")

    def culprits(self) -> list[Row]:
        """The records that the finding is about, by place."""
        kind = self.fate["finding"]
        torn_whole = kind == "torn_transaction" and not self.fate["aborted"]
        if kind == "fenced_write_read":
            culprits = [row for row in self.records if row["fenced"]]
        elif kind == "hanging_transaction":
            culprits = [row for row in self.records if row["state"] == "undecided"]
            culprits = [row for row in culprits if self.debt(row) is None] or culprits
        elif torn_whole and self.misses:
            culprits = [row for row in self.records if row["state"] == "dropped"]
        elif torn_whole:
            culprits = [row for row in self.records if self.early(row)]
        elif kind == "lost_transaction" or (kind == "torn_transaction" and self.may_commit):
            culprits = [row for row in self.records if row["state"] == "aborted"]
        else:
            culprits = [row for row in self.records if row["state"] in COMMITTED]
        return sorted(culprits, key=_by_place)

    @property
    def client(self) -> str | None:
        """The client of the producer."""
        client: str | None = self._writer.get("client")
        return client

    @property
    def misses(self) -> bool:
        """Whether a message is in no log although the client had to wait for its answer."""
        return waits_for_answers(self._writer) and bool(self.fate["dropped"])

    @property
    def _writer(self) -> Row:
        return self.evidence.writers.get(self.fate["writer"], {})

    def debt(self, record: Row) -> Debt | None:
        """What the coordinator still had to do about an undecided record."""
        place = f"{record['topic']}/{record['partition']}"
        return next(
            (
                debt
                for debt in self.evidence.debts
                if (debt.transactional_id, debt.producer_id)
                == (self.fate["transactional_id"], record["producer_id"])
                and place in debt.partitions
                and debt.fits(self.fate["reported"])
            ),
            None,
        )

    def early(self, record: Row) -> bool:
        """Whether a commit marker decided the record before the application asked for an end.

        It did if a message behind the marker was acknowledged before that.
        """
        return record["marker"] == "commit" and any(
            row["offset"] is not None and row["offset"] > record["marker_offset"] and _asked_later(self, row)
            for row in self.records
            if (row["topic"], row["partition"]) == (record["topic"], record["partition"])
        )


def _by_place(row: Row) -> tuple[str, int, int, int]:
    return row["topic"], row["partition"], -1 if row["offset"] is None else row["offset"], row["seq"]


def findings_of(suspects: pa.Table, records: pa.Table, evidence: Evidence) -> pa.Table:
    """The findings about transactions (rows of `transaction_fates` that have one).

    ``records`` are rows of `transaction_records`: those of these transactions, and those that the same
    markers decided; further rows do no harm.
    """
    records_by_transaction: dict[tuple[int, int], list[Row]] = {}
    decided: dict[tuple[str, int, int], list[Row]] = {}
    for row in records.to_pylist():
        records_by_transaction.setdefault((row["writer"], row["txn"]), []).append(row)
        if row["marker_offset"] is not None:
            decided.setdefault((row["topic"], row["partition"], row["marker_offset"]), []).append(row)
    finding_rows = []
    for fate in suspects.to_pylist():
        case = _Case(
            fate=fate,
            records=records_by_transaction.get((fate["writer"], fate["txn"]), []),
            neighbours=decided,
            evidence=evidence,
        )
        finding_rows.append(_finding(case))
    return pa.Table.from_pylist(finding_rows, schema=FINDING)


def _finding(case: _Case) -> dict[str, Any]:
    fate, culprits = case.fate, case.culprits()
    first = culprits[0]
    cause = _cause(case, first)
    return {
        "class": fate["finding"],
        "topic": first["topic"],
        "partition": first["partition"],
        "offset": first["offset"],
        "writer": fate["writer"],
        "seq": first["seq"],
        "txn": fate["txn"],
        "count": len(culprits),
        "acked_ns": fate["ended_ns"] if fate["reported"] == "committed" else None,
        "cause": cause.kind,
        "cause_facts": cause.text,
        "evidence": [row for row in cause.rows if row],
        "detail": _detail(fate),
        "expected": False,
    }


def _detail(fate: Row) -> str | None:
    names = ("readable", "blocked", "aborted", "undecided", "lost", "dropped")
    return facts_text(
        asked=fate["asked"],
        reported=fate["reported"],
        messages={name: fate[name] for name in names if fate[name]},
    )


# ---- causes


def _cause(case: _Case, record: Row) -> Cause:
    """Why the record was decided this way, or not at all."""
    fate = case.fate
    if fate["finding"] == "fenced_write_read":
        return _fenced(case, record)
    told = tuple(_told_rows(case))
    if record["state"] == "dropped":
        return Cause(kind="missing_message", facts={"client": case.client}, rows=told)
    rows = (_marker_row(case, record), *told)
    before = _earlier_marker(case, record)
    if before is not None:
        if _asked_later(case, record):
            return _late_marker(case, before)
        facts = {"offset": record["offset"], "marker_offset": before["marker_offset"]}
        return Cause(
            kind="late_write",
            facts={**facts, "decided_by": _decided_by(case, record)},
            rows=(_marker_row(case, before), *rows),
        )
    if fate["finding"] == "hanging_transaction":
        return _hanging(case, record)
    marker = {"marker_offset": record["marker_offset"]}
    if record["coordinator_epoch"] == -1:
        return Cause(kind="ended_by_operator", facts=marker, rows=rows)
    if case.early(record):
        return _late_marker(case, record)
    later = _later_transaction(case, record)
    if later is not None:
        lost_by = _lost_by(case, record)
        facts = {**marker, "txn": later, **(lost_by.facts if lost_by else {})}
        election = lost_by.rows if lost_by else ()
        return Cause(kind="own_marker_missing", facts=facts, rows=(rows[0], *election, *told))
    if _earlier_with_same_end(case, record) is not None:
        return _late_marker(case, record)
    if record["marker"] == "abort" and (record["marker_epoch"] or 0) > (record["producer_epoch"] or 0):
        fences = case.evidence.transactions.fences.get(fate["writer"], ())
        successor = ("had_producer_id" if fences[0].by_recorded else "had_begun") if fences else None
        facts = {"producer_epoch": record["marker_epoch"], "successor": successor}
        return Cause(kind="aborted_by_coordinator", facts=facts, rows=rows)
    return Cause(kind="unexplained_transaction", rows=rows)


def _earlier_marker(case: _Case, record: Row) -> Row | None:
    """A record of the transaction in the same partition that a marker before this record decided."""
    return next(
        (
            row
            for row in case.records
            if (row["topic"], row["partition"]) == (record["topic"], record["partition"])
            and row["marker_offset"] is not None
            and row["marker_offset"] < record["offset"]
        ),
        None,
    )


def _asked_later(case: _Case, record: Row) -> bool:
    """Whether the application asked for an end only after the record had been acknowledged."""
    acked, ending = record["acked_ns"], case.fate["ending_ns"]
    return acked is not None and ending is not None and acked < ending


def _late_marker(case: _Case, record: Row) -> Cause:
    earlier = _earlier_with_same_end(case, record)
    rows = [_marker_row(case, record), *_told_rows(case)]
    if earlier is not None:
        rows += _told_rows(case, earlier)
    facts = {
        "marker": record["marker"],
        "txn": earlier,
        "marker_offset": record["marker_offset"],
        "partition": f"{record['topic']}/{record['partition']}",
        "producer_epoch": record["marker_epoch"],
        "coordinator_epoch": record["coordinator_epoch"],
    }
    return Cause(kind="late_marker", facts=facts, rows=tuple(rows))


def _earlier_with_same_end(case: _Case, record: Row) -> int | None:
    """The newest earlier transaction of the producer whose application asked for the marker's end.

    Only if the marker has the record's own producer epoch, because other requests raise the epoch.
    """
    if record["marker"] is None or record["marker_epoch"] != record["producer_epoch"]:
        return None
    transactions = case.evidence.transactions
    end = {"commit": (1, 1), "abort": (2, 2)}[record["marker"]]
    same_end = (transactions.writer == case.fate["writer"]) & (transactions.txn < case.fate["txn"])
    same_end &= (transactions.asked & end[0] > 0) | (transactions.reported == end[1])
    rows = np.flatnonzero(same_end)
    return int(transactions.txn[rows].max()) if len(rows) else None


def _later_transaction(case: _Case, record: Row) -> int | None:
    """A later transaction of the same producer that the same marker ended."""
    key = (record["topic"], record["partition"], record["marker_offset"])
    later = [
        row["txn"]
        for row in case.neighbours.get(key, ())
        if row["writer"] == record["writer"] and row["txn"] > record["txn"]
    ]
    return min(later, default=None)


def _decided_by(case: _Case, record: Row) -> dict[str, object] | None:
    """The marker that decided a record, and the later transaction that it ended; None: no marker did."""
    if record["marker_offset"] is None:
        return None
    later = _later_transaction(case, record)
    of = {} if later is None else {"txn": later}
    return {"marker": record["marker"], "offset": record["marker_offset"], **of}


def _lost_by(case: _Case, record: Row) -> Cause | None:
    """The unclean election that may have taken a marker away."""
    since = _marker_from_ns(case, record)
    _, elections = partition_events(case.evidence, record["topic"], record["partition"])
    unclean = (unclean_election(event) for event in elections if event.ns >= since)
    return next(filter(None, unclean), None)


def _marker_from_ns(case: _Case, record: Row) -> int:
    """The earliest time at which the log may have had a marker behind the record.

    Without a request to end the transaction, and without a successor that fences its producer, the
    coordinator writes a marker only after the time-out.
    """
    fate, transactions = case.fate, case.evidence.transactions
    if fate["reported"] in ("committed", "aborted") and fate["ended_ns"] is not None:
        return int(fate["ended_ns"])
    begun = max(int(record["sent_ns"]), int(fate["begin_ns"] or 0))
    if fate["ending_ns"] is not None or fate["begin_ns"] is None or fate["writer"] in transactions.fences:
        return begun
    timeout = int(transactions.timeouts(np.array([fate["writer"]]))[0]) - CLEANUP_MS * 1_000_000
    return max(begun, int(fate["begin_ns"]) + timeout)


def _hanging(case: _Case, record: Row) -> Cause:
    reported, told = case.fate["reported"], _told_rows(case)
    debt = case.debt(record)
    if debt is not None:
        place = f"{record['topic']}/{record['partition']}"
        what = f"broker{debt.broker} stated {debt.state}; {place} still lacks its marker"
        at_s = round((debt.ns - case.evidence.zero.ns) / 1e9, 3)
        return Cause(
            kind="coordinator_not_finished",
            facts={"broker": debt.broker, "state": debt.state, "at_s": at_s, "partition": place},
            rows=(evidence_row("transaction_states", debt.ns, what), *told),
        )
    lost_by = _lost_by(case, record)
    if lost_by is not None:
        return replace(lost_by, kind="marker_lost_in_unclean_election", rows=(*lost_by.rows, *told))
    if reported in ("committed", "aborted"):
        facts = {"reported": reported, "offset": record["offset"]}
        return Cause(kind="marker_missing", facts=facts, rows=tuple(told))
    return Cause(kind="time_out_without_marker", rows=tuple(told))


def _fenced(case: _Case, record: Row) -> Cause:
    fences = case.evidence.transactions.fences.get(case.fate["writer"], ())
    sent_ns = record["sent_ns"]
    in_force = [fence for fence in fences if fence.from_ns < sent_ns <= fence.until_ns]
    rows = [_marker_row(case, record), *_told_rows(case)]
    if not in_force:
        return Cause(
            kind="fenced_epoch", facts={"producer_epoch": record["producer_epoch"]}, rows=tuple(rows)
        )
    fence = in_force[-1]
    if fence.by_recorded:
        row = evidence_row("producer_ids", fence.from_ns, "the successor was given a producer id")
    else:
        row = evidence_row("transactions", fence.from_ns, "the successor began its first transaction")
    successor = "had_producer_id" if fence.by_recorded else "had_begun"
    return Cause(kind="fenced_by_successor", facts={"successor": successor}, rows=(*rows, row))


def _coordinator(record: Row) -> str:
    epoch = record["coordinator_epoch"]
    return "unknown" if epoch is None else str(epoch)


def _marker_row(case: _Case, record: Row) -> str:
    if record["marker_offset"] is None:
        return ""
    what = (
        f"{record['topic']}/{record['partition']}: {record['marker']} at offset {record['marker_offset']}, "
        f"producer id {record['producer_id']}, producer epoch {record['marker_epoch']}, coordinator epoch "
        f"{_coordinator(record)}, decided offset {record['offset']} of producer epoch "
        f"{record['producer_epoch']}"
    )
    return evidence_row("copies", read_ns(case.evidence, record["topic"], record["partition"]), what)


def _told_rows(case: _Case, txn: int | None = None) -> list[str]:
    """What the application asked for and what was reported to it, from the table `transactions`."""
    transactions = case.evidence.transactions
    number = case.fate["txn"] if txn is None else txn
    row = int(transactions.find(np.array([case.fate["writer"]]), np.array([number]))[0])
    if row < 0:
        return []
    asked = {1: "commit", 2: "abort", 3: "commit"}.get(int(transactions.asked[row]))
    reports: list[tuple[int, str]] = [(int(transactions.begin_ns[row]), f"transaction {number} began")]
    if asked:
        reports.append(
            (int(transactions.ending_ns[row]), f"its application asked to {asked} transaction {number}")
        )
    reported = REPORTED[int(transactions.reported[row])]
    reports.append(
        (int(transactions.ended_ns[row]), f"reported to its application: transaction {number} {reported}")
    )
    return [evidence_row("transactions", ns, what) for ns, what in reports if ns >= 0]
