"""Messages that retention, a DeleteRecords request or a deletion removes are not lost, and say why."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.history.tables import read_table
from report.words.causes import cause_of
from tests.cluster.conftest import acked
from tests.cluster.removals import AGAIN, COUNT, DELETED, GONE, KEPT_FROM, SIZE, TIME

pytestmark = [pytest.mark.cluster, pytest.mark.long]
SCENARIO = Path(__file__).with_name("removals.py")
CAUSES = {
    TIME: "retention by time: retention.ms=3000",
    SIZE: "retention by size: retention.bytes=2000",
    DELETED: f"records deleted: a client's request deleted those before offset {KEPT_FROM}",
    GONE: "topic deleted: gone was deleted",
    AGAIN: "topic deleted: again was deleted",
}


@pytest.mark.parametrize(
    ("version", "mode"), [("2.7.1", "zookeeper"), ("3.9.1", "kraft"), ("4.3.1", "kraft")]
)
def test_documented_removals(tmp_path: Path, version: str, mode: str) -> None:
    done = acked("run", SCENARIO, "--kafka", version, "--mode", mode, "--runs", tmp_path, "--json")
    judgement = done.json()
    assert judgement["verdict"] == "as declared", (judgement["reasons"], done.stderr[-2000:])
    run = (tmp_path / "removals" / "latest").resolve()
    retired = [row for row in pq.read_table(run / "life.parquet").to_pylist() if row["fate"] == "retired"]
    assert {row["topic"]: cause_of(row) for row in retired} == CAUSES
    for topic in (GONE, AGAIN):
        assert sum(row["topic"] == topic for row in retired) == COUNT
    lines = [row for row in read_table(run, "log_events").to_pylist() if row["kind"] == "topic_deleted"]
    assert sorted(row["topic"] for row in lines) == [AGAIN, GONE]
    sightings = read_table(run, "sightings").to_pylist()
    for topic in (TIME, SIZE):
        copies = [row["offset"] for row in read_table(run, "copies").to_pylist() if row["topic"] == topic]
        assert {row["offset"] for row in sightings if row["topic"] == topic} >= set(copies)
