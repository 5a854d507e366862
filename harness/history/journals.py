"""Reading the journals of a run back: fast where all is well, exact about the line where it is not."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pj

from harness.errors import BadDataError
from harness.history.schema import TABLES

_SENT = ("topic", "partition", "writer", "seq", "sent_ns", "label", "txn")
_DONE = ("writer", "seq", "done_ns", "outcome", "error", "offset", "attempts", "broker")
_GONE = ("topic", "partition", "broker", "offset", "seen_ns", "gone_ns")


def _pick(table: str, columns: tuple[str, ...]) -> pa.Schema:
    schema = TABLES[table].arrow()
    return pa.schema([schema.field(name).with_nullable(True) for name in columns])


SHAPES: Mapping[str, pa.Schema] = {
    **{name: _pick(name, tuple(t.arrow().names)) for name, t in TABLES.items() if name != "sends"},
    "sent": _pick("sends", _SENT),
    "done": _pick("sends", _DONE),
    "gone": _pick("sightings", _GONE),
}
"""What a journal line may hold, by the name of its table."""

_PREFIX = b'{"table":"'


def read_journals(folder: Path) -> dict[str, pa.Table]:
    """All journal lines of a run as tables, by the name that the lines carry."""
    lines: dict[str, list[bytes]] = {name: [] for name in SHAPES}
    files = sorted(folder.glob("*.jsonl"))
    for file in files:
        _sort_lines(file, lines)
    tables = {}
    for name, found in lines.items():
        try:
            tables[name] = _read_lines(found, SHAPES[name])
        except pa.ArrowException as error:
            raise _first_malformed(files, name) or BadDataError(
                f"The journals in {folder} hold a malformed row of {name}: {error}."
            ) from error
        _check_required(tables[name], name, files)
    return tables


def _sort_lines(file: Path, out: dict[str, list[bytes]]) -> None:
    data = file.read_bytes()
    lines = data.split(b"\n")
    tail = lines.pop()
    if tail and _whole(tail):
        lines.append(tail)
    start = len(_PREFIX)
    for number, line in enumerate(lines, 1):
        if line.startswith(_PREFIX):
            name = line[start : line.index(b'"', start)].decode()
        elif line:
            name = str(_row(file, number, line).get("table"))
        else:
            continue
        if name not in out:
            raise BadDataError(f"{file}, line {number}: there is no table {name!r}.")
        out[name].append(line)


def _whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _row(file: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadDataError(f"{file}, line {number} is not JSON ({error}): {line[:80]!r}.") from error
    if not isinstance(row, dict):
        raise BadDataError(f"{file}, line {number} is not a row: {line[:80]!r}.")
    return row


def _read_lines(lines: list[bytes], schema: pa.Schema) -> pa.Table:
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
    """Look for the line that the fast reader stumbled over, to be able to name it."""
    schema = SHAPES[name]
    for file in files:
        lines = file.read_bytes().split(b"\n")
        for number, line in enumerate(lines[:-1], 1):
            if not line:
                continue
            try:
                row = _row(file, number, line)
            except BadDataError as error:
                return error
            if row.get("table") != name:
                continue
            for column in schema:
                try:
                    pa.array([row.get(column.name)], column.type)
                except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                    return BadDataError(f"{file}, line {number}: {column.name} of {name}: {error}.")
    return None


def _check_required(table: pa.Table, name: str, files: list[Path]) -> None:
    known = {"sent": ("topic", "partition", "writer", "seq", "sent_ns"), "done": ("writer", "seq")}
    needed = known.get(name) or (_GONE if name == "gone" else TABLES[name].required)
    for column in needed:
        if table[column].null_count:
            for file in files:
                for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
                    mine = line.startswith(_PREFIX + name.encode() + b'"') and _whole(line)
                    if mine and json.loads(line).get(column) is None:
                        raise BadDataError(f"{file}, line {number}: a row of {name} has no {column}.")
            raise BadDataError(f"A row of {name} has no {column}.")
