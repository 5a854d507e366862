"""Reads the tables of a run folder: only the columns and rows that a picture needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import DAMAGED, BadDataError, json_file
from harness.history.schema import SCHEMA_VERSION, TABLES, readable
from harness.plain_files import require_plain
from report.model.shapes import JUDGEMENT, RUN, SHAPES

Row = dict[str, Any]
_DERIVED = ("life", "findings", "transaction_fates", "transaction_records")
"""Tables that judging has written."""
WITH_TIME = ("views", "faults", "processes", "marks", "log_events", "groups", "transactions")
"""Small tables of events; the first event of a run is in one of them."""
_KEPT_ROWS = 100_000
"""A file of up to this many rows is read once: a page asks for a table up to three times per partition."""


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
        remedy = "judge the run again with `acked check`" if name == JUDGEMENT else DAMAGED
        document = json_file(file, remedy)
        version = document.get("schema_version")
        if name == RUN and not readable(version):
            raise BadDataError(
                f"{file} has schema_version {version!r}; this acked reads version {SCHEMA_VERSION}."
            )
        try:
            msgspec.convert(document, SHAPES[name])
        except msgspec.ValidationError as error:
            raise BadDataError(f"{file} is malformed ({error}); {remedy}.") from error
        return document

    def table(
        self, name: str, columns: Sequence[str] | None = None, place: tuple[str, int] | None = None
    ) -> pa.Table:
        """A table with the given columns, absent ones null; only the rows of one topic partition if given."""
        derived = name in _DERIVED
        target = (self.folder if derived else self._history) / f"{name}.parquet"
        types = None if derived else {field.name: field.type for field in TABLES[name].arrow()}
        names = list(columns or types or ())
        files = sorted(target.glob("*.parquet")) if target.is_dir() else [target] * target.is_file()
        parts = [self._read(file, names, types, place) for file in files]
        parts = [part for part in parts if part.num_rows]
        if parts:
            return pa.concat_tables(parts, promote_options="permissive")
        return pa.table({one: pa.nulls(0, types[one] if types else pa.null()) for one in names})

    def _read(
        self,
        file: Path,
        names: Sequence[str],
        types: Mapping[str, pa.DataType] | None,
        place: tuple[str, int] | None,
    ) -> pa.Table:
        try:
            table = self._kept.get(file)
            if table is None:
                table = self._opened(pq.ParquetFile(file), file, names, place)
        except (pa.ArrowException, OSError) as error:
            raise BadDataError(f"{file} cannot be read as Parquet: {error}.") from error
        if place is not None and table.num_rows:
            import pyarrow.compute as pc

            here = pc.and_(pc.equal(table["topic"], place[0]), pc.equal(table["partition"], place[1]))
            table = table.filter(here)
        if not names:
            return table
        columns = {}
        for name in names:
            if name not in table.column_names:
                columns[name] = pa.nulls(table.num_rows, types[name] if types else pa.string())
            else:
                columns[name] = table[name] if types is None else table[name].cast(types[name])
        return pa.table(columns)

    def _opened(
        self, opened: pq.ParquetFile, file: Path, names: Sequence[str], place: tuple[str, int] | None
    ) -> pa.Table:
        """What is needed of a large file; all of a small one, which is kept."""
        if opened.metadata.num_rows <= _KEPT_ROWS:
            return self._kept.setdefault(file, opened.read())
        if place is not None and not _may_hold(opened.metadata, place):
            return opened.schema_arrow.empty_table()
        there = [name for name in names if name in opened.schema_arrow.names] if names else None
        needed = there if there is None or place is None else list({*there, "topic", "partition"})
        return opened.read(columns=needed)

    def rows(
        self, name: str, columns: Sequence[str] | None = None, place: tuple[str, int] | None = None
    ) -> list[Row]:
        """A small table as Python rows, sorted by `ns` if it has that column."""
        rows: list[Row] = self.table(name, columns, place).to_pylist()
        if rows and "ns" in rows[0]:
            rows.sort(key=lambda row: int(row["ns"]))
        return rows

    def zero_ns(self) -> int:
        """The time of the first event of the run or, without any event, of the first message."""
        earliest = [self._earliest(name, "ns") for name in WITH_TIME]
        times = [ns for ns in earliest if ns is not None]
        return min(times, default=self._earliest("life", "sent_ns") or 0)

    def _earliest(self, name: str, column: str) -> int | None:
        import pyarrow.compute as pc

        table = self.table(name, (column,))
        return pc.min(table[column]).as_py() if table.num_rows else None


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
