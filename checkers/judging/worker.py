"""One task, in a worker: from files to life, findings, and counts.

A partition's messages and records are in memory as columns while it is judged; rows of life and findings are
made and written block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from typing import TypeVar

import numpy as np
import pyarrow as pa

from checkers.applications.findings import application_findings
from checkers.evidence import Sightings, sightings_of
from checkers.judging.loading import PartitionMessages, load, look_up, refuse_sent_twice
from checkers.judging.mixed import split
from checkers.judging.tasks import (
    CLASS_COUNTS,
    FATE_COUNTS,
    SEQS,
    IdentityLookup,
    JudgingContext,
    PartitionTask,
    SharedWriters,
    Task,
    TaskResult,
    encode,
    encode_error,
)
from checkers.partition.decisions import STATES, Decisions, with_losses
from checkers.partition.deliveries import aborted_reads, conflicts, missed, suspicious_steps
from checkers.partition.fate import CODE, FATES
from checkers.partition.fates import Fates, claimed_offsets, decide, explained_offsets, flagged, out_of_order
from checkers.partition.logs import reference_of
from checkers.partition.messages import FAIL, Ints, SendArrays, blocks_of
from checkers.partition.replicas import differences, odd_records
from checkers.partition.watched import HighWatermarks, Sighted, truncated
from checkers.shares.findings import KeptMessage, share_findings
from checkers.tables.arrays import group_events
from checkers.tables.output import FINDING, TRANSACTION_PARTS, TRANSACTION_RECORD, PartWriter, write
from checkers.tables.rows import (
    counted,
    life_of,
    nullable,
    of_differences,
    of_messages,
    of_reads,
    of_records,
    of_skips,
    of_steps,
    of_truncations,
    undetermined,
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
)
from checkers.transactions.timeouts import timeout_causes
from harness.errors import BadDataError
from harness.history.schema import OUTCOMES

WATERMARK_COLUMNS = ("broker", "ns", "high_watermark")
SIGHTING_COLUMNS = ("broker", "offset", "seen_ns", "epoch", "writer", "seq", "gone_ns")

Arrays = TypeVar("Arrays", SendArrays, Fates)


def answer(job: JudgingContext, place: int, task: Task) -> pa.RecordBatch:
    """Carry out a task; returns its result, or the error that it found in the history, as rows of `WIRE`."""
    try:
        return encode(place, carry_out(job, task))
    except BadDataError as error:
        return encode_error(place, error.message)


def carry_out(job: JudgingContext, task: Task) -> TaskResult:
    """Carry out a task and write its parts of the output tables. Raises BadDataError."""
    if isinstance(task, PartitionTask):
        return _judge_partition(job, task)
    if isinstance(task, IdentityLookup):
        return TaskResult(homes=look_up(task))
    if isinstance(task, SharedWriters):
        refuse_sent_twice(task)
        return TaskResult()
    return split(task)


def _judge_partition(job: JudgingContext, task: PartitionTask) -> TaskResult:
    messages = load(job, task.where, task.identities)
    unresolved = messages.unresolved()
    if unresolved.num_rows:
        return TaskResult(unresolved=unresolved, seqs=_counts(messages.sends, None)[1])
    fates = decide(messages.partition, messages.sends, messages.logs, messages.reads, messages.away)
    decisions = _with_losses(messages, fates)
    classes = [CLASS_COUNTS.empty_table()]
    with ExitStack() as files:
        findings_file = files.enter_context(PartWriter(job.findings, task.part))
        life_file = None if job.life is None else files.enter_context(PartWriter(job.life, task.part))
        message_findings = _of_messages(job, messages, fates, decisions, life_file)
        for findings in chain(message_findings, _of_logs_and_reads(job, task, messages, fates)):
            if findings.num_rows:
                classes.append(counted(findings).cast(CLASS_COUNTS))
                findings_file.add(findings)
    _write_transactions(job, task.part, messages, decisions)
    by_class = pa.concat_tables(classes).group_by(["class"], use_threads=False).aggregate([("count", "sum")])
    counts, seqs = _counts(messages.sends, fates)
    return TaskResult(fates=counts, findings=by_class.rename_columns(CLASS_COUNTS.names), seqs=seqs)


def _counts(sends: SendArrays, fates: Fates | None) -> tuple[pa.Table, pa.Table]:
    """Messages by writer, outcome and fate; and which sequence numbers each writer sent."""
    width = len(FATES)
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
        pa.array([fate.name for fate in FATES]).take(pa.array(codes % width)),
        counts["count_all"],
    ]
    seqs = counts.group_by("writer", use_threads=False).aggregate([("seq_min", "min"), ("seq_max", "max")])
    return (
        pa.table(columns, names=FATE_COUNTS.names).cast(FATE_COUNTS),
        seqs.select(["writer", "seq_min_min", "seq_max_max"]).rename_columns(SEQS.names).cast(SEQS),
    )


# ---- messages


def _of_messages(
    job: JudgingContext,
    messages: PartitionMessages,
    fates: Fates,
    decisions: Decisions | None,
    life_file: PartWriter | None,
) -> Iterator[pa.Table]:
    """Findings about messages, block by block; with ``life_file``, writes every message's row of life."""
    sends = messages.sends
    own, late = flagged(messages.partition, fates, messages.logs), out_of_order(sends, fates)
    timed_out = None if decisions is None else timeout_causes(job.evidence, sends, decisions)
    states = _states(len(sends), decisions)
    sightings = _SightingsOfBlocks(job, messages)
    rows = np.union1d(own, late) if life_file is None else np.arange(len(sends))
    for block in (rows[place] for place in blocks_of(len(rows))):
        first, last = int(block[0]), int(block[-1])
        adjacent = last - first + 1 == len(block)
        chosen = slice(first, last + 1) if adjacent else block
        block_fates = _narrow(fates, chosen)
        life = life_of(
            messages.partition,
            job.evidence,
            table=messages.table.slice(first, len(block)) if adjacent else messages.table.take(block),
            sends=_narrow(sends, chosen),
            logs=messages.logs,
            fates=block_fates,
            seen=sightings.of(block),
            states=None if states is None else _state_names(states[chosen]),
            timed_out=None if timed_out is None else timed_out.take(block),
        )
        if life_file is not None:
            life_file.add(life.table)
        yield of_messages(life, np.searchsorted(block, _between(own, first, last)), block_fates)
        places = np.searchsorted(block, _between(late, first, last))
        yield of_messages(life, places, block_fates, "out_of_order")


def _between(rows: Ints, first: int, last: int) -> Ints:
    return rows[(rows >= first) & (rows <= last)]


def _narrow(record: Arrays, rows: Ints | slice) -> Arrays:
    return replace(record, **{name: values[rows] for name, values in vars(record).items()})


class _SightingsOfBlocks:
    """What the observer saw of blocks of messages."""

    def __init__(self, job: JudgingContext, messages: PartitionMessages) -> None:
        files = job.source.files.get("sightings", ())
        self._table = read_rows(files, "sightings", SIGHTING_COLUMNS, messages.where)
        row = messages.index.find(numbers(self._table, "writer"), numbers(self._table, "seq"))
        self._order = np.argsort(row, kind="stable")
        self._rows = row[self._order]

    def of(self, block: Ints) -> Sightings:
        """One entry for each message of a block (rising rows of `sends`)."""
        low, high = np.searchsorted(self._rows, block[0]), np.searchsorted(self._rows, block[-1], "right")
        place = np.searchsorted(block, self._rows[low:high])
        place = np.where(block[place] == self._rows[low:high], place, -1)
        return sightings_of(len(block), place, self._table.take(self._order[low:high]))


# ---- logs, and what readers received


def _of_logs_and_reads(
    job: JudgingContext, task: PartitionTask, messages: PartitionMessages, fates: Fates
) -> Iterator[pa.Table]:
    """Findings about records and reads."""
    partition, sends, logs, reads = messages.partition, messages.sends, messages.logs, messages.reads
    if len(reads):
        aborted = aborted_reads(partition, sends, fates, logs, reads)
        yield of_reads(partition, "aborted_read", reads, aborted)
        elsewhere = conflicts(partition, sends, fates, logs, reads)
        yield of_reads(partition, "offset_conflict", reads, elsewhere)
    claimed = claimed_offsets(sends, logs, fates)
    odd = odd_records(partition, logs)
    yield of_records(partition, odd, task.identities.homes, claimed)
    reported = np.unique(np.concatenate([odd.offset, claimed, explained_offsets(logs, fates)]))
    yield of_differences(partition, differences(partition, logs, reported))
    if partition.watched:
        yield of_truncations(partition, truncated(partition, logs, *_observed(job, messages)))
    if any(job.evidence.tables[name].num_rows for name in ("shares", "share_states")):
        yield _of_shares(job, messages, fates)
    if job.evidence.tables["applications"].num_rows:
        yield _of_applications(job, messages)
    yield undetermined(partition, int(np.count_nonzero(fates.fate == CODE["undetermined"])))
    if len(reads):
        reference = reference_of(partition, logs)
        steps = suspicious_steps(reads, group_events(job.evidence, task.where), reference)
        yield of_steps(partition, job.evidence, steps.take(np.flatnonzero(steps.back)))
        ahead = steps.take(np.flatnonzero(~steps.back))
        ahead = ahead.take(np.lexsort((ahead.offset, ahead.low, ahead.reader, ahead.ns)))
        yield of_skips(partition, job.evidence, ahead, missed(ahead, reference, sends, reads))


def _of_shares(job: JudgingContext, messages: PartitionMessages, fates: Fates) -> pa.Table:
    """Findings about share groups, which are handed messages one by one."""
    chosen = np.flatnonzero((fates.fate == CODE["kept"]) & (messages.sends.transaction < 0))
    acked_ns = numbers(messages.table, "done_ns")[chosen].tolist()
    offsets = fates.found_offset[chosen].tolist()
    kept = [KeptMessage(offset=at, acked_ns=ns) for at, ns in zip(offsets, acked_ns, strict=True)]
    rows = share_findings(job.evidence, messages.where, kept)
    return pa.Table.from_pylist([{"expected": False, **row} for row in rows], schema=FINDING)


def _of_applications(job: JudgingContext, messages: PartitionMessages) -> pa.Table:
    """Findings about applications of Kafka Streams that read the partition."""
    sends = messages.sends
    chosen = np.flatnonzero(sends.outcome != FAIL)
    sent = set(zip(sends.writer[chosen].tolist(), sends.seq[chosen].tolist(), strict=True))
    rows = application_findings(job.source, job.evidence, messages.where, sent)
    return pa.Table.from_pylist([{"expected": False, **row} for row in rows], schema=FINDING)


def _observed(job: JudgingContext, messages: PartitionMessages) -> tuple[Sighted, HighWatermarks]:
    """What the observer saw of a watched partition."""
    files, where = job.source.files, messages.where
    seen = read_rows(files.get("sightings", ()), "sightings", SIGHTING_COLUMNS, where)
    marks = read_rows(files.get("watermarks", ()), "watermarks", WATERMARK_COLUMNS, where).sort_by("ns")
    return (
        Sighted(
            broker=numbers(seen, "broker"),
            offset=numbers(seen, "offset"),
            epoch=numbers(seen, "epoch"),
            seen_ns=numbers(seen, "seen_ns"),
            gone_ns=numbers(seen, "gone_ns"),
        ),
        HighWatermarks(
            broker=numbers(marks, "broker"), ns=numbers(marks, "ns"), offset=numbers(marks, "high_watermark")
        ),
    )


# ---- transactions


def _with_losses(messages: PartitionMessages, fates: Fates) -> Decisions | None:
    """What the logs decided about messages in transactions; None if there are none."""
    if messages.decisions is None:
        return None
    partition = messages.partition
    whole = partition.conclusive and not partition.compacted and partition.log_start <= 0
    return with_losses(messages.decisions, fates.fate, whole=whole)


def _states(count: int, decisions: Decisions | None) -> Ints | None:
    """The state of each message, -1 for messages in no transaction; None if there are no transactions."""
    if decisions is None:
        return None
    states = np.full(count, -1, dtype=np.int8)
    states[decisions.row] = decisions.state
    return states


def _state_names(states: Ints) -> pa.Array:
    return pa.array(STATES).take(nullable(states, pa.int32()))


def _write_transactions(
    job: JudgingContext, part: str, messages: PartitionMessages, decisions: Decisions | None
) -> None:
    """Write the fates of messages in transactions, one by one and counted by transaction."""
    if job.transactions is None:
        return
    records, counts = TRANSACTION_RECORD.empty_table(), TRANSACTION_PARTS.empty_table()
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
