"""What a task reads: the messages, records and reads of a topic partition, or of a range of one.

A message that is not among a task's own sends is looked up among all sends: it was sent to another partition,
or nobody sent it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.fast.tasks import (
    HOMES,
    STRAYS,
    UNRESOLVED,
    Identities,
    IdentityLookup,
    JudgingContext,
    Range,
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
    all_producer_records,
    decisions_of,
)
from checkers.partition.deliveries import Slices
from checkers.partition.fates import Claims, places, recognise
from checkers.partition.logs import (
    OWN,
    Copies,
    Log,
    PartitionReplicas,
    reference_of,
    split_copies,
    split_logs,
)
from checkers.partition.logs import UNRESOLVED as NOT_LOOKED_UP
from checkers.partition.messages import FAIL, NOTHING, Flags, Homes, Ints, KeyIndex, Reads, Sends
from checkers.tables.arrays import copy_arrays, partition_of, read_arrays, send_arrays, transaction_rows
from checkers.tables.files import open_parquet
from checkers.tables.source import (
    Source,
    Window,
    meets,
    numbers,
    read_file,
    read_rows,
    row_groups,
)
from checkers.tables.transactions import log_of, read_markers, records_between
from checkers.transactions.answers import ABORTED as REPORTED_ABORTED
from checkers.transactions.answers import COMMITTED
from harness.errors import BadDataError
from harness.kafka.model import TopicPartition

SEND_COLUMNS = (
    "writer", "seq", "sent_ns", "done_ns", "outcome", "error", "offset", "attempts", "broker", "label", "txn",
)  # fmt: skip
COPY_COLUMNS = ("broker", "offset", "epoch", "writer", "seq", "intact", "home", "control")
SIGHTING_COLUMNS = ("broker", "offset", "seen_ns", "epoch", "writer", "seq", "gone_ns")
READ_COLUMNS = (
    "reader", "ns", "offset", "writer", "seq", "poll", "group", "isolation", "txn_writer", "txn",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PartitionMessages:
    """Messages (of a partition, or of a range of one), their records in the logs, and their fates."""

    where: TopicPartition
    seqs: Range | None
    partition: PartitionReplicas
    table: pa.Table
    sends: Sends
    index: KeyIndex
    logs: Sequence[Log]
    reads: Reads
    claims: Claims
    away: Flags | None
    decisions: Decisions | None
    """How messages in transactions were decided; None: there are none."""
    log_read_ns: int

    def unresolved(self) -> pa.Table:
        """Messages that must be looked up among all sends before their fates can be decided."""
        parts = []
        for log in self.logs:
            if not len(log) or int(log.origin.max()) != NOT_LOOKED_UP:
                continue
            asked = (log.origin == NOT_LOOKED_UP) & ~log.control
            if self.seqs is None:
                asked &= log.intact
            else:
                asked &= log.intact | ~self.seqs.of(log.seq)
            rows = np.flatnonzero(asked)
            if len(rows):
                columns = (log.writer[rows], log.seq[rows], log.intact[rows])
                parts.append(
                    pa.table([pa.array(c) for c in columns], names=UNRESOLVED.names).cast(UNRESOLVED)
                )
        if not parts:
            return UNRESOLVED.empty_table()
        found = pa.concat_tables(parts)
        return (
            found.group_by(["writer", "seq"]).aggregate([("intact", "max")]).rename_columns(UNRESOLVED.names)
        )

    def strays(self) -> pa.Table:
        """Records of these messages' range that name a message which was not sent to this partition."""
        parts = []
        for log in self.logs:
            if not log.origin.any():
                continue
            odd = (log.row < 0) & (log.origin != OWN) & log.intact & ~log.control
            odd &= (log.writer >= 0) & (log.seq >= 0)
            if self.seqs is not None:
                odd &= self.seqs.of(log.seq)
            rows = np.flatnonzero(odd)
            if len(rows):
                broker = np.full(len(rows), log.broker, dtype=np.int32)
                parts.append(pa.table([pa.array(broker), pa.array(log.offset[rows])], schema=STRAYS))
        return pa.concat_tables([STRAYS.empty_table(), *parts])


def load(
    job: JudgingContext,
    where: TopicPartition,
    *,
    identities: Identities,
    partition: PartitionReplicas | None = None,
    seqs: Range | None = None,
    markers: str | None = None,
) -> PartitionMessages:
    """Read what a task judges. ``markers`` is the file about the transactions of a partition that is cut."""
    table = rows_of(job, where, "sends", SEND_COLUMNS, seqs)
    sends = send_arrays(table, job.evidence, str(where))
    index = KeyIndex(sends.writer, sends.seq, str(where))
    copies = copy_arrays(rows_of(job, where, "copies", COPY_COLUMNS, seqs), str(where))
    by_broker = split_copies(copies)
    if partition is None:
        partition = partition_of(job.source, job.evidence, where, by_broker)
    logs = split_logs(partition, index, by_broker, identities.homes)
    read = rows_of(job, where, "reads", READ_COLUMNS, seqs)
    reads = read_arrays(read, index, job.evidence, str(where))
    if seqs is not None:
        offsets = _offsets_of_interest(partition, sends, logs, reads)
        more = others_at(job, where, seqs, offsets)
        if more is not None:
            by_broker = split_copies(copies.and_also(more))
            logs = split_logs(partition, index, by_broker, identities.homes)
    logs, claims = recognise(partition, sends, logs, reads, identities.taken)
    away = None
    if len(identities.away):
        away = np.zeros(len(sends), dtype=bool)
        rows = index.find(identities.away[:, 0], identities.away[:, 1])
        away[rows[rows >= 0]] = True
    decisions, read_ns = None, -1
    if table["txn"].null_count < len(table):
        reference = reference_of(partition, logs)
        decisions, read_ns = _decisions(job, where, partition, table, sends, reference, seqs, markers)
        sends = _as_decided(job, sends, decisions)
    return PartitionMessages(
        where=where,
        seqs=seqs,
        partition=partition,
        table=table,
        sends=sends,
        index=index,
        logs=logs,
        reads=reads,
        claims=claims,
        away=away,
        decisions=decisions,
        log_read_ns=read_ns,
    )


def _decisions(
    job: JudgingContext,
    where: TopicPartition,
    partition: PartitionReplicas,
    table: pa.Table,
    sends: Sends,
    reference: Log,
    seqs: Range | None,
    markers: str | None,
) -> tuple[Decisions, int]:
    """How the messages in transactions were decided, and when the log that decides was read."""
    rows = transaction_rows(table)
    _, offset, _, _ = places(len(sends), sends, reference)
    offset = offset[rows]
    if seqs is None:
        windows: tuple[Window, ...] = ()
    else:
        stands = offset[offset >= 0]
        windows = (Window("offset", int(stands.min()), int(stands.max())),) if len(stands) else ()
    broker, files = partition.reference, job.source.files["copies"]
    if seqs is not None and not windows:
        records = all_producer_records([])
    else:
        records = records_between(files, where, broker, windows)
    if markers is None:
        log = log_of(partition, job.evidence, [records])
    else:
        log = read_markers(partition, job.evidence, markers)
    return decisions_of(log, records, rows, offset), log.read_ns


def _as_decided(job: JudgingContext, sends: Sends, decisions: Decisions) -> Sends:
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


def rows_of(
    job: JudgingContext, where: TopicPartition, table: str, columns: tuple[str, ...], seqs: Range | None
) -> pa.Table:
    files = job.source.files.get(table, ())
    if seqs is None:
        return read_rows(files, table, columns, where)
    found = read_rows(files, table, columns, where, (seqs.window("seq"),))
    inside = seqs.of(numbers(found, "seq"))
    if table != "sends":  # a record that names no message belongs to no range
        inside &= (numbers(found, "seq") >= 0) & (numbers(found, "writer") >= 0)
    return found if inside.all() else found.filter(pa.array(inside))


def _offsets_of_interest(
    partition: PartitionReplicas, sends: Sends, logs: Sequence[Log], reads: Reads
) -> Ints:
    """Offsets at which it matters whether a record is of another range, or of no message."""
    reference = reference_of(partition, logs)
    stands = np.zeros(len(sends), dtype=bool)
    stands[reference.row[reference.row >= 0]] = True
    missing = ~stands
    parts = [sends.offset[missing & (sends.outcome != FAIL)], reads.offset[reads.row < 0]]
    if missing.any():
        parts += [log.offset[(log.row >= 0) & missing[log.row]] for log in logs]
        parts.append(reads.offset[(reads.row >= 0) & missing[reads.row]])
    if partition.compacted and len(reads):
        place = reference.at(reads.offset)
        same = (place >= 0) & (reference.row[place] == reads.row) if len(reference) else place >= 0
        parts.append(reads.offset[~same])
    offsets = np.unique(np.concatenate(parts))
    return offsets[offsets >= 0]


def others_at(job: JudgingContext, where: TopicPartition, seqs: Range, offsets: Ints) -> Copies | None:
    """Records at some offsets that are not of the range."""
    if not len(offsets):
        return None
    window = Window("offset", int(offsets[0]), int(offsets[-1]))
    parts = []
    for table in row_groups(job.source.files["copies"], "copies", COPY_COLUMNS, where, (window,)):
        seq, writer = numbers(table, "seq"), numbers(table, "writer")
        other = np.isin(numbers(table, "offset"), offsets) & ~(seqs.of(seq) & (seq >= 0) & (writer >= 0))
        if other.any():
            parts.append(table.filter(pa.array(other)))
    return copy_arrays(pa.concat_tables(parts), str(where)) if parts else None


def reference_between(job: JudgingContext, where: TopicPartition, partition: PartitionReplicas) -> Slices:
    """The reference log between two offsets, a row group at a time."""
    index = KeyIndex(NOTHING, NOTHING, str(where))
    broker = partition.reference

    def slices(low: int, high: int) -> Iterator[Log]:
        windows = (Window("offset", low, high), Window("broker", broker, broker))
        for table in row_groups(job.source.files["copies"], "copies", COPY_COLUMNS, where, windows):
            mine = table.filter(pc.equal(table["broker"], broker))
            if mine.num_rows:
                yield from split_logs(partition, index, split_copies(copy_arrays(mine, str(where))), None)

    return slices


# ---- messages among all sends

_ROWS = 2_000_000
"""Rows of `sends` that one task searches, approximately."""


def lookups(source: Source, wanted: Ints) -> list[IdentityLookup]:
    """Tasks that look up messages (writer and sequence number, one row each) among all sends."""
    low, high = int(wanted[:, 1].min()), int(wanted[:, 1].max())
    found = []
    for file in source.files["sends"]:
        with open_parquet(file.path) as parquet:
            meta = parquet.metadata
        groups: list[int] = []
        rows = 0
        for group in range(meta.num_row_groups):
            if not meets(meta.row_group(group), (Window("seq", low, high),)):
                continue
            if groups and rows + meta.row_group(group).num_rows > _ROWS:
                found.append(IdentityLookup(path=file.path, groups=tuple(groups), wanted=wanted))
                groups, rows = [], 0
            groups.append(group)
            rows += meta.row_group(group).num_rows
        if groups:
            found.append(IdentityLookup(path=file.path, groups=tuple(groups), wanted=wanted))
    return found


def look_up(task: IdentityLookup) -> pa.Table:
    """The rows of `sends` that are wanted: writer, sequence number and topic partition."""
    index = KeyIndex(task.wanted[:, 0], task.wanted[:, 1], "what is looked up")
    parts = []
    for group in task.groups:
        table = read_file(task.path, "sends", HOMES.names, group)
        hit = index.find(numbers(table, "writer"), numbers(table, "seq")) >= 0
        if hit.any():
            parts.append(table.filter(pa.array(hit)).cast(HOMES))
    return pa.concat_tables([HOMES.empty_table(), *parts])


def homes_of(found: pa.Table) -> Homes:
    """Messages that were looked up, as an index. Raises BadDataError for a message that was sent twice."""
    _refuse_twice(found)
    return Homes(
        writer=numbers(found, "writer").astype(np.int64),
        seq=numbers(found, "seq"),
        topic=tuple(found["topic"].to_pylist()),
        partition=numbers(found, "partition").astype(np.int64),
    )


def shared_writers(source: Source, seqs: Mapping[TopicPartition, Sequence[pa.Table]]) -> list[SharedWriters]:
    """Tasks that make sure that no message was sent to two topic partitions.

    ``seqs`` tells which sequence numbers each writer sent to each partition (`tasks.SEQS`): only writers
    of several partitions, whose sequence numbers overlap, can have done so.
    """
    spans: dict[int, list[tuple[int, int, TopicPartition]]] = {}
    for where, tables in seqs.items():
        for table in tables:
            for row in table.to_pylist():
                spans.setdefault(row["writer"], []).append((row["low"], row["high"], where))
    suspects = {writer: mine for writer, mine in spans.items() if _overlap(mine)}
    if not suspects:
        return []
    wheres = {where for mine in suspects.values() for _, _, where in mine}
    files = tuple(file for file in source.files["sends"] if file.topic_partition in (None, *wheres))
    low = min(low for mine in suspects.values() for low, _, _ in mine)
    high = max(high for mine in suspects.values() for _, high, _ in mine) + 1
    pieces = max(1, -(-sum(file.rows for file in files) // _ROWS))
    bounds = sorted({low + (high - low) * number // pieces for number in range(pieces + 1)})
    writers = tuple(sorted(suspects))
    return [
        SharedWriters(files=files, writers=writers, seqs=Range(low=one, high=other))
        for one, other in pairwise(bounds)
    ]


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
    for file in task.files:
        table = read_file(file.path, "sends", HOMES.names, None, (task.seqs.window("seq"),))
        mine = task.seqs.of(numbers(table, "seq")) & np.isin(numbers(table, "writer"), task.writers)
        if mine.any():
            yield table.filter(pa.array(mine)).cast(HOMES)


def _refuse_twice(sends: pa.Table) -> None:
    counts = sends.group_by(["writer", "seq"]).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1))
    if twice.num_rows:
        writer, seq = twice["writer"][0].as_py(), twice["seq"][0].as_py()
        mine = sends.filter(pc.and_(pc.equal(sends["writer"], writer), pc.equal(sends["seq"], seq)))
        places = sorted({f"{row['topic']}/{row['partition']}" for row in mine.to_pylist()})
        raise BadDataError(
            f"sends hold message {seq} of writer {writer} in {' and in '.join(places)}; an identity "
            f"(writer, seq) may be sent only once."
        )
