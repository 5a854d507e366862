"""Cuts a history into pieces that single tasks can judge.

Large files that mix topic partitions are first split by partition: otherwise each task would have to read the
rows of all partitions. Then large partitions are cut into ranges of sequence numbers, of offsets and of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.fast.tasks import (
    FILES,
    FilesResult,
    JudgingContext,
    KeyRange,
    MixedRows,
    OffsetRange,
    Range,
    ReadWindow,
    WholePartition,
)
from checkers.tables.arrays import make_partition
from checkers.tables.files import file_system, inside, line_of, make_folder, open_parquet
from checkers.tables.source import (
    Source,
    TableFile,
    only,
    refuse_bad_text,
    refuse_nulls,
)
from harness.errors import BadDataError
from harness.history.schema import BY_PARTITION, TABLES
from harness.kafka.model import TopicPartition

# ---- mixed files, split by partition

SPLIT_ROWS = 2_000_000
"""If the mixed files of a history hold more rows than this, they are split by partition."""

_CHUNK_ROWS = 2_000_000
_PENDING_ROWS = 500_000
"""Rows that may wait in memory, over all partitions; then the partition with the most rows is written."""


def chunks(source: Source, folder: str, limit: int = SPLIT_ROWS) -> list[MixedRows]:
    """The row groups to split into ``folder``; none if mixed files hold at most ``limit`` rows."""
    mixed = [
        (name, file)
        for name in BY_PARTITION
        for file in source.files.get(name, ())
        if file.topic_partition is None
    ]
    if sum(file.rows for _, file in mixed) <= limit:
        return []
    found: list[MixedRows] = []

    def add(table: str, path: str, groups: list[int]) -> None:
        name = f"{len(found):06}"
        found.append(MixedRows(table=table, path=path, groups=tuple(groups), folder=folder, name=name))

    for table, file in mixed:
        with open_parquet(file.path) as parquet:
            meta = parquet.metadata
            rows = [meta.row_group(group).num_rows for group in range(meta.num_row_groups)]
        groups: list[int] = []
        for group, count in enumerate(rows):
            if groups and sum(rows[g] for g in groups) + count > _CHUNK_ROWS:
                add(table, file.path, groups)
                groups = []
            groups.append(group)
        if groups:
            add(table, file.path, groups)
    return found


def sort_apart(task: MixedRows) -> FilesResult:
    """Write one file per topic partition of a chunk; returns what was written."""
    pending: dict[TopicPartition, list[pa.Table]] = {}
    writers: dict[TopicPartition, pq.ParquetWriter] = {}
    schema = TABLES[task.table].arrow()
    written: dict[TopicPartition, tuple[str, int]] = {}

    def flush(where: TopicPartition) -> None:
        table = pa.concat_tables(pending.pop(where))
        if where not in writers:
            make_folder(inside(task.folder, task.table))
            path = f"{task.folder}/{task.table}/{task.name}-{len(writers):06}.parquet"
            system, inner = file_system(path)
            writers[where] = pq.ParquetWriter(inner, table.schema, filesystem=system)
            written[where] = (path, 0)
        writers[where].write_table(table)
        path, rows = written[where]
        written[where] = (path, rows + table.num_rows)

    try:
        for where, part in _apart(task, schema):
            pending.setdefault(where, []).append(part)
            waiting = {key: sum(t.num_rows for t in tables) for key, tables in pending.items()}
            if sum(waiting.values()) > _PENDING_ROWS:
                flush(max(waiting, key=lambda key: waiting[key]))
        for where in list(pending):
            flush(where)
    finally:
        for writer in writers.values():
            writer.close()
    rows = [
        {"table": task.table, "topic": where.topic, "partition": where.partition, "path": path, "rows": count}
        for where, (path, count) in written.items()
    ]
    return FilesResult(files=pa.Table.from_pylist(rows, schema=FILES))


def _apart(chunk: MixedRows, schema: pa.Schema) -> Iterator[tuple[TopicPartition, pa.Table]]:
    """Rows of a chunk by topic partition, in their order, batch by batch."""
    with open_parquet(chunk.path) as parquet:
        names = [name for name in schema.names if name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(1 << 17, row_groups=list(chunk.groups), columns=names):
            table = _conform(pa.Table.from_batches([batch]), schema, chunk.path)
            yield from _by_partition(table)


def _by_partition(table: pa.Table) -> Iterator[tuple[TopicPartition, pa.Table]]:
    topics = pc.dictionary_encode(table["topic"]).combine_chunks()
    names, codes = topics.dictionary, topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    key = (codes << 32) + table["partition"].to_numpy()
    if len(key) and key.min() == key.max():
        yield TopicPartition(names[int(codes[0])].as_py(), table["partition"][0].as_py()), table
        return
    order = np.argsort(key, kind="stable")
    apart = table.take(pa.array(order))
    bounds = np.flatnonzero(np.diff(key[order], prepend=-1))
    for low, high in zip(bounds, [*bounds[1:], len(key)], strict=True):
        row = order[low]
        where = TopicPartition(names[int(codes[row])].as_py(), int(table["partition"][int(row)].as_py()))
        yield where, apart.slice(int(low), int(high - low))


def _conform(table: pa.Table, schema: pa.Schema, path: str) -> pa.Table:
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table[field.name]
        refuse_bad_text(path, field.name, column)
        if not field.nullable and column.null_count:
            refuse_nulls(path, table.select([field.name]))
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            raise BadDataError(
                f"{path}: column {field.name} does not fit {field.type}: {line_of(error)}"
            ) from error
    return pa.table(columns, schema=pa.schema([field.with_nullable(True) for field in schema]))


def laid_out(source: Source, written: pa.Table) -> Source:
    """The source with mixed files replaced by those that `sort_apart` wrote."""
    fresh: dict[str, list[TableFile]] = {name: [] for name in BY_PARTITION}
    for row in written.sort_by("path").to_pylist():
        where = TopicPartition(row["topic"], row["partition"])
        fresh[row["table"]].append(TableFile(path=row["path"], rows=row["rows"], topic_partition=where))
    files = {
        name: (
            *(file for file in old if file.topic_partition is not None or name not in BY_PARTITION),
            *fresh.get(name, ()),
        )
        for name, old in source.files.items()
    }
    return Source(source.folder, files)


# ---- large partitions, cut into ranges

PIECE_MESSAGES = 1_000_000
"""A partition with more sends is judged in pieces of about this size."""

_ROWS_A_SEND = 8
"""Rows of copies, reads and sightings that a partition may have for each message."""

Piece = WholePartition | KeyRange | OffsetRange | ReadWindow
"""The kinds of pieces of a partition."""


def cut(
    job: JudgingContext,
    where: TopicPartition,
    name: str,
    *,
    sends: int,
    rows: int,
    size: int = PIECE_MESSAGES,
) -> list[Piece]:
    """The pieces of one topic partition; a single whole one if it is small.

    ``rows`` counts the rows of every table of messages, which may be many more than ``sends``. The names of
    its parts of life and findings begin with ``name``.
    """
    if sends <= size and rows <= _ROWS_A_SEND * size:
        return [WholePartition(where=where, part=name)]
    few = max(1, size * _ROWS_A_SEND * sends // rows) if rows > _ROWS_A_SEND * sends else size
    ends, spans = _ends(job.source, where)
    partition = make_partition(job.source, job.evidence, where, ends, spans)
    by_seq = _ranges(_groups(job.source, where, "sends", "seq"), few)
    by_offset = _ranges(_groups(job.source, where, "copies", "offset"), size * max(1, len(ends)))
    read = _groups(job.source, where, "reads", "ns")
    pieces: list[Piece] = [
        KeyRange(where=where, part=f"{name}-seq-{number:06}", partition=partition, seqs=seqs)
        for number, seqs in enumerate(by_seq)
    ]
    pieces += [
        OffsetRange(where=where, part=f"{name}-offset-{number:06}", partition=partition, offsets=offsets)
        for number, offsets in enumerate(by_offset)
    ]
    if read:
        pieces += [ReadWindow(where=where, partition=partition, times=times) for times in _ranges(read, size)]
    return pieces


def partition_of(part: str) -> str:
    """The name with which all parts of a partition begin."""
    return part.partition("-seq-")[0]


def _files(source: Source, where: TopicPartition, table: str) -> Iterator[tuple[pq.ParquetFile, bool]]:
    """The files that may hold rows of a partition, and whether they also hold rows of others."""
    for file in source.files.get(table, ()):
        if file.topic_partition in (None, where):
            with open_parquet(file.path) as parquet:
                yield parquet, file.topic_partition is None


def _groups(source: Source, where: TopicPartition, table: str, column: str) -> list[tuple[int, int, int]]:
    """Lowest value, highest value and rows of each row group; from statistics, or from the data."""
    found = []
    for parquet, mixed in _files(source, where, table):
        place = parquet.schema_arrow.get_field_index(column)
        for number in range(parquet.metadata.num_row_groups):
            group = parquet.metadata.row_group(number)
            stats = group.column(place).statistics if place >= 0 else None
            if not mixed and stats is not None and stats.has_min_max:
                found.append((int(stats.min), int(stats.max), int(group.num_rows)))
                continue
            names = ["topic", "partition", column] if mixed else [column]
            read = parquet.read_row_group(number, columns=names)
            values = (only(read, where) if mixed else read)[column].drop_null()
            if len(values):
                low, high = pc.min_max(values).values()
                found.append((low.as_py(), high.as_py(), len(values)))
    return found


def in_transactions(source: Source, where: TopicPartition) -> bool:
    """Whether messages of a partition may belong to transactions, as far as statistics tell."""
    for parquet, _ in _files(source, where, "sends"):
        place = parquet.schema_arrow.get_field_index("txn")
        for number in range(parquet.metadata.num_row_groups if place >= 0 else 0):
            group = parquet.metadata.row_group(number)
            stats = group.column(place).statistics
            if stats is None or not stats.has_null_count or stats.null_count < group.num_rows:
                return True
    return False


Ends = dict[int, tuple[int, int]]


def _ends(source: Source, where: TopicPartition) -> tuple[Ends, Ends]:
    """Last epoch and offset, and first and last offset, of each replica; from statistics where possible."""
    ends: Ends = {}
    spans: Ends = {}
    for parquet, mixed in _files(source, where, "copies"):
        columns = [c for c in ("broker", "epoch", "offset") if c in parquet.schema_arrow.names]
        for number in range(parquet.metadata.num_row_groups):
            for broker, epoch, low, high in _group_ends(parquet, number, columns, where, mixed):
                was = ends.get(broker, (-1, -1))
                ends[broker] = (epoch, high) if high > was[1] else was
                known = spans.get(broker, (low, high))
                spans[broker] = (min(known[0], low), max(known[1], high))
    return ends, spans


def _group_ends(
    parquet: pq.ParquetFile, number: int, columns: list[str], where: TopicPartition, mixed: bool
) -> Iterator[tuple[int, int, int, int]]:
    """Broker, last epoch, first and last offset of each replica in a row group."""
    group = parquet.metadata.row_group(number)
    names = parquet.schema_arrow.names
    stats = {c: group.column(names.index(c)).statistics for c in columns}
    known = all(s is not None and s.has_min_max for s in stats.values())
    # Only with a single epoch: in a damaged log the last record need not have the highest epoch.
    if not mixed and known and all(stats[c].min == stats[c].max for c in columns if c != "offset"):
        epoch = int(stats["epoch"].max) if "epoch" in stats and not stats["epoch"].null_count else -1
        if "epoch" not in stats or not stats["epoch"].null_count:
            yield int(stats["broker"].max), epoch, int(stats["offset"].min), int(stats["offset"].max)
            return
    read = parquet.read_row_group(number, columns=[*(["topic", "partition"] if mixed else []), *columns])
    table = only(read, where) if mixed else read
    for broker in pc.unique(table["broker"]).to_pylist():
        mine = table.filter(pc.equal(table["broker"], broker))
        last = mine.slice(pc.index(mine["offset"], pc.max(mine["offset"])).as_py(), 1).to_pylist()[0]
        epoch = last.get("epoch")
        low = pc.min(mine["offset"]).as_py()
        yield int(broker), -1 if epoch is None else int(epoch), int(low), int(last["offset"])


def _ranges(groups: Sequence[tuple[int, int, int]], limit: int) -> list[Range]:
    """Ranges that hold about ``limit`` rows each; together they cover every value."""
    if not groups:
        return [Range()]
    end = max(high for _, high, _ in groups) + 1
    points: list[tuple[int, float]] = []
    for low, high, rows in groups:
        steps = max(1, -(-rows // max(1, limit // 4)))
        points += [(low + (high + 1 - low) * (k + 1) // steps, rows / steps) for k in range(steps)]
    bounds: list[int | None] = [None]
    last, filled = min(low for low, _, _ in groups), 0.0
    for at, weight in sorted(points):
        filled += weight
        if filled >= limit and last < at < end:
            bounds.append(at)
            last, filled = at, 0.0
    return [Range(low=low, high=high) for low, high in zip(bounds, [*bounds[1:], None], strict=True)]
