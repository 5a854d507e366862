"""How a history is stored: its tables and columns, and their files, order and encoding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.schema import TABLES
from tests.independent.model import History, Row

TELLING = ("replicas", "reads", "groups", "transactions", "views")
"""Optional tables that change what is found; every combination of them occurs."""
IDENTITY = ("writer", "seq", "outcome", "txn")
"""Columns that are never left out.

Without them nothing is known, or null says less than usual: a message without `txn` is in no transaction only
if the column exists.
"""
LAYOUTS = 64
"""Half of them have every table, and the others each combination of those in `TELLING` once."""


@dataclass(frozen=True)
class Layout:
    """One way to store a history."""

    number: int
    absent_tables: frozenset[str]
    absent_columns: frozenset[tuple[str, str]]
    files: str
    """`one` file a table, `folder` of one file, `partitions`: one each, `mixed`: several, of any rows."""
    shuffled: bool
    wide: bool
    """Integers are 64 bits wide."""
    compression: str
    dictionary: bool
    row_group: int

    @property
    def batch(self) -> int:
        """At most this many histories are joined: every task reads all rows of files that mix partitions."""
        if self.files == "partitions":
            return 200
        return 3 if self.row_group < 10 else 40

    def strip(self, history: History) -> dict[str, list[Row]]:
        """What remains of a history: the rows of the tables and columns that this layout has."""
        return {
            name: [
                {column: value for column, value in row.items() if (name, column) not in self.absent_columns}
                for row in rows
            ]
            for name, rows in history.items()
            if name not in self.absent_tables
        }

    def write(self, history: History, folder: Path, without: frozenset[str] = frozenset()) -> None:
        """Write a history's tables, except some, to ``folder``."""
        random = Random(f"rows/{self.number}")
        for name, rows in history.items():
            if name not in self.absent_tables | without:
                self._write_table(name, list(rows), folder, random)

    def _write_table(self, name: str, rows: list[Row], folder: Path, random: Random) -> None:
        if self.shuffled:
            random.shuffle(rows)
        target = folder / f"{name}.parquet"
        placed = all(column in TABLES[name].required for column in ("topic", "partition"))
        if self.files == "one" or (self.files == "partitions" and not placed):
            return self._write_file(name, rows, target)
        target.mkdir()
        if self.files == "folder":
            parts: Iterable[list[Row]] = [rows]
        elif self.files == "partitions":
            by_place: dict[Any, list[Row]] = {}
            for row in rows:
                by_place.setdefault((row["topic"], row["partition"]), []).append(row)
            parts = by_place.values() or [rows]
        else:
            several: list[list[Row]] = [[] for _ in range(random.randint(2, 5))]
            for row in rows:
                random.choice(several).append(row)
            parts = several
        for number, part in enumerate(parts):
            self._write_file(
                name, part, target / f"{random.choice(('part', 'a-keys-b', 'x'))}-{number}.parquet"
            )
        return None

    def _write_file(self, name: str, rows: list[Row], file: Path) -> None:
        fields = [
            self._wider(field)
            for field in TABLES[name].arrow()
            if (name, field.name) not in self.absent_columns
        ]
        table = pa.Table.from_pylist([dict(row) for row in rows], pa.schema(fields))
        for number, field in enumerate(fields):
            if self.dictionary and pa.types.is_string(field.type):
                column = table.column(number).dictionary_encode()
                table = table.set_column(number, pa.field(field.name, column.type, field.nullable), column)
        pq.write_table(table, file, compression=self.compression, row_group_size=self.row_group)

    def _wider(self, field: pa.Field) -> pa.Field:
        return field.with_type(pa.int64()) if self.wide and pa.types.is_int32(field.type) else field


def layout(seed: int, number: int) -> Layout:
    """Layout ``number`` of `LAYOUTS`: every other one has all the tables, the rest every combination of
    them.
    """
    random = Random(f"layout/{seed}/{number}")
    absent: set[str] = set()
    columns: set[tuple[str, str]] = set()
    if number % 2:
        absent = {table for bit, table in enumerate(TELLING) if number // 2 >> bit & 1}
        absent |= {
            name for name in TABLES if name not in (*TELLING, "sends", "copies") and random.random() < 0.4
        }
    for name, table in TABLES.items():
        optional = [
            column.name for column in table.columns if not column.required and column.name not in IDENTITY
        ]
        if optional and random.random() < (0.3 if number % 4 else 0.0):
            columns |= {
                (name, column) for column in random.sample(optional, random.randint(1, len(optional)))
            }
    return Layout(
        number=number,
        absent_tables=frozenset(absent),
        absent_columns=frozenset(columns),
        files=random.choice(("one", "folder", "partitions", "partitions", "mixed")),
        shuffled=random.random() < 0.5,
        wide=random.random() < 0.3,
        compression=random.choice(("snappy", "zstd", "none", "gzip")),
        dictionary=random.random() < 0.3,
        row_group=random.choice((6, 100, 100_000)),
    )


def plain(number: int) -> Layout:
    """One file a table, with every column."""
    return Layout(
        number=number,
        absent_tables=frozenset(),
        absent_columns=frozenset(),
        files="one",
        shuffled=False,
        wide=False,
        compression="snappy",
        dictionary=False,
        row_group=100_000,
    )
