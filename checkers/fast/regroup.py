"""Files that mix topic partitions, laid out anew with one partition in each.

A task reads the files of its own partition only. Of mixed files it would read every row of all partitions; so
where these hold much, their rows are sorted apart once, in bounded steps, before anything is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from checkers.tables.output import TALLY, build
from checkers.tables.source import SPLIT, Piece, Source, TopicPartition, file_system, line_of, refuse_nulls
from harness.errors import BadDataError
from harness.history.schema import TABLES

SPLIT_ROWS = 2_000_000
"""Histories whose mixed files hold more rows than this are laid out anew."""

_CHUNK_ROWS = 2_000_000
_PENDING_ROWS = 500_000
"""So many rows wait in memory, over all partitions, before the largest part of them is written."""


@dataclass(frozen=True)
class Chunk:
    """Some row groups of a mixed file: what one task sorts apart."""

    table: str
    path: str
    groups: tuple[int, ...]
    name: str


def part_name(holds: TopicPartition) -> str:
    """`topic@partition`, as a file may be called; `@` stands in no topic's name."""
    return f"{quote(holds[0], safe='')}@{holds[1]}"


def chunks(source: Source, limit: int = SPLIT_ROWS) -> list[Chunk]:
    """What is to be sorted apart; nothing while mixed files hold at most ``limit`` rows."""
    mixed = [(name, piece) for name in SPLIT for piece in source.files.get(name, ()) if piece.holds is None]
    if sum(piece.rows for _, piece in mixed) <= limit:
        return []
    found: list[Chunk] = []
    for number, (table, piece) in enumerate(mixed):
        system, inner = file_system(piece.path)
        with system.open_input_file(inner) as handle:
            meta = pq.ParquetFile(handle).metadata
            rows = [meta.row_group(group).num_rows for group in range(meta.num_row_groups)]
        groups: list[int] = []
        for group, count in enumerate(rows):
            if groups and sum(rows[g] for g in groups) + count > _CHUNK_ROWS:
                found.append(Chunk(table, piece.path, tuple(groups), f"{number:05}-{len(found):06}"))
                groups = []
            groups.append(group)
        if groups:
            found.append(Chunk(table, piece.path, tuple(groups), f"{number:05}-{len(found):06}"))
    return found


def split_chunk(chunk: Chunk, folder: str) -> Iterator[Any]:
    """Write one file per topic partition of a chunk; yields a tally of what was written."""
    pending: dict[TopicPartition, list[Any]] = {}
    writers: dict[TopicPartition, Any] = {}
    schema = TABLES[chunk.table].arrow()
    paths: dict[TopicPartition, tuple[str, int]] = {}

    def flush(holds: TopicPartition) -> None:
        table = pa.concat_tables(pending.pop(holds))
        if holds not in writers:
            path = f"{folder}/{chunk.table}/{part_name(holds)}-{chunk.name}.parquet"
            system, inner = file_system(path)
            system.create_dir(str(PurePosixPath(inner).parent), recursive=True)
            writers[holds] = pq.ParquetWriter(inner, table.schema, filesystem=system)
            paths[holds] = (path, 0)
        writers[holds].write_table(table)
        paths[holds] = (paths[holds][0], paths[holds][1] + table.num_rows)

    try:
        for holds, part in _apart(chunk, schema):
            pending.setdefault(holds, []).append(part)
            waiting = {key: sum(t.num_rows for t in tables) for key, tables in pending.items()}
            if sum(waiting.values()) > _PENDING_ROWS:
                flush(max(waiting, key=lambda key: waiting[key]))
        for holds in list(pending):
            flush(holds)
    finally:
        for writer in writers.values():
            writer.close()
    for holds, (path, rows) in paths.items():
        row = {"kind": "split", "topic": holds[0], "partition": holds[1], "name": chunk.table}
        yield build(TALLY, {**row, "count": rows, "text": path}, 1)


def _apart(chunk: Chunk, schema: Any) -> Iterator[tuple[TopicPartition, Any]]:
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


def _by_partition(table: Any) -> Iterator[tuple[TopicPartition, Any]]:
    topics = pc.dictionary_encode(table["topic"]).combine_chunks()
    names, codes = topics.dictionary, topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    key = (codes << 32) + table["partition"].to_numpy()
    if len(key) and key.min() == key.max():
        yield (names[int(codes[0])].as_py(), table["partition"][0].as_py()), table
        return
    order = np.argsort(key, kind="stable")
    apart = table.take(pa.array(order))
    bounds = np.flatnonzero(np.diff(key[order], prepend=-1))
    for low, high in zip(bounds, [*bounds[1:], len(key)], strict=True):
        row = order[low]
        holds = (names[int(codes[row])].as_py(), int(table["partition"][int(row)].as_py()))
        yield holds, apart.slice(int(low), int(high - low))


def _conform(table: Any, schema: Any, path: str) -> Any:
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


def laid_out(source: Source, written: Any) -> Source:
    """The source with mixed files replaced by what `split_chunk` wrote (its tallies)."""
    files: dict[str, tuple[Piece, ...]] = {}
    fresh: Mapping[str, list[Piece]] = {name: [] for name in SPLIT}
    for row in written.sort_by("text").to_pylist():
        system, inner = file_system(row["text"])
        size = system.get_file_info(inner)
        assert size.type == pafs.FileType.File
        holds = (row["topic"], row["partition"])
        fresh[row["name"]].append(Piece(row["text"], row["count"], size.size, holds))
    for name, pieces in source.files.items():
        old = tuple(piece for piece in pieces if piece.holds is not None or name not in SPLIT)
        files[name] = (*old, *fresh.get(name, ()))
    return Source(source.folder, files)
