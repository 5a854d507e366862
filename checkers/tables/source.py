"""What the checker reads: the tables of a history, and rows of a range.

Every reader here runs in a Spark worker as well as in the driver, wherever the files lie (`files`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from checkers.partition import messages
from checkers.partition.messages import Ints
from checkers.tables.files import exists, inside, is_folder, is_uri, line_of, listed, open_parquet
from harness.errors import BadDataError
from harness.history.schema import BY_PARTITION, NEEDED, TABLES
from harness.kafka.model import TopicPartition
from harness.plain_files import require_plain

CODED = ("home", "outcome")
"""Text columns with few different values; they are read as codes, which takes a fraction of the time."""

_CODED_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """One Parquet file of a table, and the one topic partition whose rows it holds (None: several)."""

    path: str
    rows: int
    topic_partition: TopicPartition | None
    exact: bool = True
    """Its columns have exactly the schema's types (otherwise they are cast when read)."""


@dataclass(frozen=True)
class Source:
    """The tables of one history: files by table name."""

    folder: str
    files: Mapping[str, tuple[TableFile, ...]]

    def rows(self, table: str) -> int:
        """Rows of a table; 0 when it is absent."""
        return sum(file.rows for file in self.files.get(table, ()))

    def paths(self, table: str) -> list[str]:
        """Paths of a table's files; empty when it is absent."""
        return [file.path for file in self.files.get(table, ())]


# ---- the tables of a history


def open_source(folder: Path | str) -> Source:
    """Find the tables of a history folder and check their files against the schema.

    Raises BadDataError when `sends` or `copies` is missing, a file is damaged, a column has a wrong type, or
    something looks like a table and is none.
    """
    base = str(folder).rstrip("/")
    if not is_uri(base):
        require_plain(base)
    _require_tables(base)
    files: dict[str, tuple[TableFile, ...]] = {}
    for name in TABLES:
        place = inside(base, f"{name}.parquet")
        if not exists(place):
            if name in NEEDED:
                raise BadDataError(
                    f"{place} is missing, and nothing can be judged without it; "
                    f"is {base} the folder that holds the history's tables?"
                )
            continue
        paths = _files_in(place) if is_folder(place) else [place]
        files[name] = tuple(_table_file(path, name) for path in paths)
    return Source(base, files)


_ANOTHER = re.compile(rf"({'|'.join(TABLES)})[^A-Za-z].*\.parquet")
"""Such as `copies-2.parquet` beside `copies.parquet`."""


def _require_tables(base: str) -> None:
    """Refuse what looks like a table and would not be read, because its messages would count as lost."""
    for entry in listed(base):
        if entry.base_name in TABLES:
            raise BadDataError(
                f"{base}/{entry.base_name} would not be read; rename it to {entry.base_name}.parquet if it "
                f"is that table, or move it elsewhere."
            )
        another = _ANOTHER.fullmatch(entry.base_name)
        if another:
            raise BadDataError(
                f"{base}/{entry.base_name} would not be read; put all files of {another[1]} into the folder "
                f"{base}/{another[1]}.parquet/, or move it elsewhere."
            )


def _files_in(folder: str) -> list[str]:
    """The files of a table's folder; names that begin with `_` or `.` are those of other programs."""
    paths = []
    for entry in listed(folder):
        place = inside(folder, entry.base_name)
        if entry.base_name.startswith(("_", ".")):
            continue
        if entry.type == pafs.FileType.Directory:
            raise BadDataError(
                f"{place} is a folder inside a table's folder; put the table's Parquet files "
                f"directly into {folder}."
            )
        if not entry.base_name.endswith(".parquet"):
            raise BadDataError(
                f"{place} lies in a table's folder and is not called *.parquet; rename it if "
                f"it belongs to the table, else remove it or let its name begin with `_`."
            )
        paths.append(place)
    if not paths:
        raise BadDataError(f"{folder} is a folder with no Parquet file; its rows are lost.")
    return paths


def _table_file(path: str, table: str) -> TableFile:
    with open_parquet(path) as parquet:
        meta, schema = parquet.metadata, parquet.schema_arrow
    exact = _check_schema(path, schema, table)
    only_one = _topic_partition_of(meta) if table in BY_PARTITION else None
    return TableFile(path=path, rows=meta.num_rows, topic_partition=only_one, exact=exact)


def _check_schema(path: str, schema: pa.Schema, table: str) -> bool:
    exact = True
    declared = TABLES[table]
    version = (schema.metadata or {}).get(b"acked.schema_version")
    if version is not None and version != b"1":
        stated = version.decode(errors="replace")[:60]
        raise BadDataError(f"{path} has schema version {stated}; this checker reads version 1.")
    for field in declared.arrow():
        if field.name not in schema.names:
            if not field.nullable:
                raise BadDataError(f"{path} has no column {field.name}, which {table} must have.")
            continue
        if schema.names.count(field.name) > 1:
            raise BadDataError(f"{path} has several columns {field.name}; {table} has one of each name.")
        had = schema.field(field.name).type
        had = had.value_type if pa.types.is_dictionary(had) else had
        if not _fits(had, field.type):
            raise BadDataError(f"{path}: column {field.name} is {had}, but {table} needs {field.type}.")
        exact = exact and had.equals(field.type)
    return exact


def _fits(had: pa.DataType, declared: pa.DataType) -> bool:
    if had.equals(declared) or pa.types.is_null(had):
        return True
    if pa.types.is_integer(declared):
        return bool(pa.types.is_integer(had))
    if pa.types.is_string(declared):
        return bool(pa.types.is_large_string(had) or pa.types.is_string_view(had))
    if pa.types.is_list(declared):
        return bool(pa.types.is_list(had) or pa.types.is_large_list(had))
    return False


def _topic_partition_of(meta: pq.FileMetaData) -> TopicPartition | None:
    """The only topic partition in a file, if its statistics say that there is only one."""
    names = [meta.schema.column(i).path for i in range(meta.num_columns)]
    values = []
    for column in ("topic", "partition"):
        seen: set[str | int] = set()
        index = names.index(column)
        for group in range(meta.num_row_groups):
            stats = meta.row_group(group).column(index).statistics
            if stats is None or not stats.has_min_max or stats.null_count:
                return None
            try:
                seen |= {stats.min, stats.max}
            except UnicodeDecodeError:
                return None
        if len(seen) != 1:
            return None
        values.append(seen.pop())
    return TopicPartition(str(values[0]), int(values[1]))


def partitions(source: Source) -> dict[TopicPartition, tuple[int, int]]:
    """The topic partitions of a history with their rows in `sends`, and in all tables of messages.

    One that only `sightings` has is left out: it was followed, such as an internal topic, but nobody sent to
    it, and its final logs were not read.
    """
    counts: dict[TopicPartition, tuple[int, int]] = {}

    def add(path: str, key: TopicPartition, table: str, rows: int) -> None:
        if table == "sightings" and key not in counts:  # the last of these tables
            return
        if not -(2**31) <= key[1] < 2**31:
            raise BadDataError(f"{path}: column partition does not fit int32: {key[1]}.")
        sends, total = counts.get(key, (0, 0))
        counts[key] = (sends + (rows if table == "sends" else 0), total + rows)

    for name in BY_PARTITION:
        for file in source.files.get(name, ()):
            if file.topic_partition is not None:
                add(file.path, file.topic_partition, name, file.rows)
            elif file.rows:
                for key, rows in _count_mixed(file):
                    add(file.path, key, name, rows)
    return counts


def _count_mixed(file: TableFile) -> Iterator[tuple[TopicPartition, int]]:
    for batch in batches([file.path], ["topic", "partition"]):
        table = pa.Table.from_batches([batch])
        refuse_nulls(file.path, table)
        refuse_bad_text(file.path, "topic", table["topic"])
        counted = table.group_by(["topic", "partition"], use_threads=False).aggregate([([], "count_all")])
        for row in counted.to_pylist():
            yield TopicPartition(str(row["topic"]), int(row["partition"])), int(row["count_all"])


def refuse_nulls(path: str, table: pa.Table) -> None:
    """Raise BadDataError when a column of ``table``, all of them required, holds a null."""
    for name in table.column_names:
        if table[name].null_count:
            raise BadDataError(f"{path}: column {name} is required, but a row has none.")


def refuse_bad_text(path: str, name: str, column: pa.ChunkedArray) -> None:
    """Raise BadDataError if a column of texts holds bytes that are not UTF-8."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BadDataError(
            f"{path}: column {name} holds text that is not UTF-8; write the column again as UTF-8."
        ) from error


def batches(paths: Sequence[str], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Record batches of some columns of Parquet files. Raises BadDataError when a file is damaged."""
    for path in paths:
        with open_parquet(path) as parquet:
            yield from parquet.iter_batches(columns=list(columns), batch_size=1 << 18)


# ---- their rows


@dataclass(frozen=True)
class Window:
    """Which row groups are wanted, by the range of a column: [low, high]."""

    column: str
    low: int
    high: int


def read_rows(
    files: Sequence[TableFile],
    table: str,
    columns: Sequence[str],
    where: TopicPartition,
) -> pa.Table:
    """Rows of one topic partition as an Arrow table with exactly ``columns``; absent columns are null."""
    parts = [part for part in row_blocks(files, table, columns, where) if part.num_rows]
    if parts:
        return _together(parts)
    schema = TABLES[table].arrow()
    return pa.schema([schema.field(name).with_nullable(True) for name in columns]).empty_table()


def _together(parts: Sequence[pa.Table]) -> pa.Table:
    """Several tables as one; each column is made dictionary-encoded in all of them or in none."""
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


def row_blocks(
    files: Sequence[TableFile],
    table: str,
    columns: Sequence[str],
    where: TopicPartition,
    windows: Sequence[Window] = (),
) -> Iterator[pa.Table]:
    """The same rows as of `read_rows` in blocks: row groups of together about `messages.BLOCK_ROWS` rows.

    With ``windows``, only row groups whose statistics may meet all of them are read; rows are not filtered.
    """
    for file in files:
        if file.topic_partition in (None, where):
            with open_parquet(file.path, [name for name in CODED if name in columns]) as parquet:
                for groups in _blocks(parquet.metadata, windows, messages.BLOCK_ROWS):
                    yield _read(parquet, file, table, columns, groups, where)


def row_group_blocks(path: str, windows: Sequence[Window], rows: int) -> list[list[int]]:
    """The row groups of a file that may meet the windows, in blocks of about so many rows."""
    with open_parquet(path) as parquet:
        return list(_blocks(parquet.metadata, windows, rows))


def _blocks(meta: pq.FileMetaData, windows: Sequence[Window], limit: int) -> Iterator[list[int]]:
    block: list[int] = []
    rows = 0
    for number in range(meta.num_row_groups):
        group = meta.row_group(number)
        if not meets(group, windows):
            continue
        if block and rows + group.num_rows > limit:
            yield block
            block, rows = [], 0
        block.append(number)
        rows += group.num_rows
    if block:
        yield block


def read_file(
    path: str,
    table: str,
    columns: Sequence[str],
    groups: Sequence[int] | None = None,
    windows: Sequence[Window] = (),
) -> pa.Table:
    """Rows of a file, or of some of its row groups, of any topic partition."""
    file = TableFile(path=path, rows=0, topic_partition=None)
    with open_parquet(path, [name for name in CODED if name in columns]) as parquet:
        meta = parquet.metadata
        chosen = range(meta.num_row_groups) if groups is None else groups
        return _read(parquet, file, table, columns, [g for g in chosen if meets(meta.row_group(g), windows)])


def _read(
    parquet: pq.ParquetFile,
    file: TableFile,
    table: str,
    columns: Sequence[str],
    groups: Sequence[int],
    where: TopicPartition | None = None,
    *,
    threads: bool = False,
) -> pa.Table:
    """Rows of some row groups; of all topic partitions if ``where`` is None.

    ``threads`` is for a file beside which no task reads another.
    """
    schema = TABLES[table].arrow()
    present = set(parquet.schema_arrow.names)
    mixed = where is not None and file.topic_partition is None
    extra = ["topic", "partition"] if mixed else []
    names = [name for name in dict.fromkeys([*columns, *extra]) if name in present]
    read = parquet.read_row_groups(list(groups), columns=names, use_threads=threads)
    if where is not None and mixed:
        read = only(read, where)
    arrays = []
    for name in columns:
        field = schema.field(name)
        if name not in present:
            arrays.append(pa.nulls(read.num_rows, field.type))
            continue
        column = read[name]
        refuse_bad_text(file.path, name, column)
        if not field.nullable and column.null_count:
            raise BadDataError(f"{file.path}: column {name} is required, but a row has none.")
        try:
            same = column.type == field.type or (column.type == _CODED_TEXT and name in CODED)
            arrays.append(column if same else column.cast(field.type))
        except pa.ArrowException as error:
            raise BadDataError(
                f"{file.path}: column {name} does not fit {field.type}: {line_of(error)}"
            ) from error
        if pa.types.is_list(field.type) and any(one.flatten().null_count for one in arrays[-1].chunks):
            raise BadDataError(f"{file.path}: column {name} has a list with a null in it; leave it out.")
    return pa.table(arrays, names=list(columns))


def only(table: pa.Table, where: TopicPartition) -> pa.Table:
    """Rows of one topic partition."""
    topic, partition = where
    return table.filter(pc.and_(pc.equal(table["topic"], topic), pc.equal(table["partition"], partition)))


def meets(row_group: pq.RowGroupMetaData, windows: Sequence[Window]) -> bool:
    """Whether a row group can meet all windows, as far as its statistics tell."""
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


def numbers(table: pa.Table, column: str, null: int = -1) -> Ints:
    """An integer or flag column as a numpy array, with ``null`` in place of nulls."""
    values = table[column]
    if values.null_count:
        values = values.fill_null(bool(null) if pa.types.is_boolean(values.type) else null)
    array: Ints
    if values.num_chunks == 1:
        array = values.chunk(0).to_numpy(zero_copy_only=False)
    elif values.num_chunks == 0:
        array = np.empty(0, dtype=values.type.to_pandas_dtype())
    else:
        array = np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in values.chunks])
    return array


def read_small(source: Source, table: str) -> pa.Table:
    """A whole table with every column of the schema: one of few rows, as it is held in memory."""
    schema = TABLES[table].arrow()
    files = source.files.get(table, ())
    parts = []
    for file in files:
        with open_parquet(file.path, CODED) as parquet:
            groups = range(parquet.metadata.num_row_groups)
            parts.append(_read(parquet, file, table, schema.names, groups, threads=True))
    return pa.concat_tables(parts) if parts else schema.empty_table()


def read_whole(table: str, path: str) -> Iterator[pa.Table]:
    """All rows of a file with exactly the schema's columns and types, one row group after the other."""
    schema = TABLES[table].arrow()
    with open_parquet(path) as parquet:
        groups = parquet.metadata.num_row_groups
    for group in range(groups):
        yield read_file(path, table, schema.names, [group]).cast(schema)
