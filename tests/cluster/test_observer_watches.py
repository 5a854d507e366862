"""The observer relies on watches; a ZooKeeper node that was away has lost them."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from harness.history.tables import read_table
from tests.cluster.conftest import run_by


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_a_node_that_was_away_shows_changes_again(runs: Path) -> None:
    folder = run_by("observed_worker", runs, timeout_s=150)
    marks = {row["name"]: row["ns"] for row in read_table(folder, "marks").to_pylist()}
    views = [row for row in read_table(folder, "views").to_pylist() if row["source"] == "zookeeper1"]
    answers = (row["error"] is None for row in views if row["subject"] == "reachable")
    assert [answered for answered, _ in groupby(answers)][-3:] == [True, False, True]
    isrs = [row["isr"] for row in views if row["subject"] == "partition" and row["ns"] > marks["back"]]
    assert isrs[-2:] == [[1, 2], [1, 2, 3]]
