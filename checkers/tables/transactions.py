"""Columns of `copies` that decide transactions, as arrays, and the output rows about transactions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.evidence import Evidence
from checkers.partition.decisions import (
    COMMIT,
    MARKERS,
    STATES,
    UNDECIDED,
    Decisions,
    ProducerRecords,
    TransactionLog,
    all_producer_records,
    first_epochs,
    last_markers,
    markers_of,
    transaction_log,
    undecided_from,
)
from checkers.partition.ledger import UNKNOWN_COORDINATOR
from checkers.partition.logs import PartitionReplicas
from checkers.partition.messages import FOREVER, OK, Flags, Ints, SendArrays, pair_order
from checkers.tables.output import TRANSACTION_PARTS, TRANSACTION_RECORD, build
from checkers.tables.rows import nullable
from checkers.tables.source import Source, Window, numbers, row_blocks
from checkers.transactions.answers import REPORTED
from harness.kafka.model import TopicPartition

PRODUCER_COLUMNS = (
    "broker", "offset", "producer_id", "producer_epoch", "control", "transactional", "marker",
    "coordinator_epoch",
)  # fmt: skip


RECORDS_FOLDER, PARTS_FOLDER = "records", "parts"
"""Folders of what tasks write about transactions."""


def producer_records(table: pa.Table) -> ProducerRecords:
    """Rows of `copies` of one replica."""
    return ProducerRecords(
        offset=numbers(table, "offset"),
        producer=numbers(table, "producer_id"),
        epoch=numbers(table, "producer_epoch"),
        control=numbers(table, "control", 0).astype(bool),
        transactional=_tristate(table["transactional"]),
        marker=pc.fill_null(pc.index_in(table["marker"], pa.array(MARKERS)), -1).to_numpy().astype(np.int8),
        coordinator_epoch=numbers(table, "coordinator_epoch", UNKNOWN_COORDINATOR),
    )


def _tristate(column: pa.ChunkedArray) -> Ints:
    states: Ints = pc.fill_null(column.cast(pa.int8()), -1).to_numpy()
    return states


def log_of(partition: PartitionReplicas, evidence: Evidence, records: ProducerRecords) -> TransactionLog:
    """What decides a partition's transactions, from all ``records`` of its reference log."""
    markers = markers_of(records)
    epoch = records.epoch[records.producer >= 0]
    several = len(epoch) > 0 and int(epoch.min()) != int(epoch.max())
    state = next(
        (
            row
            for row in evidence.rows_about("replicas", TopicPartition(partition.topic, partition.number))
            if row["broker"] == partition.reference
        ),
        {},
    )
    high_watermark, stable, ns = (
        -1 if state.get(name) is None else int(state[name])
        for name in ("high_watermark", "last_stable_offset", "ns")
    )
    return transaction_log(
        markers,
        first_epochs(records if several else records.take(slice(0, 0))),
        undecided_from(records, last_markers(markers)),
        high_watermark=high_watermark,
        last_stable_offset=stable,
        conclusive=partition.conclusive,
        read_ns=ns,
    )


def records_of(source: Source, where: TopicPartition, broker: int) -> ProducerRecords:
    """All records of one replica, by rising offset."""
    blocks = row_blocks(
        source.files["copies"], "copies", PRODUCER_COLUMNS, where, (Window("broker", broker, broker),)
    )
    of_broker = (table.filter(pa.array(numbers(table, "broker") == broker)) for table in blocks)
    records = all_producer_records([producer_records(table) for table in of_broker])
    steps = np.diff(records.offset)
    if len(steps) and int(steps.min()) < 0:
        records = records.take(np.argsort(records.offset, kind="stable"))
    return records


# ---- what is written


def record_rows(
    partition: PartitionReplicas, table: pa.Table, sends: SendArrays, decisions: Decisions, fenced: Flags
) -> pa.Table:
    """Rows of `transaction_records`, one per message of a transaction; ``table`` holds rows of `sends`."""
    rows = decisions.row
    acked = np.where(sends.outcome == OK, numbers(table, "done_ns"), -1)[rows]
    kinds = pa.array(MARKERS).take(nullable(decisions.marker, pa.int32()))
    return build(
        TRANSACTION_RECORD,
        {
            "topic": partition.topic,
            "partition": partition.number,
            "writer": sends.writer[rows],
            "seq": sends.seq[rows],
            "txn": numbers(table, "txn")[rows],
            "sent_ns": sends.sent_ns[rows],
            "acked_ns": nullable(acked, pa.int64()),
            "offset": nullable(decisions.offset, pa.int64()),
            "state": pa.array(STATES).take(pa.array(decisions.state)),
            "fenced": fenced,
            "producer_id": nullable(decisions.producer, pa.int64()),
            "producer_epoch": nullable(decisions.epoch, pa.int32()),
            "marker": kinds,
            "marker_offset": nullable(decisions.marker_offset, pa.int64()),
            "marker_epoch": nullable(decisions.marker_epoch, pa.int32()),
            "coordinator_epoch": pa.array(
                decisions.coordinator_epoch,
                mask=(decisions.marker_offset < 0) | (decisions.coordinator_epoch == UNKNOWN_COORDINATOR),
            ).cast(pa.int32()),
        },
        len(rows),
    )


def fenced_writes(evidence: Evidence, sends: SendArrays, decisions: Decisions) -> Flags:
    """Messages that a fenced producer wrote and a marker committed nevertheless."""
    rows = decisions.row
    late = evidence.transactions.sent_fenced(sends.writer[rows], sends.sent_ns[rows], sends.transaction[rows])
    fenced: Flags = (decisions.marker == COMMIT) & (decisions.outdated | late)
    return fenced


def owed_markers(
    evidence: Evidence, partition: PartitionReplicas, sends: SendArrays, decisions: Decisions
) -> Flags:
    """Undecided messages whose marker a coordinator still had to write."""
    has_debt = np.zeros(len(decisions), dtype=bool)
    place = f"{partition.topic}/{partition.number}"
    debts = [debt for debt in evidence.debts if place in debt.partitions]
    if not debts:
        return has_debt
    writer = sends.writer[decisions.row]
    reported = evidence.transactions.reported_of(sends.transaction[decisions.row])
    for debt in debts:
        fitting = [code for code, name in enumerate(REPORTED) if debt.fits(name)]
        named = [w for w, row in evidence.writers.items() if row["transactional_id"] == debt.transactional_id]
        has_debt |= (
            (decisions.producer == debt.producer_id) & np.isin(writer, named) & np.isin(reported, fitting)
        )
    owed: Flags = has_debt & (decisions.state == UNDECIDED)
    return owed


def asked_later(evidence: Evidence, table: pa.Table, sends: SendArrays, decisions: Decisions) -> Flags:
    """Messages that were acknowledged before their application asked for an end.

    ``table`` holds rows of `sends`.
    """
    rows = decisions.row
    done_ns = numbers(table, "done_ns")[rows]
    ending_ns = evidence.transactions.ns_of("ending_ns", sends.transaction[rows])
    acked_before: Flags = (sends.outcome[rows] == OK) & (done_ns >= 0) & (done_ns < ending_ns)
    return acked_before


@dataclass(frozen=True, kw_only=True)
class MessageFlags:
    """What else is known of the messages of `Decisions`, one entry each."""

    fenced: Flags
    owed: Flags
    asked_later: Flags


def parts_of(
    sends: SendArrays, txn: Ints, decisions: Decisions, flags: MessageFlags, read_ns: int
) -> pa.Table:
    """Messages by transaction, counted by state (`TRANSACTION_PARTS`)."""
    rows = decisions.row
    writer, number = sends.writer[rows].astype(np.int64), txn[rows]
    order = pair_order(writer, number)
    if not len(rows):
        return TRANSACTION_PARTS.empty_table()
    writer, number = writer[order], number[order]
    first = np.flatnonzero(np.append(True, (writer[1:] != writer[:-1]) | (number[1:] != number[:-1])))

    def count(which: Flags) -> Ints:
        return np.add.reduceat(which[order].astype(np.int64), first)

    counts = {name: count(decisions.state == code) for code, name in enumerate(STATES)}
    undecided = counts["undecided"] > 0
    commits = np.where(decisions.marker == COMMIT, decisions.marker_offset, FOREVER)
    before = np.where(flags.asked_later, decisions.offset, -1)
    return build(
        TRANSACTION_PARTS,
        {
            "writer": writer[first],
            "txn": number[first],
            "messages": np.diff(np.append(first, len(rows))),
            "acknowledged": count(sends.outcome[rows] == OK),
            **counts,
            "fenced": count(flags.fenced),
            "owed": count(flags.owed),
            "last_sent_ns": np.maximum.reduceat(sends.sent_ns[rows][order], first),
            "undecided_ns": np.where(undecided, read_ns, -1),
            "first_commit": np.minimum.reduceat(commits[order], first),
            "last_before": np.maximum.reduceat(before[order], first),
        },
        len(first),
    )
