"""The Parquet tables of a run's history: writing them, reading them, and checking them against the schema."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import BadDataError
from harness.history.schema import BY_PARTITION, NEEDED, TABLES

_ROWS_AT_ONCE = 1 << 19
_RISING = frozenset(
    ("offset", "last_offset", "batch_offset", "seq", "sequence", "timestamp_ms", "size_bytes")
    + ("ns", "sent_ns", "done_ns", "seen_ns", "poll")
)
"""Columns of tables of `BY_PARTITION` that grow from row to row, or nearly so."""


def history_dir(run_dir: Path) -> Path:
    """The folder of a run's Parquet tables."""
    return run_dir / "history"


def write_table(run_dir: Path, name: str, table: pa.Table, order: Sequence[str] = ()) -> None:
    """Write a table of the schema, replacing the existing one: a folder, with a file per topic partition.

    Only tables of `BY_PARTITION` have more than one file, and a table without rows has an empty one. The rows
    of a file are sorted by the columns of ``order``. Files are numbered: a topic's name is a value, and never
    part of a path.
    """
    write_into(history_dir(run_dir), name, table, order)


def write_into(folder: Path, name: str, table: pa.Table, order: Sequence[str] = ()) -> None:
    """The same in the folder that holds the tables themselves."""
    target = folder / f"{name}.parquet"
    clear(target)
    target.mkdir(parents=True)
    whole = table.cast(TABLES[name].arrow())
    apart = name in BY_PARTITION and whole.num_rows
    for number, part in enumerate(_by_topic_partition(whole) if apart else (whole,)):
        pq.write_table(_sorted(part, order), target / f"{number:05}.parquet")


class PartitionedWriter:
    """Writes a table of `BY_PARTITION` bit by bit, a file per topic partition, in place of an existing one.

    Memory holds `_ROWS_AT_ONCE` rows, which become one row group in each of their files. An error inside the
    context leaves no table.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """``folder`` holds the tables themselves."""
        self.rows = 0
        self._folder = folder
        self._name = name
        self._schema = TABLES[name].arrow()
        self._target = folder / f"{name}.parquet"
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._files: dict[tuple[str, int], pq.ParquetWriter] = {}
        """The open files, by topic and partition."""

    def __enter__(self) -> Self:
        self._target.parent.mkdir(parents=True, exist_ok=True)
        clear(self._target)
        return self

    def add(self, rows: pa.Table) -> None:
        """Append rows. Those of a topic partition stay in their order."""
        self._pending.append(rows.cast(self._schema))
        self._pending_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._pending_rows >= _ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        for part in _by_topic_partition(self._taken()):
            place = part["topic"][0].as_py(), part["partition"][0].as_py()
            if place not in self._files:
                self._target.mkdir(exist_ok=True)
                file = self._target / f"{len(self._files):05}.parquet"
                self._files[place] = table_writer(file, self._name)
            self._files[place].write_table(part)

    def _taken(self) -> pa.Table:
        """The pending rows, which are no longer pending."""
        taken, self._pending, self._pending_rows = self._pending, [], 0
        return pa.concat_tables([self._schema.empty_table(), *taken])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._files and self._pending_rows:
                self._flush()
            elif kind is None and not self._files:  # a small table: its files need not be open together
                write_into(self._folder, self._name, self._taken())
        finally:
            for file in self._files.values():
                file.close()
            if kind is not None:
                clear(self._target)


def _sorted(table: pa.Table, order: Sequence[str]) -> pa.Table:
    if not order or not table.num_rows:
        return table
    columns = [table[key].to_numpy() for key in reversed(order)]
    return table.take(pa.array(np.lexsort(columns)))


def table_writer(file: Path, name: str) -> pq.ParquetWriter:
    """Writes a file of a table of `BY_PARTITION`, fast and in few bytes.

    Parquet stores differences of the columns that grow from row to row; the others have few values each.
    """
    schema = TABLES[name].arrow()
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        use_dictionary=[name for name in schema.names if name not in _RISING],
        column_encoding={name: "DELTA_BINARY_PACKED" for name in schema.names if name in _RISING},
        store_schema=False,  # Parquet's own says it all, in fewer bytes
    )


def clear(target: Path) -> None:
    """Remove a table, whether it is a file or a folder."""
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


def _by_topic_partition(table: pa.Table) -> Iterator[pa.Table]:
    """The rows of each topic partition in their order; memory holds those of one besides the table."""
    topics = table["topic"].dictionary_encode().unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in topics.chunks])
    keys = codes.astype(np.int64) << 32
    keys |= table["partition"].to_numpy()
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(order)]
    del topics, codes, keys  # of a long recording they are a fifth of the table
    for start, end in pairwise(starts):
        yield table.take(pa.array(order[start:end]))


def read_table(run_dir: Path, name: str) -> pa.Table:
    """One table of a stored run, with every column of the schema. An absent table is empty.

    Raises BadDataError if `sends` or `copies` is absent, or a file is damaged or does not follow the schema.
    """
    target = history_dir(run_dir) / f"{name}.parquet"
    schema = TABLES[name].arrow()
    if not target.exists():
        if name in NEEDED:
            raise BadDataError(f"{target} is missing; a history needs {' and '.join(NEEDED)}.")
        return schema.empty_table()
    parts = [_read_file(file, name) for file in _files(target)]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def read_columns(run_dir: Path, name: str, columns: Sequence[str]) -> pa.Table:
    """Some columns of a table that `write_table` has written. An absent table is empty."""
    target = history_dir(run_dir) / f"{name}.parquet"
    empty = TABLES[name].arrow().empty_table().select(list(columns))
    files = _files(target) if target.exists() else ()
    return pa.concat_tables([empty, *(pq.ParquetFile(file).read(list(columns)) for file in files)])


def _files(target: Path) -> list[Path]:
    """The files of a table: one, or one for each topic partition."""
    return sorted(target.glob("*.parquet")) if target.is_dir() else [target]


def _read_file(file: Path, name: str) -> pa.Table:
    try:
        table = pq.ParquetFile(file).read()
    except (pa.ArrowException, OSError) as error:
        raise BadDataError(f"{file} cannot be read as Parquet: {error}.") from error
    schema = TABLES[name].arrow()
    columns = []
    for field in schema:
        if field.name in table.column_names:
            try:
                column = table[field.name].cast(field.type)
            except pa.ArrowException as error:
                had = table[field.name].type
                raise BadDataError(f"{file}: column {field.name} is {had}, not {field.type}.") from error
        else:
            column = pa.nulls(table.num_rows, field.type)
        if not field.nullable and column.null_count:
            row = pc.index(pc.is_null(column), True).as_py()
            raise BadDataError(f"{file}: column {field.name} is required, but row {row} has no value.")
        columns.append(column)
    return pa.table(columns, schema=schema)


def validate(run_dir: Path) -> dict[str, int]:
    """Check every table of a stored run against the schema; returns their numbers of rows."""
    return {name: read_table(run_dir, name).num_rows for name in TABLES}
