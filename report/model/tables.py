"""Reads the tables of a run folder: only the columns and rows that a picture needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.tables.output import FINDING, LIFE, TRANSACTION, TRANSACTION_RECORD
from harness.errors import DAMAGED, BadDataError, json_file
from harness.history.schema import SCHEMA_VERSION, TABLES, readable
from harness.history.time_zero import TimeZero, time_zero
from harness.plain_files import require_plain
from report.model.shapes import JUDGEMENT, RUN, SHAPES, require_shape
from report.words.stored import REMEDY

Row = dict[str, Any]
_DERIVED: Mapping[str, pa.Schema] = {
    "life": LIFE,
    "findings": FINDING,
    "transaction_fates": TRANSACTION,
    "transaction_records": TRANSACTION_RECORD,
}
"""Tables that judging has written."""
_NEEDED: Mapping[str, frozenset[str]] = {
    "life": frozenset(("topic", "partition", "writer", "seq", "sent_ns", "fate")),
    "findings": frozenset(("class", "expected")),
    "transaction_fates": frozenset(("writer", "txn")),
    "transaction_records": frozenset(("topic", "partition", "writer", "seq", "txn")),
}
"""Their columns without which a row says nothing; earlier versions wrote fewer of the others."""
WITH_TIME = ("views", "faults", "processes", "marks", "log_events", "groups", "transactions")
"""Small tables of events; the first event of a run is in one of them."""
_KEY = ("writer", "seq")
_NO_ACKS = 1 << 40
"""In place of acks that are not recorded: no column of acks holds it."""
_KEPT_ROWS = 100_000
"""A file of up to this many rows is read once: a page asks for a table up to three times per partition."""


@dataclass(frozen=True)
class Coded:
    """A text column as numbers of its texts; null is the empty text."""

    codes: npt.NDArray[np.int32]
    texts: Sequence[str]

    @classmethod
    def of(cls, table: pa.Table, name: str) -> Coded:
        """A column of a table."""
        column = table[name]
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.string()).dictionary_encode()
        column = column.unify_dictionaries()
        if not column.num_chunks:
            return cls(np.empty(0, np.int32), ())
        known = column.chunk(0).dictionary.to_pylist()
        parts = [pc.fill_null(chunk.indices, len(known)).to_numpy() for chunk in column.chunks]
        return cls(np.concatenate(parts), (*known, ""))

    def among(self, *texts: str) -> npt.NDArray[np.bool_]:
        """Which rows have one of the texts."""
        wanted = np.array([text in texts for text in self.texts], dtype=np.bool_)
        return wanted[self.codes] if len(wanted) else np.zeros(0, dtype=np.bool_)

    def present(self) -> list[str]:
        """The texts that some row has, sorted."""
        counts = np.bincount(self.codes, minlength=len(self.texts))
        return sorted({text for text, count in zip(self.texts, counts.tolist(), strict=True) if count})


def of_streams(life: pa.Table) -> pa.Table:
    """The messages of background streams; all messages if there are no such."""
    streams = Coded.of(life, "role").among("stream")
    return life.filter(pa.array(streams)) if streams.any() and not streams.all() else life


def by_az_and_acks(life: pa.Table) -> dict[tuple[str, int | None], npt.NDArray[np.int64]]:
    """The rows of each AZ and acks, in the order in which these come first; unknown acks are None."""
    az = Coded.of(life, "az")
    # Arrow does not unify dictionaries with nulls.
    acks = life["acks"].cast(pa.int64()).fill_null(_NO_ACKS).dictionary_encode().unify_dictionaries()
    if not len(acks):
        return {}
    levels = [None if one == _NO_ACKS else one for one in acks.chunk(0).dictionary.to_pylist()]
    count = len(az.texts) * len(levels)
    numbers = az.codes.astype(np.int64) * len(levels)
    numbers += np.concatenate([chunk.indices.to_numpy() for chunk in acks.chunks])
    few = count < 1 << 15
    order = np.argsort(numbers.astype(np.int16) if few else numbers, kind="stable")  # 16 bits: one pass
    edges = np.cumsum(np.bincount(numbers, minlength=count))
    groups = [rows for rows in np.split(order, edges[:-1]) if len(rows)]
    groups.sort(key=lambda rows: int(rows[0]))
    of_groups = [divmod(int(numbers[rows[0]]), len(levels)) for rows in groups]
    return {
        (az.texts[text], levels[level]): rows for (text, level), rows in zip(of_groups, groups, strict=True)
    }


_TEXTS_OF_LIFE = [field.name for field in LIFE if pa.types.is_string(field.type)]


class RunTables:
    """The files of one run folder, or of a folder of imported tables."""

    def __init__(self, folder: Path) -> None:
        """Raises BadDataError if the folder holds neither a manifest nor tables."""
        require_plain(folder)
        self.folder = folder
        inner = folder / "history"
        self._history = inner if inner.is_dir() else folder
        self._kept: dict[Path, pa.Table] = {}
        if not (folder / RUN).is_file() and not (folder / JUDGEMENT).is_file():
            raise BadDataError(
                f"{folder} is not a judged run folder: it has neither run.json nor judgement.json; "
                f"name one like runs/<scenario>/latest."
            )

    def json(self, name: str) -> Mapping[str, Any]:
        """A JSON file of `SHAPES`; empty without the file. Raises BadDataError if it is damaged."""
        file = self.folder / name
        if not file.is_file():
            return {}
        remedy = REMEDY if name == JUDGEMENT else DAMAGED
        document = json_file(file, remedy)
        version = document.get("schema_version")
        if name == RUN and not readable(version):
            raise BadDataError(
                f"{file} has schema_version {version!r}; this acked reads version {SCHEMA_VERSION}."
            )
        require_shape(document, SHAPES[name], file, remedy)
        return document

    def table(
        self, name: str, columns: Sequence[str] | None = None, place: tuple[str, int] | None = None
    ) -> pa.Table:
        """A table with the given columns, absent ones null; only the rows of one topic partition if given.

        Texts of `life`, which has a row for each message, are dictionary-encoded.

        Raises BadDataError if a column has another type than it must have, or lacks a value that it needs.
        """
        names = list(columns or _schema(name).names)
        parts = [self._read(file, name, names, place) for file in self._files(name)]
        parts = [_coded(part) if name == "life" else part for part in parts if part.num_rows]
        if parts:
            return pa.concat_tables(parts).unify_dictionaries()
        return pa.schema([_schema(name).field(one) for one in names]).empty_table()

    def of_messages(self, name: str, messages: Collection[tuple[int, int]]) -> list[Row]:
        """The rows of a table about some messages, by writer and seq; few rows of a large file are in memory.

        Raises BadDataError as `table` does.
        """
        names = _schema(name).names
        rows: list[Row] = []
        for file in self._files(name):
            try:
                opened = pq.ParquetFile(file)
                if opened.metadata.num_rows <= _KEPT_ROWS:
                    rows += rows_of(self._read(file, name, names, None), messages)
                    continue
                for group in range(opened.metadata.num_row_groups):
                    keys = _fitted(opened.read_row_group(group, columns=[*_KEY]), file, name, _KEY)
                    if pc.any(_are(keys, messages)).as_py():
                        rows += rows_of(_fitted(opened.read_row_group(group), file, name, names), messages)
            except (pa.ArrowException, OSError) as error:
                raise BadDataError(f"{file} cannot be read as Parquet: {error}.") from error
        return rows

    def _files(self, name: str) -> list[Path]:
        target = (self.folder if name in _DERIVED else self._history) / f"{name}.parquet"
        return sorted(target.glob("*.parquet")) if target.is_dir() else [target] * target.is_file()

    def _read(
        self,
        file: Path,
        name: str,
        names: Sequence[str],
        place: tuple[str, int] | None,
    ) -> pa.Table:
        try:
            table = self._kept.get(file)
            if table is None:
                texts = None
                if name == "life":
                    texts = [one for one in pq.read_schema(file).names if one in _TEXTS_OF_LIFE]
                table = self._opened(pq.ParquetFile(file, read_dictionary=texts), file, names, place)
        except (pa.ArrowException, OSError) as error:
            raise BadDataError(f"{file} cannot be read as Parquet: {error}.") from error
        if place is None:
            return _fitted(table, file, name, names)
        table = _fitted(table, file, name, list(dict.fromkeys((*names, "topic", "partition"))))
        if table.num_rows:
            here = pc.and_(pc.equal(table["topic"], place[0]), pc.equal(table["partition"], place[1]))
            table = table.filter(here)
        return table.select(names)

    def _opened(
        self, opened: pq.ParquetFile, file: Path, names: Sequence[str], place: tuple[str, int] | None
    ) -> pa.Table:
        """What is needed of a large file; all of a small one, which is kept."""
        if opened.metadata.num_rows <= _KEPT_ROWS:
            return self._kept.setdefault(file, opened.read())
        if place is not None and not _may_hold(opened.metadata, place):
            return opened.schema_arrow.empty_table()
        needed = {*names} if place is None else {*names, "topic", "partition"}
        return opened.read(columns=[column for column in opened.schema_arrow.names if column in needed])

    def rows(
        self, name: str, columns: Sequence[str] | None = None, place: tuple[str, int] | None = None
    ) -> list[Row]:
        """A small table as Python rows, sorted by `ns` if it has that column."""
        rows: list[Row] = self.table(name, columns, place).to_pylist()
        if rows and "ns" in rows[0]:
            rows.sort(key=lambda row: int(row["ns"]))
        return rows

    def time_zero(self) -> TimeZero:
        """What times of the run count from."""
        return time_zero(self.rows("faults"), self.rows("processes"), self.start_ns())

    def start_ns(self) -> int:
        """The time of the first event of the run or, without any event, of the first message."""
        earliest = [self._earliest(name, "ns") for name in WITH_TIME]
        times = [ns for ns in earliest if ns is not None]
        return min(times) if times else self._earliest("life", "sent_ns") or 0

    def _earliest(self, name: str, column: str) -> int | None:
        table = self.table(name, (column,))
        return pc.min(table[column]).as_py() if table.num_rows else None


def rows_of(table: pa.Table, messages: Collection[tuple[int, int]]) -> list[Row]:
    """The rows about some messages, by writer and seq."""
    if not table.num_rows:
        return []
    rows: list[Row] = table.filter(_are(table, messages)).to_pylist()
    return [row for row in rows if (row["writer"], row["seq"]) in messages]


def _are(table: pa.Table, messages: Collection[tuple[int, int]]) -> pa.ChunkedArray:
    """Which rows have a writer and a seq of some messages, perhaps of different ones."""
    wanted = [pa.array(sorted({message[at] for message in messages}), pa.int64()) for at in range(len(_KEY))]
    writer, seq = (
        pc.is_in(table[name].cast(pa.int64()), values) for name, values in zip(_KEY, wanted, strict=True)
    )
    return pc.and_(writer, seq)


def _coded(table: pa.Table) -> pa.Table:
    """A table with numbers of texts: there are few, and a text in each row would take far more memory."""
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(place, field.name, table[field.name].dictionary_encode())
    return table


def _schema(name: str) -> pa.Schema:
    return _DERIVED[name] if name in _DERIVED else TABLES[name].arrow()


def _fitted(table: pa.Table, file: Path, name: str, names: Sequence[str]) -> pa.Table:
    """Columns of a table with the types of its schema; absent ones are null. Raises BadDataError."""
    schema = _schema(name)
    remedy = REMEDY if name in _DERIVED else DAMAGED
    needed = _NEEDED[name] if name in _DERIVED else {one.name for one in schema if not one.nullable}
    columns = {}
    for column in names:
        kind = schema.field(column).type
        try:
            values = table[column] if column in table.column_names else None
            if values is not None and not (
                pa.types.is_dictionary(values.type) and values.type.value_type == kind
            ):
                values = values.cast(kind)
        except pa.ArrowException as error:
            raise BadDataError(f"{file}: column {column} is no {kind} ({error}); {remedy}.") from error
        if column in needed and table.num_rows and (values is None or values.null_count):
            raise BadDataError(f"{file}: column {column} is required, but a row has none; {remedy}.")
        columns[column] = pa.nulls(table.num_rows, kind) if values is None else values
    return pa.table(columns)


def _may_hold(metadata: Any, place: tuple[str, int]) -> bool:
    """Whether the statistics of a file allow rows of a topic partition."""
    names = metadata.schema.names
    for name, value in zip(("topic", "partition"), place, strict=True):
        if name not in names:
            continue
        column = names.index(name)
        fits = metadata.num_row_groups == 0
        for number in range(metadata.num_row_groups):
            statistics = metadata.row_group(number).column(column).statistics
            fits = (
                fits
                or statistics is None
                or not statistics.has_min_max
                or statistics.min <= value <= statistics.max
            )
        if not fits:
            return False
    return True
