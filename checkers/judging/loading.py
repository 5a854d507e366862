"""What a task reads: the messages, records and reads of a topic partition, and the sends of all partitions.

A message that a log names and that nobody sent to its partition is looked up among all sends: it was sent to
another partition, or nobody sent it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.judging.tasks import (
    HOMES,
    UNRESOLVED_MESSAGES,
    Identities,
    IdentityLookup,
    JudgingContext,
    SharedWriters,
)
from checkers.partition.decisions import (
    ABORTED,
    ABSENT,
    BLOCKED,
    DROPPED,
    LOST,
    READABLE,
    UNKNOWN,
    Decisions,
    decisions_of,
)
from checkers.partition.fates import places, recognise
from checkers.partition.logs import UNRESOLVED, Log, PartitionReplicas, logs_of, reference_of
from checkers.partition.messages import NO_HOMES, Flags, Homes, Ints, KeyIndex, ReadArrays, SendArrays
from checkers.tables.arrays import (
    copy_arrays,
    partition_of,
    producers_recorded,
    read_arrays,
    send_arrays,
    transaction_rows,
)
from checkers.tables.source import (
    Source,
    Window,
    numbers,
    read_file,
    read_rows,
    row_blocks,
    row_group_blocks,
)
from checkers.tables.transactions import log_of, records_of
from checkers.transactions.answers import ABORTED as REPORTED_ABORTED
from checkers.transactions.answers import COMMITTED
from harness.errors import BadDataError
from harness.history.schema import OUTCOMES
from harness.kafka.model import TopicPartition

SEND_COLUMNS = (
    "writer", "seq", "sent_ns", "done_ns", "outcome", "error", "offset", "attempts", "broker", "label", "txn",
)  # fmt: skip
COPY_COLUMNS = ("broker", "offset", "epoch", "writer", "seq", "intact", "home", "control")
READ_COLUMNS = (
    "reader", "ns", "offset", "writer", "seq", "poll", "group", "isolation", "txn_writer", "txn",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PartitionMessages:
    """The messages of a partition, their records in the logs, and what readers received."""

    where: TopicPartition
    partition: PartitionReplicas
    table: pa.Table
    """Columns of `sends` that describe messages."""
    sends: SendArrays
    index: KeyIndex
    logs: Sequence[Log]
    reads: ReadArrays
    away: Flags | None
    """Messages that the logs of other partitions hold; None: there are none."""
    decisions: Decisions | None
    """How messages in transactions were decided; None: there are none."""
    log_read_ns: int

    def unresolved(self) -> pa.Table:
        """Messages that must be looked up among all sends before fates can be decided."""
        parts = [UNRESOLVED_MESSAGES.empty_table()]
        for log in self.logs:
            if len(log) and int(log.origin.max()) == UNRESOLVED:
                rows = np.flatnonzero((log.origin == UNRESOLVED) & ~log.control & log.intact)
                columns = (log.writer[rows], log.seq[rows])
                parts.append(
                    pa.table([pa.array(c) for c in columns], names=UNRESOLVED_MESSAGES.names).cast(
                        UNRESOLVED_MESSAGES
                    )
                )
        return pa.concat_tables(parts).group_by(UNRESOLVED_MESSAGES.names, use_threads=False).aggregate([])


def load(job: JudgingContext, where: TopicPartition, identities: Identities) -> PartitionMessages:
    """Read what the task of a partition judges."""
    files, name = job.source.files, str(where)
    table = read_rows(files["sends"], "sends", SEND_COLUMNS, where)
    sends = send_arrays(table, job.evidence, name)
    table = _described(table, sends)
    index = KeyIndex(sends.writer, sends.seq, name)
    known = producers_recorded(job.source, job.evidence, where)
    by_crc = () if known else ("crc",)
    copies = copy_arrays(row_blocks(files["copies"], "copies", (*COPY_COLUMNS, *by_crc), where), name)
    partition = partition_of(job.source, job.evidence, where, copies)
    logs = logs_of(partition, index, copies, identities.homes if known else NO_HOMES)
    del copies
    pa.default_memory_pool().release_unused()  # else freed blocks of the file stay resident for a while
    read = read_rows(files.get("reads", ()), "reads", READ_COLUMNS, where)
    reads = read_arrays(read, index, job.evidence, name)
    del read
    logs = recognise(partition, sends, logs, reads)
    away = None
    if len(identities.away):
        away = np.zeros(len(sends), dtype=bool)
        rows = index.find(identities.away[:, 0], identities.away[:, 1])
        away[rows[rows >= 0]] = True
    decisions, read_ns = None, -1
    if table["txn"].null_count < len(table):
        decisions, read_ns = _decisions(job, where, partition, table, sends, reference_of(partition, logs))
        sends = _as_decided(job, sends, decisions)
    return PartitionMessages(
        where=where,
        partition=partition,
        table=table,
        sends=sends,
        index=index,
        logs=logs,
        reads=reads,
        away=away,
        decisions=decisions,
        log_read_ns=read_ns,
    )


def _described(table: pa.Table, sends: SendArrays) -> pa.Table:
    """The columns of `sends` that ``sends`` lacks, and of the others those that describe a message.

    The latter share their memory with ``sends``.
    """
    outcome = pa.DictionaryArray.from_arrays(pa.array(sends.outcome), pa.array(OUTCOMES))
    return (
        table.drop_columns(["writer", "seq", "offset", "outcome", "sent_ns"])
        .append_column("outcome", outcome)
        .append_column("sent_ns", pa.array(sends.sent_ns))
    )


def _decisions(
    job: JudgingContext,
    where: TopicPartition,
    partition: PartitionReplicas,
    table: pa.Table,
    sends: SendArrays,
    reference: Log,
) -> tuple[Decisions, int]:
    """How the messages in transactions were decided, and when the log that decides was read."""
    rows = transaction_rows(table)
    _, offset, _, _ = places(len(sends), sends, reference)
    records = records_of(job.source, where, partition.reference)
    log = log_of(partition, job.evidence, records)
    return decisions_of(log, records, rows, offset[rows]), log.read_ns


def _as_decided(job: JudgingContext, sends: SendArrays, decisions: Decisions) -> SendArrays:
    """Messages as the log decided them, which may differ from what was reported to applications."""
    rows, state = decisions.row, decisions.state
    reported = job.evidence.transactions.reported_of(sends.transaction[rows])
    committed = np.isin(state, (READABLE, BLOCKED))
    visible, withheld = sends.visible.copy(), sends.withheld.copy()
    visible[rows] = committed | (visible[rows] & np.isin(state, (UNKNOWN, ABSENT, LOST, DROPPED)))
    withheld[rows] = ((reported == REPORTED_ABORTED) & ~committed) | (
        (state == ABORTED) & (reported != COMMITTED)
    )
    return replace(sends, visible=visible, withheld=withheld)


# ---- messages among all sends

_ROWS = 2_000_000
"""Rows of `sends` that one task searches, approximately."""


def lookups(source: Source, messages: Ints) -> list[IdentityLookup]:
    """Tasks that look up messages (writer and sequence number, one row each) among all sends."""
    window = Window("seq", int(messages[:, 1].min()), int(messages[:, 1].max()))
    return [
        IdentityLookup(path=file.path, groups=tuple(groups), messages=messages)
        for file in source.files["sends"]
        for groups in row_group_blocks(file.path, (window,), _ROWS)
    ]


def look_up(task: IdentityLookup) -> pa.Table:
    """Writer, sequence number and topic partition of those messages that stand in rows of `sends`."""
    index = KeyIndex(task.messages[:, 0], task.messages[:, 1], "what is looked up")
    table = read_file(task.path, "sends", HOMES.names, task.groups)
    hit = index.find(numbers(table, "writer"), numbers(table, "seq")) >= 0
    return table.filter(pa.array(hit)).cast(HOMES)


def homes_of(homes: pa.Table) -> Homes:
    """Messages that were looked up, as an index. Raises BadDataError for a message that was sent twice."""
    _refuse_twice(homes)
    return Homes(
        writer=numbers(homes, "writer").astype(np.int64),
        seq=numbers(homes, "seq"),
        topic=tuple(homes["topic"].to_pylist()),
        partition=numbers(homes, "partition").astype(np.int64),
    )


def shared_writers(source: Source, seqs: Mapping[TopicPartition, pa.Table]) -> list[SharedWriters]:
    """Tasks that make sure that no message was sent to two topic partitions.

    ``seqs`` tells which sequence numbers each writer sent to each partition (`tasks.SEQS`): only writers
    of several partitions, whose sequence numbers overlap, can have done so.
    """
    spans: dict[int, list[tuple[int, int, TopicPartition]]] = {}
    for where, table in seqs.items():
        for row in table.to_pylist():
            spans.setdefault(row["writer"], []).append((row["low"], row["high"], where))
    suspects = {writer: its_spans for writer, its_spans in spans.items() if _overlap(its_spans)}
    if not suspects:
        return []
    wheres = {where for its_spans in suspects.values() for _, _, where in its_spans}
    files = tuple(file for file in source.files["sends"] if file.topic_partition in (None, *wheres))
    low = min(low for its_spans in suspects.values() for low, _, _ in its_spans)
    high = max(high for its_spans in suspects.values() for _, high, _ in its_spans) + 1
    tasks = max(1, -(-sum(file.rows for file in files) // _ROWS))
    bounds = sorted({low + (high - low) * number // tasks for number in range(tasks + 1)})
    writers = tuple(sorted(suspects))
    return [SharedWriters(files=files, writers=writers, low=low, high=high) for low, high in pairwise(bounds)]


def _overlap(spans: Sequence[tuple[int, int, TopicPartition]]) -> bool:
    """Whether spans of different partitions have a number in common."""
    reach: dict[TopicPartition, int] = {}
    for low, high, where in sorted(spans):
        if any(low <= end for other, end in reach.items() if other != where):
            return True
        reach[where] = max(high, reach.get(where, high))
    return False


def refuse_sent_twice(task: SharedWriters) -> None:
    """Raise BadDataError if one of the writers sent a sequence number of the range twice."""
    _refuse_twice(pa.concat_tables([HOMES.empty_table(), *_sends_of(task)]))


def _sends_of(task: SharedWriters) -> Iterator[pa.Table]:
    window = Window("seq", task.low, task.high - 1)
    for file in task.files:
        table = read_file(file.path, "sends", HOMES.names, windows=(window,))
        seq = numbers(table, "seq")
        chosen = (seq >= task.low) & (seq < task.high) & np.isin(numbers(table, "writer"), task.writers)
        if chosen.any():
            yield table.filter(pa.array(chosen)).cast(HOMES)


def _refuse_twice(sends: pa.Table) -> None:
    counts = sends.group_by(["writer", "seq"], use_threads=False).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1))
    if twice.num_rows:
        writer, seq = twice["writer"][0].as_py(), twice["seq"][0].as_py()
        same = sends.filter(pc.and_(pc.equal(sends["writer"], writer), pc.equal(sends["seq"], seq)))
        homes = sorted({f"{row['topic']}/{row['partition']}" for row in same.to_pylist()})
        raise BadDataError(
            f"sends hold message {seq} of writer {writer} in {' and in '.join(homes)}; an identity "
            f"(writer, seq) may be sent only once."
        )
