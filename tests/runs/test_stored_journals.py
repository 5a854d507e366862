"""Journals of fixed rows hold what was seen and read in every stored run: its findings are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from harness.history.assemble import GONE
from harness.history.read_journal import ReadJournal, ReceivedRecord
from harness.history.reads import write_reads
from harness.history.sightings import ROW, SightingsJournal, write_sightings
from harness.history.tables import read_table
from tests.runs.stored import all_stored, read_stored

_KEYS = ["topic", "partition", "broker"]
_ORDER = [(name, "ascending") for name in (*_KEYS, "offset", "seen_ns")]


def journaled(run: Path, sightings: pa.Table) -> pa.Table:
    """Write what was seen as the observer does; returns the lines `gone`."""
    ranges = []
    for replica in sightings.group_by(_KEYS, use_threads=False).aggregate([]).to_pylist():
        rows = [row for row in sightings.to_pylist() if {name: row[name] for name in _KEYS} == replica]
        rows.sort(key=lambda row: row["seen_ns"])
        journal = SightingsJournal(run / "journal" / "observer.jsonl", *replica.values())
        seen = np.zeros(len(rows), dtype=ROW)
        for name in ROW.names or ():
            seen[name] = [-1 if row[name] is None else row[name] for row in rows]
        journal.append(seen)
        for gone_ns in sorted({row["gone_ns"] for row in rows if row["gone_ns"] is not None}):
            offsets = sorted(row["offset"] for row in rows if row["gone_ns"] == gone_ns)
            ranges.append(
                replica | {"from_offset": offsets[0], "to_offset": offsets[-1] + 1, "gone_ns": gone_ns}
            )
    return pa.Table.from_pylist(ranges, schema=GONE)


@pytest.mark.long
@pytest.mark.parametrize("name", all_stored())
def test_sightings_come_back(name: str, tmp_path: Path) -> None:
    recorded = read_stored(name).tables["sightings"]
    assert write_sightings(tmp_path, journaled(tmp_path, recorded)) == recorded.num_rows
    assert read_table(tmp_path, "sightings").sort_by(_ORDER).equals(recorded.sort_by(_ORDER))


@pytest.mark.long
@pytest.mark.parametrize("name", all_stored())
def test_reads_come_back(name: str, tmp_path: Path) -> None:
    """All but the broker, which only recordings of others state."""
    recorded = read_stored(name).tables["reads"].drop_columns("broker")
    journals: dict[tuple[int, str | None, str | None], list[ReceivedRecord]] = {}
    for row in sorted(recorded.to_pylist(), key=lambda row: row["ns"]):
        about = row.pop("reader"), row.pop("group"), row.pop("isolation")
        journals.setdefault(about, []).append(ReceivedRecord(**row))
    (tmp_path / "journal").mkdir()
    for (reader, group, isolation), records in journals.items():
        topics = {record.topic for record in records}
        journal = ReadJournal(
            tmp_path / "journal" / "c.jsonl", reader, group=group, isolation=isolation or "", topics=topics
        )
        journal.append(records)
    assert write_reads(tmp_path) == recorded.num_rows
    came_back = read_table(tmp_path, "reads").drop_columns("broker")
    order = [(column, "ascending") for column in ("topic", "partition", "reader", "ns", "offset", "poll")]
    assert came_back.sort_by(order).equals(recorded.sort_by(order))
