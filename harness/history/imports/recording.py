"""The rows that an import collects, and what it makes of them: the tables of a history.

Rows are kept in Arrow's columns, some 100 bytes for a message or record.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import BadDataError, UsageError, quoted
from harness.history.schema import BY_PARTITION, NEEDED, TABLES
from harness.history.tables import write_into
from harness.plain_files import require_plain

Longs = npt.NDArray[np.int64]

_ROWS_AT_ONCE = 1 << 16


class Rows:
    """Rows of a table of the schema; columns that nobody names are null."""

    def __init__(self, table: str, columns: str) -> None:
        """``columns`` are the names of those that `add` gets, separated by blanks."""
        self._schema = pa.schema(
            [TABLES[table].arrow().field(name).with_nullable(True) for name in columns.split()]
        )
        self._done: list[pa.RecordBatch] = []
        self._rows: list[tuple[Any, ...]] = []

    def add(self, *values: Any) -> None:
        """One row; its values fit the columns."""
        self._rows.append(values)
        if len(self._rows) >= _ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        columns = list(zip(*self._rows, strict=True))
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
        self._done.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._rows = []

    def table(self) -> pa.Table:
        """All rows so far."""
        if self._rows:
            self._flush()
        return pa.Table.from_batches(self._done, self._schema)


def longs(column: pa.ChunkedArray, null: int = -1) -> Longs:
    """A column of integers; ``null`` stands for nulls."""
    values = pc.fill_null(column.cast(pa.int64()), null).to_numpy()
    return np.asarray(values, dtype=np.int64)


def nullable(values: Longs) -> pa.Array:
    """A column of integers in which -1 is null."""
    return pa.array(values, mask=values < 0)


def find_rows(keys: tuple[Longs, Longs], among: tuple[Longs, Longs]) -> Longs:
    """The first row of ``among`` that equals each of ``keys``, both pairs of columns; -1: there is none."""
    if not len(among[0]):
        return np.full(len(keys[0]), -1, np.int64)
    coded = []
    for one, other in zip(keys, among, strict=True):
        distinct = np.unique(other)
        place = np.minimum(np.searchsorted(distinct, one), len(distinct) - 1)
        coded.append((place, distinct[place] == one, np.searchsorted(distinct, other), len(distinct)))
    (first, first_known, first_among, _), (second, second_known, second_among, count) = coded
    codes = first_among * count + second_among
    order = np.argsort(codes, kind="stable")
    code = first * count + second
    place = np.minimum(np.searchsorted(codes[order], code), len(order) - 1)
    row = order[place]
    return np.where(first_known & second_known & (codes[row] == code), row, -1)


class Recording:
    """What a recording holds, in the terms of the history's tables."""

    def __init__(self) -> None:
        self.tables: dict[str, pa.Table] = {}
        """By the schema's names. Columns may be absent, and those of `sends` that say where are null if the
        recording does not name the partition of a message."""
        self.notes: list[str] = []
        """What the user must know to read the result, as sentences without a full stop."""
        self.left_out: Counter[str] = Counter()
        """Numbers of what the tables cannot hold, by what it is."""

    def settle(self, last_ns: int, writers: Iterable[int]) -> None:
        """Add to `sends` the messages of ``writers`` that logs or readers hold, and that no line names.

        They were sent, and their outcome was not recorded. ``last_ns`` stands for the time of sending.
        Messages without a partition get that in which they are found; those that are nowhere are left out,
        unless the recording has one partition only. So are records of topics to which nobody sent.
        """
        sends = self.tables["sends"]
        topics = sends["topic"].unique()
        for name in ("copies", "replicas", "reads"):
            if name in self.tables:
                rows = self.tables[name]
                self.tables[name] = rows.filter(pc.is_in(rows["topic"], value_set=topics))
                others = rows.num_rows - self.tables[name].num_rows
                if others and name == "copies":
                    self.left_out["records of topics to which no producer sent"] = others
        sent = (longs(sends["writer"]), longs(sends["seq"]))
        held = [
            self.tables[name].select(["topic", "partition", "writer", "seq"])
            for name in ("copies", "reads")
            if name in self.tables
        ]
        seen = pa.concat_tables(held).combine_chunks() if held else None
        if seen is not None and seen.num_rows:
            named = (longs(seen["writer"]), longs(seen["seq"]))
            fresh = (find_rows(named, sent) < 0) & np.isin(named[0], list(writers)) & (named[1] >= 0)
            rows = seen.filter(pa.array(fresh)).group_by(["writer", "seq"], use_threads=False)
            added = rows.aggregate([("topic", "first"), ("partition", "first")])
            if added.num_rows:
                more = {
                    "topic": added["topic_first"],
                    "partition": added["partition_first"],
                    "writer": added["writer"],
                    "seq": added["seq"],
                    "sent_ns": pa.array(np.full(added.num_rows, last_ns)),
                }
                sends = pa.concat_tables([sends, pa.table(more)], promote_options="default")
            if sends["partition"].null_count:
                sends = _placed(sends, seen, named)
        if sends["partition"].null_count:
            sends = self._placed_anywhere(sends)
        self.tables["sends"] = sends

    def _mark_the_beginning(self) -> None:
        """Add a mark at the earliest time, from which reports count seconds."""
        columns = [
            table[name]
            for table in self.tables.values()
            for name in ("ns", "sent_ns")
            if name in table.column_names and table.num_rows
        ]
        if columns:
            first = min(pc.min(column).as_py() for column in columns)
            row = {"ns": [first], "name": ["begin"], "text": ["the recording begins"]}
            marks = [pa.table(row), *([self.tables["marks"]] if "marks" in self.tables else [])]
            self.tables["marks"] = pa.concat_tables(marks, promote_options="default")

    def _placed_anywhere(self, sends: pa.Table) -> pa.Table:
        """The sends, each with a partition.

        A message that nobody acknowledged and that is nowhere is left out. One that was acknowledged is lost,
        whatever its partition was.
        """
        placed = sends.filter(pc.is_valid(sends["partition"]))
        partitions = placed.group_by("topic", use_threads=False).aggregate(
            [("partition", "count_distinct"), ("partition", "min")]
        )
        lowest = dict(
            zip(*(partitions[name].to_pylist() for name in ("topic", "partition_min")), strict=True)
        )
        alone = partitions.filter(pc.equal(partitions["partition_count_distinct"], 1))["topic"]
        nowhere = pc.is_null(sends["partition"])
        acked = pc.fill_null(pc.equal(sends["outcome"], "ok"), False)
        guessed = pc.and_(nowhere, pc.invert(pc.is_in(sends["topic"], value_set=alone)))
        kept = pc.or_(acked, pc.invert(guessed))
        dropped = sends.num_rows - pc.sum(kept).as_py()
        if dropped:
            what = "messages that were not acknowledged, name no partition, and are in no log"
            self.left_out[what] += dropped
        lost = pc.sum(pc.and_(guessed, acked)).as_py()
        if lost:
            self.notes.append(
                f"{lost} acknowledged messages name no partition and are in no log; they stand in the first"
            )
        first = pa.array([lowest.get(topic, 0) for topic in sends["topic"].to_pylist()], pa.int32())
        return _with(sends, "partition", pc.coalesce(sends["partition"], first)).filter(kept)

    def write(self, folder: Path, accept: Callable[[Path], None] = lambda fresh: None) -> Mapping[str, int]:
        """Write the tables into a new folder, all or none; returns their numbers of rows.

        ``accept`` is called with the folder that gets this name afterwards, unless it raises an error.

        Raises UsageError if the folder holds anything, or cannot be written.
        """
        require_new(folder)
        missing = [name for name in NEEDED if name not in self.tables]
        self._mark_the_beginning()
        whole = {**self.tables, **{name: TABLES[name].arrow().empty_table() for name in missing}}
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".new", dir=folder.parent))
        except OSError as error:
            raise UsageError(
                f"--to {quoted(str(folder), 160)} cannot be written ({error.strerror}); name another folder."
            ) from None
        try:
            counts = {}
            for name, table in whole.items():
                rows = _complete(name, table)
                write_into(fresh, name, rows)
                counts[name] = rows.num_rows
            accept(fresh)
            fresh.chmod(0o755)
            fresh.rename(folder)
        except OSError as error:
            raise UsageError(
                f"--to {quoted(str(folder), 160)} cannot be written ({error.strerror}); name another folder."
            ) from None
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return counts


def require_new(folder: Path) -> None:
    """Raise UsageError unless a folder is missing or empty."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"--to {quoted(str(folder), 160)} is no folder; name a new one.")
    if folder.is_dir() and any(folder.iterdir()):
        require_plain(folder)
        raise UsageError(f"--to {quoted(str(folder), 160)} is not empty; name a new folder.")


def _placed(sends: pa.Table, seen: pa.Table, named: tuple[Longs, Longs]) -> pa.Table:
    """The sends, with the place of a record of each that names none."""
    row = nullable(find_rows((longs(sends["writer"]), longs(sends["seq"])), named))
    for name in ("topic", "partition"):
        sends = _with(sends, name, pc.coalesce(sends[name], seen[name].take(row)))
    return sends


def _with(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def _complete(name: str, table: pa.Table) -> pa.Table:
    """All columns of the schema. Raises BadDataError for a null in a required one."""
    schema = TABLES[name].arrow()
    columns = []
    for field in schema:
        present = field.name in table.column_names
        column = table[field.name].cast(field.type) if present else pa.nulls(table.num_rows, field.type)
        if not field.nullable and column.null_count:
            raise BadDataError(
                f"column {field.name} of {name} is required, and {column.null_count} rows have no value."
            )
        columns.append(column)
    rows = pa.table(columns, schema=schema)
    return rows.combine_chunks() if name in BY_PARTITION else rows
