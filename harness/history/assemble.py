"""From the journals of a run to the Parquet tables of its history."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import tzinfo
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from harness.clock import Anchor
from harness.errors import BadDataError
from harness.history.schema import TABLES
from harness.history.tables import history_dir, write_table

_SENT = ("topic", "partition", "writer", "seq", "sent_ns", "label", "txn")
_DONE = ("writer", "seq", "done_ns", "outcome", "error", "offset", "attempts", "broker")
_GONE = ("topic", "partition", "broker", "offset", "seen_ns", "gone_ns")
_ORDER = {
    "sends": ("writer", "seq"),
    "copies": ("broker", "offset"),
    "reads": ("reader", "ns"),
    "sightings": ("broker", "offset", "seen_ns"),
}


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


def assemble(run_dir: Path, anchor: Anchor, *, log_zone: tzinfo | None = None) -> dict[str, int]:
    """Write every table but what the final dump wrote, and return the rows of each table written.

    Journals may end in a half-written line (the process was killed). Broker logs below `nodes/` give the
    log events; ``log_zone`` is the time zone they were written in (None: this machine's).

    Raises BadDataError with file and line for anything else that is malformed.
    """
    from harness.observer.broker_log import read_logs  # not needed to read a stored history

    tables = read_journals(run_dir / "journal")
    sends = _join_sends(tables.pop("sent"), tables.pop("done"))
    tables["sightings"] = _join_sightings(tables["sightings"], tables.pop("gone"))
    tables["sends"] = sends
    events = read_logs(run_dir / "nodes", anchor, log_zone)
    if events:
        read = pa.Table.from_pylist(events, schema=SHAPES["log_events"])
        tables["log_events"] = pa.concat_tables([tables["log_events"], read])
    written: dict[str, int] = {}
    for name in TABLES:
        table = tables[name]
        dumped = history_dir(run_dir) / f"{name}.parquet"
        if name in ("copies", "replicas") and table.num_rows == 0 and dumped.exists():
            continue
        keys = _ORDER.get(name, ("ns",) if "ns" in table.column_names else ())
        if keys and table.num_rows:
            table = _sorted(table, keys)
        write_table(run_dir, name, table)
        written[name] = table.num_rows
    return written


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


def _join_sends(sent: pa.Table, done: pa.Table) -> pa.Table:
    _refuse_twice(sent, "sent")
    _refuse_twice(done, "done")
    joined = sent.join(done, keys=["writer", "seq"], join_type="left outer", use_threads=False)
    matched = joined.num_rows - joined["done_ns"].null_count
    if matched < done.num_rows - done["done_ns"].null_count:
        raise BadDataError("A journal holds the outcome of a message that was never recorded as sent.")
    return joined.select(TABLES["sends"].arrow().names)


def _refuse_twice(table: pa.Table, what: str) -> None:
    if table.num_rows == 0:
        return
    counts = table.group_by(["writer", "seq"], use_threads=False).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1))
    if twice.num_rows:
        writer, seq = twice["writer"][0], twice["seq"][0]
        raise BadDataError(f"The journals hold two rows {what!r} of message {seq} of writer {writer}.")


def _join_sightings(seen: pa.Table, gone: pa.Table) -> pa.Table:
    names = TABLES["sightings"].arrow().names
    if gone.num_rows == 0:
        return seen
    keys = ["topic", "partition", "broker", "offset", "seen_ns"]
    first = gone.group_by(keys, use_threads=False).aggregate([("gone_ns", "min")])
    first = first.rename_columns([*keys, "gone_ns"])
    joined = seen.drop_columns(["gone_ns"]).join(first, keys=keys, join_type="left outer", use_threads=False)
    return joined.select(names)


def _sorted(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    columns = [table[key].to_numpy() for key in reversed(keys)]
    return table.take(pa.array(np.lexsort(columns)))
