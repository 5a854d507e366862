"""Files that mix topic partitions, laid out anew with one partition in each.

A task reads the files of its own partition only. Of mixed files it would read every row of all partitions; so
where these hold much, their rows are sorted apart once, in bounded steps, before anything is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.fast.results import FILES, FilesResult
from checkers.fast.tasks import MixedRows
from checkers.tables.source import SPLIT, Source, TableFile, file_system, line_of, refuse_nulls
from harness.errors import BadDataError
from harness.history.schema import TABLES
from harness.kafka.model import TopicPartition

SPLIT_ROWS = 2_000_000
"""Histories whose mixed files hold more rows than this are laid out anew."""

_CHUNK_ROWS = 2_000_000
_PENDING_ROWS = 500_000
"""So many rows wait in memory, over all partitions, before the largest part of them is written."""


def chunks(source: Source, folder: str, limit: int = SPLIT_ROWS) -> list[MixedRows]:
    """What is to be sorted apart into ``folder``; nothing while mixed files hold at most ``limit`` rows."""
    mixed = [
        (name, file) for name in SPLIT for file in source.files.get(name, ()) if file.topic_partition is None
    ]
    if sum(file.rows for _, file in mixed) <= limit:
        return []
    found: list[MixedRows] = []

    def add(table: str, path: str, groups: list[int]) -> None:
        name = f"{len(found):06}"
        found.append(MixedRows(table=table, path=path, groups=tuple(groups), folder=folder, name=name))

    for table, file in mixed:
        system, inner = file_system(file.path)
        with system.open_input_file(inner) as handle:
            meta = pq.ParquetFile(handle).metadata
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
            path = f"{task.folder}/{task.table}/{task.name}-{len(writers):06}.parquet"
            system, inner = file_system(path)
            system.create_dir(str(PurePosixPath(inner).parent), recursive=True)
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
    system, inner = file_system(chunk.path)
    try:
        with system.open_input_file(inner) as handle:
            parquet = pq.ParquetFile(handle)
            names = [name for name in schema.names if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(1 << 17, row_groups=list(chunk.groups), columns=names):
                table = _conform(pa.Table.from_batches([batch]), schema, chunk.path)
                yield from _by_partition(table)
    except (pa.ArrowException, OSError) as error:
        raise BadDataError(f"{chunk.path} cannot be read as Parquet: {line_of(error)}") from error


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
    fresh: dict[str, list[TableFile]] = {name: [] for name in SPLIT}
    for row in written.sort_by("path").to_pylist():
        where = TopicPartition(row["topic"], row["partition"])
        fresh[row["table"]].append(TableFile(path=row["path"], rows=row["rows"], topic_partition=where))
    files = {
        name: (
            *(file for file in old if file.topic_partition is not None or name not in SPLIT),
            *fresh.get(name, ()),
        )
        for name, old in source.files.items()
    }
    return Source(source.folder, files)
