"""From the journals of a run to the Parquet tables of its history.

Reads well-formed journals fast, and names file and line of a malformed one. A last line that a kill cut short
is left out. The messages of streams (`harness.history.sends`), what consumers receive
(`harness.history.reads`) and what the observer sees of replicas (`harness.history.sightings`) have journals
of their own.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pj

from harness.errors import BadDataError, json_object
from harness.history.reads import write_reads
from harness.history.schema import TABLES
from harness.history.sends import write_sends
from harness.history.sightings import write_sightings
from harness.history.tables import history_dir, write_table

_SENT = ("topic", "partition", "writer", "seq", "sent_ns", "label", "txn")
_DONE = ("writer", "seq", "done_ns", "outcome", "error", "offset", "attempts", "broker")
GONE = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("broker", pa.int32())]
    + [(name, pa.int64()) for name in ("from_offset", "to_offset", "gone_ns")]
)
"""Columns of the lines `gone`."""


def _columns(table: str, names: Sequence[str]) -> pa.Schema:
    schema = TABLES[table].arrow()
    return pa.schema([schema.field(name).with_nullable(True) for name in names])


_APART = ("sends", "reads", "sightings")
"""Tables that follow from journals of fixed rows as well."""

_LINES: Mapping[str, pa.Schema] = {
    **{name: _columns(name, table.arrow().names) for name, table in TABLES.items() if name not in _APART},
    "sent": _columns("sends", _SENT),
    "done": _columns("sends", _DONE),
    "gone": GONE,
}
"""Columns that a journal line may have, by the table that the line names (`harness.history.journal`)."""

_REQUIRED: Mapping[str, tuple[str, ...]] = {
    **{name: table.required for name, table in TABLES.items() if name not in _APART},
    "sent": ("topic", "partition", "writer", "seq", "sent_ns"),
    "done": ("writer", "seq"),
    "gone": tuple(GONE.names),
}

FINAL = ("copies", "batches", "replicas")
"""Tables that are written when the final logs are read, not from journals."""

_ORDER = {
    "copies": ("broker", "offset"),
}
"""Columns by which tables are sorted; the others are sorted by `ns` if they have it."""

_LARGE_AT_ONCE = 2
"""Large tables that are written side by side; most of the work is done by libraries that need no lock."""
_PREFIX = b'{"table":"'
_LINES_AT_ONCE = 100_000
"""Lines of a table that memory holds as text; parsed, they need a third of it."""
_UNFINISHED = "rows.unfinished"
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


def assemble(run_dir: Path, log_events: Sequence[Mapping[str, object]] = ()) -> dict[str, int]:
    """Write all tables of a run's history; returns the number of rows by table.

    ``log_events`` are rows of `log_events` besides those in the journals. Tables of the final dump (`FINAL`)
    that exist already are kept. Memory holds one table at a time, and of large ones some blocks.

    Raises BadDataError, with file and line, if a journal is malformed.
    """
    aside = history_dir(run_dir) / _UNFINISHED
    shutil.rmtree(aside, ignore_errors=True)
    try:
        rows = _read_journals(run_dir / "journal", aside)
        if log_events:
            rows["log_events"].add(pa.Table.from_pylist(list(log_events), schema=_LINES["log_events"]))
        with ThreadPoolExecutor(_LARGE_AT_ONCE) as pool:
            large = {
                "sends": pool.submit(write_sends, run_dir, rows["sent"].take(), rows["done"].take()),
                "sightings": pool.submit(write_sightings, run_dir, rows["gone"].take()),
                "reads": pool.submit(write_reads, run_dir),
            }
            written = {name: one.result() for name, one in large.items()}
        for name in [name for name in TABLES if name not in written]:
            table = rows[name].take()
            dumped = history_dir(run_dir) / f"{name}.parquet"
            if name in FINAL and table.num_rows == 0 and dumped.exists():
                continue
            keys = _ORDER.get(name, ("ns",) if "ns" in table.column_names else ())
            write_table(run_dir, name, table, keys)
            written[name] = table.num_rows
            del table
            pa.default_memory_pool().release_unused()  # else freed tables stay resident for a while
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return written


class _Rows:
    """The rows of one table, as they are parsed: all but the last are put aside on disk."""

    def __init__(self, schema: pa.Schema, aside: Path) -> None:
        self._schema = schema
        self._aside = aside
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._last = schema.empty_table()

    def add(self, table: pa.Table) -> None:
        """Add rows, and put those before aside if there are many."""
        if self._last.num_rows + table.num_rows < _LINES_AT_ONCE:
            self._last = pa.concat_tables([self._last, table])
            return
        if self._writer is None:
            self._aside.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pa.ipc.new_stream(str(self._aside), self._schema, options=_COMPRESSED)
        self._writer.write_table(self._last)
        self._last = table

    def take(self) -> pa.Table:
        """All rows; they are held here no longer."""
        last, self._last = self._last, self._schema.empty_table()
        if self._writer is None:
            return last
        self._writer.close()
        with pa.OSFile(str(self._aside)) as file:
            before = pa.ipc.open_stream(file).read_all()
        self._aside.unlink()
        return pa.concat_tables([before, last])


def _read_journals(folder: Path, aside: Path) -> dict[str, _Rows]:
    """All journal lines of a run as rows, by the name that the lines carry."""
    rows = {name: _Rows(schema, aside / f"{name}.arrow") for name, schema in _LINES.items()}
    lines: dict[str, list[bytes]] = {name: [] for name in _LINES}
    files = sorted(folder.glob("*.jsonl"))

    def parse(name: str) -> None:
        try:
            table = _parse(lines[name], _LINES[name])
        except pa.ArrowException as error:
            raise _first_malformed(files, name) or BadDataError(
                f"The journals in {folder} hold a malformed row of {name}: {error}."
            ) from error
        _check_required(table, name, files)
        rows[name].add(table)
        lines[name] = []

    for file in files:
        for name, line in lines_of(file):
            lines[name].append(line)
            if len(lines[name]) >= _LINES_AT_ONCE:
                parse(name)
    for name in _LINES:
        parse(name)
    return rows


def lines_of(file: Path) -> Iterator[tuple[str, bytes]]:
    """The complete lines of a journal, each with the name of its table. Raises BadDataError."""
    start = len(_PREFIX)
    with file.open("rb") as opened:
        for number, ended in enumerate(opened, 1):
            line = ended.removesuffix(b"\n")
            if line == ended and not _is_object(line):
                return  # cut short: the last line
            if line.startswith(_PREFIX) and (end := line.find(b'"', start)) > 0:
                name = line[start:end].decode(errors="replace")
            elif line:
                name = str(_row(file, number, line).get("table"))
            else:
                continue
            if name not in _LINES:
                raise BadDataError(f"{file}, line {number}: there is no table {name!r}.")
            yield name, line


def _is_object(line: bytes) -> bool:
    try:
        json_object(line, "last line")
    except BadDataError:
        return False
    return True


def _row(file: Path, number: int, line: bytes) -> dict[str, object]:
    return json_object(line, f"{file}, line {number}", f"the line begins with {line[:80]!r}")


def _parse(lines: list[bytes], schema: pa.Schema) -> pa.Table:
    if not lines:
        return schema.empty_table()
    data = b"\n".join(lines)
    read = pj.ReadOptions(block_size=max(len(data), 1 << 20))
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    table = pj.read_json(io.BytesIO(data), read_options=read, parse_options=parse)
    if table.num_rows != len(lines):
        raise pa.ArrowInvalid(f"{len(lines)} lines gave {table.num_rows} rows")
    return table.select(schema.names).cast(schema)


def _first_malformed(files: list[Path], name: str) -> BadDataError | None:
    """Search for the line that `_parse` could not read, to be able to name it."""
    for file in files:
        for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], 1):
            if not line:
                continue
            try:
                row = _row(file, number, line)
            except BadDataError as error:
                return error
            if row.get("table") != name:
                continue
            for column in _LINES[name]:
                try:
                    pa.array([row.get(column.name)], column.type)
                except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                    return BadDataError(f"{file}, line {number}: {column.name} of {name}: {error}.")
    return None


def _check_required(table: pa.Table, name: str, files: list[Path]) -> None:
    for column in _REQUIRED[name]:
        if table[column].null_count:
            for file in files:
                for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
                    named = line.startswith(_PREFIX + name.encode() + b'"') and _is_object(line)
                    if named and _row(file, number, line).get(column) is None:
                        raise BadDataError(f"{file}, line {number}: a row of {name} has no {column}.")
            raise BadDataError(f"A row of {name} has no {column}.")
