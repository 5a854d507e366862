"""Columns of `copies` that decide transactions, as arrays, and the output rows about transactions."""

from __future__ import annotations

from collections.abc import Sequence
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
from checkers.partition.logs import PartitionReplicas
from checkers.partition.messages import FOREVER, OK, Flags, Ints, Sends, pair_order
from checkers.tables.files import open_parquet, write_parquet
from checkers.tables.output import PARTS, TRANSACTION_RECORD, build
from checkers.tables.rows import nullable
from checkers.tables.source import Source, TableFile, Window, numbers, read_rows, row_groups
from checkers.transactions.answers import REPORTED
from harness.kafka.model import TopicPartition

COLUMNS = (
    "broker", "offset", "producer_id", "producer_epoch", "control", "transactional", "marker",
    "coordinator_epoch",
)  # fmt: skip


_EPOCH_UNKNOWN = -2
"""A coordinator epoch that is null; -1 is that of a marker which an operator's tool wrote."""

RECORDS_FOLDER, PARTS_FOLDER = "records", "parts"
"""Folders of what tasks write about transactions."""


def producer_records(table: pa.Table, broker: int) -> ProducerRecords:
    """The records of one replica in rows of `copies`."""
    mine = numbers(table, "broker") == broker
    if not mine.all():
        table = table.filter(pa.array(mine))
    return ProducerRecords(
        offset=numbers(table, "offset").astype(np.int64),
        producer=numbers(table, "producer_id").astype(np.int64),
        epoch=numbers(table, "producer_epoch").astype(np.int64),
        control=numbers(table, "control", 0).astype(bool),
        transactional=_tristate(table["transactional"]),
        marker=pc.fill_null(pc.index_in(table["marker"], pa.array(MARKERS)), -1).to_numpy().astype(np.int64),
        coordinator_epoch=numbers(table, "coordinator_epoch", _EPOCH_UNKNOWN).astype(np.int64),
    )


def _tristate(column: pa.ChunkedArray) -> Ints:
    found: Ints = pc.fill_null(column.cast(pa.int8()), -1).to_numpy().astype(np.int64)
    return found


def log_of(
    partition: PartitionReplicas, evidence: Evidence, records: Sequence[ProducerRecords]
) -> TransactionLog:
    """What decides a partition's transactions, from all records of its reference log."""
    everything = all_producer_records(records)
    markers = markers_of(everything)
    epoch = everything.epoch[everything.producer >= 0]
    several = len(epoch) > 0 and int(epoch.min()) != int(epoch.max())
    return _bounded(
        partition,
        evidence,
        markers,
        first_epochs(everything if several else all_producer_records([])),
        undecided_from(everything, last_markers(markers)),
    )


def _bounded(
    partition: PartitionReplicas,
    evidence: Evidence,
    markers: ProducerRecords,
    epochs: ProducerRecords,
    first_undecided: int,
) -> TransactionLog:
    known = next(
        (
            row
            for row in evidence.rows_about("replicas", TopicPartition(partition.topic, partition.number))
            if row["broker"] == partition.reference
        ),
        {},
    )
    high_watermark, stable, ns = (
        -1 if known.get(name) is None else int(known[name])
        for name in ("high_watermark", "last_stable_offset", "ns")
    )
    return transaction_log(
        markers,
        epochs,
        first_undecided,
        high_watermark=high_watermark,
        last_stable_offset=stable,
        conclusive=partition.conclusive,
        read_ns=ns,
    )


# ---- large partitions


def write_markers(source: Source, where: TopicPartition, broker: int, path: str) -> None:
    """Write what decides a large partition's transactions to a file, without holding its log in memory."""
    window = (Window("broker", broker, broker),)
    files = source.files["copies"]
    markers, epochs = [], []
    for table in row_groups(files, "copies", COLUMNS, where, window):
        records = producer_records(table, broker)
        markers.append(markers_of(records))
        epochs.append(first_epochs(records))
    kept = all_producer_records(markers)
    last = last_markers(kept)
    undecided = [
        undecided_from(producer_records(table, broker), last)
        for table in row_groups(files, "copies", COLUMNS, where, window)
    ]
    first = min((offset for offset in undecided if offset >= 0), default=-1)
    starts = first_epochs(all_producer_records(epochs))
    parts = [
        _with_kind(kept, 0),
        _with_kind(starts, 1),
        pa.table({"kind": [2], "offset": [first]}),
    ]
    write_parquet(path, pa.concat_tables(parts, promote_options="default"))


def _with_kind(records: ProducerRecords, kind: int) -> pa.Table:
    columns = {name: pa.array(values) for name, values in vars(records).items()}
    return pa.table({"kind": pa.repeat(kind, len(records.offset)), **columns})


def read_markers(partition: PartitionReplicas, evidence: Evidence, path: str) -> TransactionLog:
    """What `write_markers` wrote."""
    with open_parquet(path) as parquet:
        table = parquet.read()
    kinds = table["kind"].to_numpy()
    parts = []
    for kind in (0, 1):
        rows = table.filter(pa.array(kinds == kind))
        parts.append(
            ProducerRecords(
                **{
                    name: numbers(rows, name).astype(bool if name == "control" else np.int64)
                    for name in ProducerRecords.__dataclass_fields__
                }
            )
        )
    first = int(table["offset"].to_numpy()[kinds == 2][0])
    return _bounded(partition, evidence, parts[0], parts[1], first)


def records_between(
    files: Sequence[TableFile], where: TopicPartition, broker: int, windows: Sequence[Window]
) -> ProducerRecords:
    """Records of one replica by rising offset, in row groups that may meet the windows."""
    both = (*windows, Window("broker", broker, broker))
    found = producer_records(read_rows(files, "copies", COLUMNS, where, both), broker)
    steps = np.diff(found.offset)
    if len(steps) and int(steps.min()) < 0:
        found = found.take(np.argsort(found.offset, kind="stable"))
    return found


# ---- what is written


def record_rows(
    partition: PartitionReplicas, table: pa.Table, sends: Sends, decisions: Decisions, fenced: Flags
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
                mask=(decisions.marker_offset < 0) | (decisions.coordinator_epoch == _EPOCH_UNKNOWN),
            ).cast(pa.int32()),
        },
        len(rows),
    )


def fenced_writes(evidence: Evidence, sends: Sends, decisions: Decisions) -> Flags:
    """Messages that a fenced producer wrote and a marker committed nevertheless."""
    rows = decisions.row
    late = evidence.transactions.sent_fenced(sends.writer[rows], sends.sent_ns[rows], sends.transaction[rows])
    found: Flags = (decisions.marker == COMMIT) & (decisions.outdated | late)
    return found


def owed_markers(
    evidence: Evidence, partition: PartitionReplicas, sends: Sends, decisions: Decisions
) -> Flags:
    """Undecided messages whose marker a coordinator still had to write."""
    found = np.zeros(len(decisions), dtype=bool)
    place = f"{partition.topic}/{partition.number}"
    debts = [debt for debt in evidence.debts if place in debt.partitions]
    if not debts:
        return found
    writer = sends.writer[decisions.row]
    reported = evidence.transactions.reported_of(sends.transaction[decisions.row])
    for debt in debts:
        fitting = [code for code, name in enumerate(REPORTED) if debt.fits(name)]
        named = [w for w, row in evidence.writers.items() if row["transactional_id"] == debt.transactional_id]
        found |= (
            (decisions.producer == debt.producer_id) & np.isin(writer, named) & np.isin(reported, fitting)
        )
    owed: Flags = found & (decisions.state == UNDECIDED)
    return owed


def asked_later(evidence: Evidence, table: pa.Table, sends: Sends, decisions: Decisions) -> Flags:
    """Messages that were acknowledged before their application asked for an end.

    ``table`` holds rows of `sends`.
    """
    rows = decisions.row
    done_ns = numbers(table, "done_ns")[rows]
    ending_ns = evidence.transactions.ns_of("ending_ns", sends.transaction[rows])
    found: Flags = (sends.outcome[rows] == OK) & (done_ns >= 0) & (done_ns < ending_ns)
    return found


@dataclass(frozen=True, kw_only=True)
class MessageFlags:
    """What else is known of the messages of `Decisions`, one entry each."""

    fenced: Flags
    owed: Flags
    asked_later: Flags


def parts_of(sends: Sends, txn: Ints, decisions: Decisions, flags: MessageFlags, read_ns: int) -> pa.Table:
    """Messages by transaction, counted by state (`PARTS`)."""
    rows = decisions.row
    writer, number = sends.writer[rows].astype(np.int64), txn[rows]
    order = pair_order(writer, number)
    if not len(rows):
        return PARTS.empty_table()
    writer, number = writer[order], number[order]
    first = np.flatnonzero(np.append(True, (writer[1:] != writer[:-1]) | (number[1:] != number[:-1])))

    def count(which: Flags) -> Ints:
        return np.add.reduceat(which[order].astype(np.int64), first)

    counts = {name: count(decisions.state == code) for code, name in enumerate(STATES)}
    undecided = counts["undecided"] > 0
    commits = np.where(decisions.marker == COMMIT, decisions.marker_offset, FOREVER)
    before = np.where(flags.asked_later, decisions.offset, -1)
    return build(
        PARTS,
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
