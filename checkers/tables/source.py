"""Where a history's tables lie, which topic partition each file holds, and reading them within bounds.

Every reader here runs in a Spark worker as well as in the driver, where it opens URIs, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from harness.errors import BadDataError
from harness.history.schema import TABLES

NEEDED = ("sends", "copies")
SPLIT = ("sends", "copies", "reads", "sightings")
"""Tables that grow with the number of messages, read by the workers only."""

CODED = ("home", "outcome")
"""Columns of few texts, which are read as codes: it takes a fraction of the time."""

TopicPartition = tuple[str, int]
_CODED_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Piece:
    """One Parquet file: its rows, and the one topic partition it holds (None: several)."""

    path: str
    rows: int
    size_bytes: int
    holds: TopicPartition | None
    exact: bool = True
    """Its columns have exactly the schema's types (else they are cast when read)."""


@dataclass(frozen=True)
class Source:
    """The tables of one history: files by table name."""

    folder: str
    files: Mapping[str, tuple[Piece, ...]]

    def rows(self, table: str) -> int:
        """Rows of a table; 0 when it is absent."""
        return sum(piece.rows for piece in self.files.get(table, ()))

    def paths(self, table: str) -> list[str]:
        """Paths of a table's files; empty when it is absent."""
        return [piece.path for piece in self.files.get(table, ())]


def line_of(error: Exception) -> str:
    """What Arrow says over several lines, as part of one sentence."""
    return " ".join(str(error).split())


def file_system(path: str) -> tuple[Any, str]:
    """The file system of a path or URI, as Arrow sees it, and the path inside it."""
    if "://" in path:
        from checkers.tables.hadoop import hadoop_system

        return hadoop_system(path), path
    return pafs.LocalFileSystem(), path


def open_source(folder: Path | str) -> Source:
    """Find the tables of a history folder and hold their files against the schema.

    Raises BadDataError when `sends` or `copies` is missing, a file is damaged, or a column has a wrong type.
    """
    base = str(folder).rstrip("/")
    system, root = file_system(base)
    found: dict[str, tuple[Piece, ...]] = {}
    for name in TABLES:
        target = f"{root}/{name}.parquet"
        info = system.get_file_info(target)
        if info.type == pafs.FileType.NotFound:
            if name in NEEDED:
                raise BadDataError(
                    f"{base}/{name}.parquet is missing, and nothing can be judged without it; "
                    f"is {base} the folder that holds the history's tables?"
                )
            continue
        paths = [target]
        if info.type == pafs.FileType.Directory:
            listed = system.get_file_info(pafs.FileSelector(target, recursive=False))
            paths = sorted(
                entry.path
                for entry in listed
                if entry.base_name.endswith(".parquet") and not entry.base_name.startswith(("_", "."))
            )
            if not paths:
                raise BadDataError(
                    f"{base}/{name}.parquet is a folder with no Parquet file; its rows are lost."
                )
        prefix = base[: len(base) - len(root)]
        found[name] = tuple(_piece(system, path, prefix, name) for path in paths)
    return Source(base, found)


def _piece(system: Any, path: str, prefix: str, table: str) -> Piece:
    try:
        with system.open_input_file(path) as handle:
            size = handle.size()
            parquet = pq.ParquetFile(handle)
            meta, schema = parquet.metadata, parquet.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise BadDataError(f"{prefix}{path} cannot be read as Parquet: {line_of(error)}") from error
    exact = _check_schema(prefix + path, schema, table)
    return Piece(prefix + path, meta.num_rows, size, _holds(meta) if table in SPLIT else None, exact)


def _check_schema(path: str, schema: Any, table: str) -> bool:
    exact = True
    wanted = TABLES[table]
    version = (schema.metadata or {}).get(b"acked.schema_version")
    if version is not None and version != b"1":
        raise BadDataError(f"{path} is of schema version {version.decode()}; this checker reads version 1.")
    for field in wanted.arrow():
        if field.name not in schema.names:
            if not field.nullable:
                raise BadDataError(f"{path} has no column {field.name}, which {table} must have.")
            continue
        had = schema.field(field.name).type
        had = had.value_type if pa.types.is_dictionary(had) else had
        if not _fits(had, field.type):
            raise BadDataError(f"{path}: column {field.name} is {had}, but {table} needs {field.type}.")
        exact = exact and had.equals(field.type)
    return exact


def _fits(had: Any, wanted: Any) -> bool:
    if had.equals(wanted) or pa.types.is_null(had):
        return True
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(had))
    if pa.types.is_string(wanted):
        return bool(pa.types.is_large_string(had) or pa.types.is_string_view(had))
    if pa.types.is_list(wanted):
        return bool(pa.types.is_list(had) or pa.types.is_large_list(had))
    return False


def _holds(meta: Any) -> TopicPartition | None:
    """The only topic partition in a file, if its statistics say that there is only one."""
    names = [meta.schema.column(i).path for i in range(meta.num_columns)]
    found = []
    for column in ("topic", "partition"):
        seen: set[Any] = set()
        index = names.index(column)
        for group in range(meta.num_row_groups):
            stats = meta.row_group(group).column(index).statistics
            if stats is None or not stats.has_min_max or stats.null_count:
                return None
            seen |= {stats.min, stats.max}
        if len(seen) != 1:
            return None
        found.append(seen.pop())
    return str(found[0]), int(found[1])


def partitions(source: Source) -> dict[TopicPartition, tuple[int, int]]:
    """All topic partitions of a history with their rows in `sends`, and in all tables of messages."""
    counts: dict[TopicPartition, tuple[int, int]] = {}

    def add(path: str, key: TopicPartition, table: str, rows: int) -> None:
        if not -(2**31) <= key[1] < 2**31:
            raise BadDataError(f"{path}: column partition does not fit int32: {key[1]}.")
        sends, total = counts.get(key, (0, 0))
        counts[key] = (sends + (rows if table == "sends" else 0), total + rows)

    for name in SPLIT:
        for piece in source.files.get(name, ()):
            if piece.holds is not None:
                add(piece.path, piece.holds, name, piece.rows)
            elif piece.rows:
                for key, rows in _count_mixed(piece):
                    add(piece.path, key, name, rows)
    return counts


def _count_mixed(piece: Piece) -> Iterator[tuple[TopicPartition, int]]:
    for batch in batches([piece.path], ["topic", "partition"]):
        table = pa.Table.from_batches([batch])
        refuse_nulls(piece.path, table)
        counted = table.group_by(["topic", "partition"]).aggregate([([], "count_all")])
        for row in counted.to_pylist():
            yield (str(row["topic"]), int(row["partition"])), int(row["count_all"])


def refuse_nulls(path: str, table: Any) -> None:
    """Raise BadDataError when a column of ``table``, all of them required, holds a null."""
    for name in table.column_names:
        if table[name].null_count:
            raise BadDataError(f"{path}: column {name} is required, but a row has none.")


def batches(paths: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    """Record batches of some columns of Parquet files. Raises BadDataError when a file is damaged."""
    for path in paths:
        system, inner = file_system(path)
        try:
            with system.open_input_file(inner) as handle:
                yield from pq.ParquetFile(handle).iter_batches(columns=list(columns), batch_size=1 << 18)
        except (pa.ArrowException, OSError) as error:
            raise BadDataError(f"{path} cannot be read as Parquet: {line_of(error)}") from error


@dataclass(frozen=True)
class Window:
    """Which row groups are wanted, by the range of a column: [low, high]."""

    column: str
    low: int
    high: int


def read_rows(
    pieces: Sequence[Piece],
    table: str,
    columns: Sequence[str],
    holds: TopicPartition,
    windows: Sequence[Window] = (),
) -> Any:
    """Rows of one topic partition as an Arrow table with exactly ``columns``; absent columns are null.

    With ``windows``, only row groups whose statistics may meet all of them are read; rows are not filtered.
    """
    schema = TABLES[table].arrow()
    wanted = pa.schema([schema.field(name).with_nullable(True) for name in columns])
    parts = []
    for piece in pieces:
        if piece.holds is not None and piece.holds != holds:
            continue
        part = _read_piece(piece, table, columns, holds, windows)
        if part is not None and part.num_rows:
            parts.append(part)
    return _together(parts) if parts else wanted.empty_table()


def _together(parts: Sequence[Any]) -> Any:
    """Tables as one; a column is of codes in all of them, or in none."""
    plain = {
        name for part in parts for name in part.column_names if not pa.types.is_dictionary(part[name].type)
    }
    fitted = []
    for part in parts:
        for place, name in enumerate(part.column_names):
            if name in plain and pa.types.is_dictionary(part[name].type):
                part = part.set_column(place, name, part[name].cast(pa.string()))
        fitted.append(part)
    return pa.concat_tables(fitted)


def row_groups(
    pieces: Sequence[Piece],
    table: str,
    columns: Sequence[str],
    holds: TopicPartition,
    windows: Sequence[Window],
) -> Iterator[Any]:
    """The same rows as of `read_rows`, one row group after the other."""
    for piece in pieces:
        if piece.holds not in (None, holds):
            continue
        system, inner = file_system(piece.path)
        with system.open_input_file(inner) as handle:
            meta = pq.ParquetFile(handle).metadata
        for group in range(meta.num_row_groups):
            if _meets(meta, group, windows):
                yield _read_piece(piece, table, columns, holds, (), group)


def remove(folder: str) -> None:
    """Remove a folder of scratch files, if it is there."""
    system, inner = file_system(folder)
    if system.get_file_info(inner).type == pafs.FileType.Directory:
        system.delete_dir(inner)


def read_findings(path: str, columns: Sequence[str]) -> Any:
    """Columns of findings that a task has written before."""
    system, inner = file_system(path)
    return pq.read_table(inner, columns=list(columns), filesystem=system)


def _read_piece(
    piece: Piece,
    table: str,
    columns: Sequence[str],
    holds: TopicPartition,
    windows: Sequence[Window],
    only_group: int | None = None,
) -> Any:
    schema = TABLES[table].arrow()
    system, inner = file_system(piece.path)
    try:
        with system.open_input_file(inner) as handle:
            meta = pq.ParquetFile(handle).metadata
            present = set(meta.schema.to_arrow_schema().names)
            coded = [name for name in CODED if name in columns and name in present]
            parquet = pq.ParquetFile(handle, metadata=meta, read_dictionary=coded)
            groups = [
                group
                for group in range(parquet.metadata.num_row_groups)
                if only_group in (None, group) and _meets(parquet.metadata, group, windows)
            ]
            extra = [] if piece.holds is not None else ["topic", "partition"]
            names = [name for name in dict.fromkeys([*columns, *extra]) if name in present]
            read = parquet.read_row_groups(groups, columns=names, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise BadDataError(f"{piece.path} cannot be read as Parquet: {line_of(error)}") from error
    if extra:
        read = only(read, holds)
    arrays = []
    for name in columns:
        field = schema.field(name)
        if name not in present:
            arrays.append(pa.nulls(read.num_rows, field.type))
            continue
        column = read[name]
        if not field.nullable and column.null_count:
            row = pc.index(pc.is_null(column), True).as_py()
            raise BadDataError(f"{piece.path}: column {name} is required, but row {row} has none.")
        try:
            same = column.type == field.type or column.type == _CODED_TEXT
            arrays.append(column if same else column.cast(field.type))
        except pa.ArrowException as error:
            raise BadDataError(
                f"{piece.path}: column {name} does not fit {field.type}: {line_of(error)}"
            ) from error
    return pa.table(arrays, names=list(columns))


def only(table: Any, holds: TopicPartition) -> Any:
    """Rows of one topic partition."""
    return table.filter(pc.and_(pc.equal(table["topic"], holds[0]), pc.equal(table["partition"], holds[1])))


def _meets(meta: Any, group: int, windows: Sequence[Window]) -> bool:
    row_group = meta.row_group(group)
    for index in range(row_group.num_columns) if windows else ():
        column = row_group.column(index)
        for window in windows:
            if column.path_in_schema != window.column:
                continue
            stats = column.statistics
            if stats is None or not stats.has_min_max:
                continue
            if stats.max < window.low or stats.min > window.high:
                return False
    return True


def numbers(table: Any, column: str, null: int = -1) -> Any:
    """An integer or flag column as a numpy array, with ``null`` in place of nulls."""
    values = table[column]
    if values.null_count:
        values = values.fill_null(bool(null) if pa.types.is_boolean(values.type) else null)
    if values.num_chunks == 1:
        return values.chunk(0).to_numpy(zero_copy_only=False)
    if values.num_chunks == 0:
        return np.empty(0, dtype=values.type.to_pandas_dtype())
    return np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in values.chunks])


def read_small(source: Source, table: str) -> Any:
    """A whole table with every column of the schema: one of few rows, as it is held in memory."""
    schema = TABLES[table].arrow()
    parts = []
    for piece in source.files.get(table, ()):
        read = _read_piece(Piece(piece.path, piece.rows, 0, ("", 0)), table, schema.names, ("", 0), ())
        parts.append(read)
    return pa.concat_tables(parts) if parts else schema.empty_table()
