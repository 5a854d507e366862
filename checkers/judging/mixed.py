"""Splits large files that mix topic partitions; otherwise each task would read the rows of all partitions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.judging.tasks import PARTITION_FILES, MixedRows, TaskResult
from checkers.tables.files import file_system, inside, line_of, make_folder, open_parquet
from checkers.tables.source import (
    Source,
    TableFile,
    refuse_bad_text,
    refuse_nulls,
)
from harness.errors import BadDataError
from harness.history.schema import BY_PARTITION, TABLES
from harness.kafka.model import TopicPartition

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
    tasks: list[MixedRows] = []

    def add(table: str, path: str, groups: list[int]) -> None:
        name = f"{len(tasks):06}"
        tasks.append(MixedRows(table=table, path=path, groups=tuple(groups), folder=folder, name=name))

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
    return tasks


def split(task: MixedRows) -> TaskResult:
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
    return TaskResult(files=pa.Table.from_pylist(rows, schema=PARTITION_FILES))


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
    """The source with mixed files replaced by those that `split` wrote."""
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
