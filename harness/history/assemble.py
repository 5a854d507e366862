"""From the journals of a run to the Parquet tables of its history."""

from __future__ import annotations

from datetime import tzinfo
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.clock import Anchor
from harness.errors import BadDataError
from harness.history.journals import SHAPES, read_journals
from harness.history.schema import TABLES
from harness.history.tables import history_dir, write_table

_ORDER = {
    "sends": ("writer", "seq"),
    "copies": ("broker", "offset"),
    "reads": ("reader", "ns"),
    "sightings": ("broker", "offset", "seen_ns"),
}


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
