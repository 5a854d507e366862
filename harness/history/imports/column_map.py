"""CSV and Parquet files of any program, with a map (TOML) that says which column is which.

    times = "ms"                                      # unit of all times; default: ns

    [sends]
    file = "sends.csv"                                # beside the map
    columns = {seq = "id", sent_ns = "sent", outcome = "result"}
    values = {topic = "orders", partition = 0, writer = 7}
    outcomes = {SUCCESS = "ok", TIMEOUT = "info"}

A table of the map is one of the history's. A column that is not in `columns` has its name in the history; one
in `values` has the same value in every row.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from harness.errors import BadDataError, UsageError, quoted
from harness.history.imports.dump_log import identify_by_text, read_logs, split_logs
from harness.history.imports.format import Format, GivenFile, single
from harness.history.imports.recording import Recording
from harness.history.schema import OUTCOMES, TABLES
from harness.plain_files import require_file
from harness.texts import parse_toml, text_file

_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_TIMES = ("sent_ns", "done_ns", "ns", "seen_ns", "gone_ns", "asked_ns")


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """A table of the map."""

    file: str
    columns: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    values: dict[str, str | int | bool] = {}  # noqa: RUF012
    outcomes: dict[str, str] = {}  # noqa: RUF012


class ColumnMap(Format):
    """CSV and Parquet files, with a map of their columns."""

    name: ClassVar[str] = "columns"
    source: ClassVar[str] = "any program, as CSV or Parquet"
    files: ClassVar[str] = "a map.toml, and if wanted a text of kafka-dump-log for each broker (1=FILE ...)"
    gives: ClassVar[str] = "the tables that the map names"
    lacks: ClassVar[str] = "the tables and columns that the map does not name"

    def read(self, files: Sequence[GivenFile]) -> Recording:
        logs, others = split_logs(files)
        map_file = single(others, ColumnMap, "map")
        times, tables = _read_map(map_file)
        if logs and ({"copies", "replicas"} & tables.keys()):
            raise UsageError(
                f"{map_file} has copies or replicas, and texts of kafka-dump-log are given; give one of both."
            )
        recording = Recording()
        for name, table in tables.items():
            reader = _Reader(map_file=map_file, name=name, table=table, times=times)
            recording.tables[name] = reader.read()
        if "copies" in tables and "replicas" not in tables:
            recording.notes.append(
                "Without a table [replicas], every log counts as read to its end, and what is in none "
                "of them counts as lost"
            )
        if logs or not {"copies", "reads"} & tables.keys():
            read_logs(logs, identify_by_text, recording)
        return recording


def _read_map(file: Path) -> tuple[str, Mapping[str, _Table]]:
    remedy = "name a map (docs/import.md shows one)"
    try:
        data = parse_toml(text_file(file, file, remedy))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not TOML: {error}; correct it.") from None
    times = data.pop("times", "ns")
    if times not in _NS:
        raise UsageError(f"{file}: times = {quoted(times)} is none of {', '.join(_NS)}; write one of these.")
    tables = {}
    for name, table in data.items():
        _require_known(file, "table", name, TABLES)
        try:
            tables[name] = msgspec.convert(table, _Table)
        except msgspec.ValidationError as error:
            raise UsageError(
                f"{file}, table {name}: {error}; it has file, columns, values and outcomes."
            ) from None
        names = [column.name for column in TABLES[name].columns]
        for column in (*tables[name].columns, *tables[name].values):
            _require_known(file, f"column of {name}", column, names)
        for word, outcome in tables[name].outcomes.items():
            if outcome not in OUTCOMES:
                raise UsageError(
                    f"{file}: outcome {quoted(word)} is to be {quoted(outcome)}; write one of "
                    f"{', '.join(OUTCOMES)}."
                )
    if "sends" not in tables:
        raise UsageError(f"{file} has no table [sends], without which nothing is known; add it.")
    return times, tables


def _require_known(file: Path, what: str, name: str, among: Any) -> None:
    if name in among:
        return
    near = difflib.get_close_matches(name, among, n=1, cutoff=0.5)
    meant = f"did you mean {near[0]}?" if near else "docs/history.md lists them."
    raise UsageError(f"{file}: there is no {what} {quoted(name)}; {meant}")


@dataclass(kw_only=True)
class _Reader:
    """Reads the file of one table."""

    map_file: Path
    name: str
    table: _Table
    times: str
    file: Path = field(init=False)

    def __post_init__(self) -> None:
        self.file = self.map_file.parent / self.table.file

    def read(self) -> pa.Table:
        """The table's rows, with those columns of the schema that the file or the map has."""
        require_file(self.file, "name a file")
        try:
            parquet = self.file.suffix == ".parquet"
            rows = pq.ParquetFile(self.file).read() if parquet else self._csv()
            names = rows.column_names
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise BadDataError(
                f"{self.file} cannot be read: {_line(error)}; is it CSV or .parquet?"
            ) from None
        columns = {}
        for column in TABLES[self.name].columns:
            source = self.table.columns.get(column.name, column.name)
            if column.name in self.table.values:
                value = self.table.values[column.name]
                columns[column.name] = self._cast(
                    pa.array([value]).take(pa.array([0] * rows.num_rows, pa.int8())), column.name
                )
            elif source in names:
                columns[column.name] = self._cast(rows[source], column.name)
            elif column.name in self.table.columns or column.required:
                raise BadDataError(
                    f"{self.file} has no column {quoted(source)} for {column.name}; its columns are "
                    f"{', '.join(names)[:100]}; name one in [{self.name}] columns or values."
                )
        return pa.table(columns)

    def _csv(self) -> pa.Table:
        options = csv.ConvertOptions(strings_can_be_null=True)
        with csv.open_csv(self.file, convert_options=options) as batches:
            return pa.Table.from_batches(list(batches), batches.schema)

    def _cast(self, values: Any, name: str) -> Any:
        kind = TABLES[self.name].arrow().field(name).type
        try:
            if name in _TIMES and name not in self.table.values:
                return self._ns(values)
            if name == "outcome":
                return self._outcomes(values)
            return values.cast(kind)
        except (pa.ArrowException, NotImplementedError) as error:
            raise BadDataError(
                f"{self.file}: the column for {name} does not fit {kind} ({_line(error)}); correct the "
                f"column or the map."
            ) from None

    def _ns(self, values: Any) -> Any:
        if pa.types.is_timestamp(values.type):
            return values.cast(pa.timestamp("ns")).cast(pa.int64())
        if pa.types.is_floating(values.type):
            return pc.round(pc.multiply(values.cast(pa.float64()), float(_NS[self.times]))).cast(pa.int64())
        return pc.multiply_checked(values.cast(pa.int64()), _NS[self.times])

    def _outcomes(self, values: Any) -> Any:
        words = pc.unique(values.cast(pa.string())).to_pylist()
        meant = {word: word for word in OUTCOMES} | self.table.outcomes
        for word in words:
            if word is not None and word not in meant:
                raise BadDataError(
                    f"{self.file}: outcome {quoted(word)} is none of {', '.join(meant)[:80]}; say what it "
                    f"means in [{self.name}] outcomes, for example {{{word[:20]} = 'info'}}."
                )
        places = pc.index_in(values.cast(pa.string()), pa.array(list(meant), pa.string()))
        return pa.array(list(meant.values()), pa.string()).take(places)


def _line(error: BaseException) -> str:
    return str(error).splitlines()[0][:120] if str(error) else type(error).__name__
