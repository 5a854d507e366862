"""The observer lives on ZooKeeper's watches; a node that was away has forgotten them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.history.tables import read_table


@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_a_node_that_was_away_tells_of_changes_again(runs: Path) -> None:
    worker = subprocess.run(
        [sys.executable, "-m", "tests.cluster.observed_worker", str(runs)],
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert worker.returncode == 0, worker.stderr
    folder = Path(worker.stdout.strip().splitlines()[-1])
    marks = {row["name"]: row["ns"] for row in read_table(folder, "marks").to_pylist()}
    said = [row for row in read_table(folder, "views").to_pylist() if row["source"] == "zookeeper1"]
    away = [bool(row["error"]) for row in said if row["subject"] == "reachable"]
    assert away[-3:] == [False, True, False]
    told = [row["isr"] for row in said if row["subject"] == "partition" and row["ns"] > marks["back"]]
    assert told[-2:] == [[1, 2], [1, 2, 3]]
