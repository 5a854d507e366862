"""One task, in a worker: from files to life, findings, and facts that other tasks need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from checkers.evidence import Sightings, sightings_of
from checkers.fast.cut import sort_apart
from checkers.fast.loading import (
    COPY_COLUMNS,
    READ_COLUMNS,
    SIGHTING_COLUMNS,
    PartitionMessages,
    load,
    look_up,
    others_at,
    reference_between,
    refuse_sent_twice,
    rows_of,
)
from checkers.fast.merge import jumps, log_ends, merge, offsets_by_broker
from checkers.fast.tasks import (
    CLAIMS,
    CLASSES,
    EDGES,
    FATES,
    OFFSET_SPANS,
    OFFSETS,
    PASSED,
    RECORDS,
    SEQS,
    STEPS,
    UNSENT,
    HomesResult,
    Identities,
    IdentityLookup,
    JudgingContext,
    KeyRange,
    KeyResult,
    OffsetRange,
    OffsetResult,
    PartitionMarkers,
    PassedMessages,
    PassedResult,
    Range,
    ReadOrderResult,
    ReadWindow,
    Result,
    SharedWriters,
    Task,
    WholePartition,
    WholeResult,
    WindowEdges,
    encode,
    encode_error,
    table_of,
)
from checkers.partition.decisions import STATES, Decisions, with_losses
from checkers.partition.deliveries import (
    Steps,
    aborted_reads,
    conflicts,
    edge_reads,
    missed,
    reads_at_edges,
    suspicious_steps,
    unsent,
)
from checkers.partition.fate import FATES as ALL_FATES
from checkers.partition.fates import Fates, claimed_offsets, decide, explained_offsets, flagged, out_of_order
from checkers.partition.logs import PartitionReplicas, reference_of, split_copies, split_logs
from checkers.partition.messages import NOTHING, Ints, KeyIndex, Reads, Sends
from checkers.partition.replicas import ENDS, ReplicaRecords, all_records, differences, odd_records
from checkers.tables.arrays import (
    copy_arrays,
    group_events,
    read_arrays,
)
from checkers.tables.output import PARTS, TRANSACTION_RECORD, write
from checkers.tables.rows import (
    counted,
    joined,
    life_of,
    of_differences,
    of_messages,
    of_reads,
    of_records,
)
from checkers.tables.source import numbers, read_rows
from checkers.tables.transactions import (
    PARTS_FOLDER,
    RECORDS_FOLDER,
    MessageFlags,
    asked_later,
    fenced_writes,
    owed_markers,
    parts_of,
    record_rows,
    write_markers,
)
from checkers.transactions.timeouts import timeout_causes
from harness.errors import BadDataError
from harness.history.schema import OUTCOMES
from harness.kafka.model import TopicPartition

Arrays = TypeVar("Arrays", Sends, Fates, Sightings)


def answer(job: JudgingContext, place: int, task: Task) -> pa.RecordBatch:
    """Carry out a task; returns its result, or the error that it found in the history, as rows of `WIRE`."""
    try:
        return encode(place, judge_task(job, task))
    except BadDataError as error:
        return encode_error(place, error.message)


def judge_task(job: JudgingContext, task: Task) -> Result:
    """Carry out a task and write its parts of life and findings. Raises BadDataError."""
    if isinstance(task, WholePartition):
        return _whole(job, task)
    if isinstance(task, KeyRange):
        return _key_range(job, task)
    if isinstance(task, OffsetRange):
        return _offset_range(job, task)
    if isinstance(task, ReadWindow):
        return _read_window(job, task)
    if isinstance(task, WindowEdges):
        return _window_edges(job, task)
    if isinstance(task, PassedMessages):
        return _passed(job, task)
    if isinstance(task, IdentityLookup):
        return HomesResult(homes=look_up(task))
    if isinstance(task, SharedWriters):
        refuse_sent_twice(task)
        return HomesResult()
    if isinstance(task, PartitionMarkers):
        write_markers(job.source, task.where, task.partition.reference, task.path)
        return HomesResult()
    return sort_apart(task)


# ---- by message


def _seqs(sends: Sends) -> pa.Table:
    return _counts(sends, None)[1]


def _counts(sends: Sends, fates: Fates | None) -> tuple[pa.Table, pa.Table]:
    """Messages by writer, outcome and fate; and which sequence numbers each writer sent."""
    width = len(ALL_FATES)
    code = sends.outcome.astype(np.int16) * width + (0 if fates is None else fates.fate)
    arrays = [pa.array(sends.writer), pa.array(code), pa.array(sends.seq)]
    table = pa.table(arrays, names=["writer", "code", "seq"])
    counts = table.group_by(["writer", "code"], use_threads=False).aggregate(
        [([], "count_all"), ("seq", "min"), ("seq", "max")]
    )
    codes = counts["code"].to_numpy()
    columns = [
        counts["writer"],
        pa.array(OUTCOMES).take(pa.array(codes // width)),
        pa.array([fate.name for fate in ALL_FATES]).take(pa.array(codes % width)),
        counts["count_all"],
    ]
    seqs = counts.group_by("writer").aggregate([("seq_min", "min"), ("seq_max", "max")])
    return (
        pa.table(columns, names=FATES.names).cast(FATES),
        seqs.select(["writer", "seq_min_min", "seq_max_max"]).rename_columns(SEQS.names).cast(SEQS),
    )


def _write_messages(
    job: JudgingContext, part: str, messages: PartitionMessages, fates: Fates, late: Ints
) -> pa.Table:
    """Write the part of life; returns the findings about messages and about what was read."""
    sends, reads, logs = messages.sends, messages.reads, messages.logs
    partition = messages.partition
    seen_table = rows_of(job, messages.where, "sightings", SIGHTING_COLUMNS, messages.seqs)
    seen_row = messages.index.find(numbers(seen_table, "writer"), numbers(seen_table, "seq"))
    seen = sightings_of(len(sends), seen_row, seen_table)
    mine = flagged(partition, fates, logs)
    rows, place = _chosen(len(sends), mine, late, everything=job.life is not None)
    decisions = _with_losses(messages, fates)
    table, narrow, states = messages.table, (sends, fates, seen), _states(len(sends), decisions)
    if len(rows) < len(sends):
        table, states = table.take(pa.array(rows)), states.take(pa.array(rows))
        narrow = (_narrow(sends, rows), _narrow(fates, rows), _narrow(seen, rows))
    timed_out = timeout_causes(job.evidence, sends, decisions).take(rows)
    life = life_of(
        partition,
        job.evidence,
        table=table,
        sends=narrow[0],
        logs=logs,
        fates=narrow[1],
        seen=narrow[2],
        states=states,
        timed_out=timed_out,
    )
    if job.life is not None:
        write(job.life, part, life.table)
    _write_transactions(job, part, messages, decisions)
    found = [
        of_messages(life, place[mine], narrow[1]),
        of_messages(life, place[late], narrow[1], "out_of_order"),
    ]
    if len(reads):
        gone = aborted_reads(partition, sends, fates, logs, reads)
        elsewhere = conflicts(partition, sends, fates, logs, reads)
        found.append(of_reads(partition, "aborted_read", reads, gone))
        found.append(of_reads(partition, "offset_conflict", reads, elsewhere))
    return joined(found)


def _with_losses(messages: PartitionMessages, fates: Fates) -> Decisions | None:
    """What the logs decided about messages in transactions; None if there are none."""
    if messages.decisions is None:
        return None
    partition = messages.partition
    whole = partition.conclusive and not partition.compacted and partition.log_start <= 0
    return with_losses(messages.decisions, fates.fate, whole=whole)


def _states(count: int, decisions: Decisions | None) -> pa.Array:
    """The state of each message; null for messages in no transaction."""
    if decisions is None:
        return pa.nulls(count, pa.string())
    codes = np.full(count, -1, dtype=np.int32)
    codes[decisions.row] = decisions.state
    return pa.array(STATES).take(pa.array(codes, mask=codes < 0))


def _write_transactions(
    job: JudgingContext, part: str, messages: PartitionMessages, decisions: Decisions | None
) -> None:
    """Write the fates of messages in transactions, one by one and counted by transaction."""
    if job.transactions is None:
        return
    records, counts = TRANSACTION_RECORD.empty_table(), PARTS.empty_table()
    if decisions is not None:
        txn, sends = numbers(messages.table, "txn"), messages.sends
        partition = messages.partition
        fenced = fenced_writes(job.evidence, sends, decisions)
        owed = owed_markers(job.evidence, partition, sends, decisions)
        early = asked_later(job.evidence, messages.table, sends, decisions)
        records = record_rows(partition, messages.table, sends, decisions, fenced)
        flags = MessageFlags(fenced=fenced, owed=owed, asked_later=early)
        counts = parts_of(sends, txn, decisions, flags, messages.log_read_ns)
    write(f"{job.transactions}/{RECORDS_FOLDER}", part, records)
    write(f"{job.transactions}/{PARTS_FOLDER}", part, counts)


def _chosen(count: int, mine: Ints, late: Ints, *, everything: bool) -> tuple[Ints, Ints]:
    """Messages that become rows of life, and the row of each."""
    if everything:
        rows = np.arange(count)
        return rows, rows
    wanted = np.zeros(count, dtype=bool)
    wanted[mine] = True
    wanted[late] = True
    return np.flatnonzero(wanted), np.cumsum(wanted) - 1


def _narrow(record: Arrays, rows: Ints) -> Arrays:
    return replace(record, **{name: values[rows] for name, values in vars(record).items()})


def _key_range(job: JudgingContext, task: KeyRange) -> KeyResult:
    messages = load(
        job,
        task.where,
        identities=task.identities,
        partition=task.partition,
        seqs=task.seqs,
        markers=task.markers,
    )
    unresolved = messages.unresolved()
    if unresolved.num_rows:
        return KeyResult(unresolved=unresolved, seqs=_seqs(messages.sends))
    sends, logs = messages.sends, messages.logs
    fates = decide(task.partition, sends, logs, messages.reads, messages.away)
    late, spans = out_of_order(sends, fates, task.later_low)
    findings = _write_messages(job, task.part, messages, fates, late)
    write(job.findings, task.part, findings)
    claims = messages.claims
    counts, seqs = _counts(sends, fates)
    return KeyResult(
        fates=counts,
        findings=counted(findings).cast(CLASSES),
        seqs=seqs,
        strays=messages.strays(),
        claimed=pa.table([pa.array(claimed_offsets(sends, logs, fates))], schema=OFFSETS),
        explained=pa.table([pa.array(explained_offsets(logs, fates))], schema=OFFSETS),
        claims=pa.table(
            {
                "offset": claims.offset,
                "sent_ns": sends.sent_ns[claims.row],
                "writer": sends.writer[claims.row],
                "seq": sends.seq[claims.row],
            }
        ).cast(CLAIMS),
        spans=pa.table({name: [getattr(span, name) for span in spans] for name in OFFSET_SPANS.names}).cast(
            OFFSET_SPANS
        ),
    )


# ---- by offset


def _ends(found: ReplicaRecords) -> tuple[ReplicaRecords, pa.Table]:
    """Differences that are findings by themselves, and those that stand for the end of a log."""
    ends = np.isin(found.kind, ENDS)
    return found.take(~ends), table_of(found.take(ends), RECORDS)


def _by_broker(parts: Sequence[ReplicaRecords]) -> ReplicaRecords:
    found = all_records(parts)
    return found.take(np.argsort(found.broker, kind="stable"))


def _offset_range(job: JudgingContext, task: OffsetRange) -> OffsetResult:
    partition, where = task.partition, task.where
    window = task.offsets.window("offset")
    table = read_rows(job.source.files["copies"], "copies", COPY_COLUMNS, where, (window,))
    inside = task.offsets.of(numbers(table, "offset"))
    copies = copy_arrays(table if inside.all() else table.filter(pa.array(inside)), str(where))
    del table
    logs = split_logs(partition, KeyIndex(NOTHING, NOTHING, str(where)), split_copies(copies), task.homes)
    odd = odd_records(partition, logs, list(task.strays.items()))
    reported = np.unique(np.concatenate([odd.offset, task.claimed, task.explained]))
    different, ends = _ends(differences(partition, logs, reported))
    findings = joined(
        [
            of_records(partition, odd, task.homes, task.claimed),
            of_differences(partition, _by_broker([different, task.ends])),
        ]
    )
    write(job.findings, task.part, findings)
    return OffsetResult(findings=counted(findings).cast(CLASSES), ends=ends)


# ---- by time


def _read_window(job: JudgingContext, task: ReadWindow) -> ReadOrderResult:
    where, partition = task.where, task.partition
    window = task.times.window("ns")
    table = read_rows(job.source.files["reads"], "reads", READ_COLUMNS, where, (window,))
    table = table.filter(pa.array(task.times.of(numbers(table, "ns"))))
    reads = read_arrays(table, KeyIndex(NOTHING, NOTHING, str(where)), job.evidence, str(where))
    steps = suspicious_steps(
        reads, group_events(job.evidence, where), reference_between(job, where, partition)
    )
    unnamed = reads.take(np.flatnonzero((reads.writer < 0) | (reads.seq < 0)))
    return ReadOrderResult(
        steps=table_of(steps, STEPS),
        edges=table_of(edge_reads(reads), EDGES),
        unsent=_unsent(job, where, partition, unnamed),
    )


def _unsent(
    job: JudgingContext, where: TopicPartition, partition: PartitionReplicas, reads: Reads
) -> pa.Table:
    if not len(reads):
        return UNSENT.empty_table()
    index = KeyIndex(NOTHING, NOTHING, str(where))
    copies = others_at(job, where, Range(low=0, high=0), np.unique(reads.offset))
    logs = split_logs(partition, index, split_copies(copies), None) if copies is not None else []
    rows = unsent(logs, reads)
    names = of_reads(partition, "aborted_read", reads, rows)["reader"]
    columns = (reads.offset, reads.ns, reads.writer, reads.seq)
    return pa.table([*(pa.array(values[rows].astype(np.int64)) for values in columns), names], schema=UNSENT)


def _window_edges(job: JudgingContext, task: WindowEdges) -> ReadOrderResult:
    reads, windows = reads_at_edges(task.edges)
    events = group_events(job.evidence, task.where)
    steps = suspicious_steps(reads, events, reference_between(job, task.where, task.partition), windows)
    return ReadOrderResult(steps=table_of(steps, STEPS))


def _passed(job: JudgingContext, task: PassedMessages) -> PassedResult:
    messages = load(
        job,
        task.where,
        identities=Identities(),
        partition=task.partition,
        seqs=task.seqs,
        markers=task.markers,
    )
    return PassedResult(passed=_missed(messages, task.jumps))


def _missed(messages: PartitionMessages, jumps: Steps) -> pa.Table:
    reference = reference_of(messages.partition, messages.logs)
    found = missed(jumps, reference, messages.sends, messages.reads)
    rows = np.flatnonzero(found.count > 0)
    columns = [rows, found.count[rows], found.offset[rows], found.writer[rows], found.seq[rows]]
    return pa.table([pa.array(c, pa.int64()) for c in columns], schema=PASSED)


# ---- all of a partition


def _whole(job: JudgingContext, task: WholePartition) -> WholeResult:
    messages = load(job, task.where, identities=task.identities)
    unresolved = messages.unresolved()
    if unresolved.num_rows:
        return WholeResult(unresolved=unresolved, seqs=_seqs(messages.sends))
    partition, sends, logs, reads = messages.partition, messages.sends, messages.logs, messages.reads
    fates = decide(partition, sends, logs, reads, messages.away)
    late, _ = out_of_order(sends, fates, {})
    found = [_write_messages(job, task.part, messages, fates, late)]
    strays, homes = messages.strays(), task.identities.homes
    claimed = claimed_offsets(sends, logs, fates)
    odd = odd_records(partition, logs, list(offsets_by_broker(strays).items()))
    reported = np.unique(np.concatenate([odd.offset, claimed, explained_offsets(logs, fates)]))
    different, ends = _ends(differences(partition, logs, reported))
    every = _by_broker([different, log_ends([ends])])
    found += [of_records(partition, odd, homes, claimed), of_differences(partition, every)]
    fate_counts, seqs = _counts(sends, fates)
    steps, passed = ReadOrderResult(), []
    if len(reads):
        reference = reference_of(partition, logs)
        suspicious = suspicious_steps(
            reads, group_events(job.evidence, task.where), lambda _low, _high: [reference]
        )
        steps = ReadOrderResult(steps=table_of(suspicious, STEPS))
        passed = [PassedResult(passed=_missed(messages, jumps([steps])))]
    merged = merge(
        partition,
        job.evidence,
        keys=[KeyResult(fates=fate_counts)],
        offsets=[],
        windows=[steps],
        passed=passed,
    )
    findings = joined([*found, merged.findings])
    write(job.findings, task.part, findings)
    return WholeResult(fates=merged.fates, findings=counted(findings).cast(CLASSES), seqs=seqs)
