"""A fault that hits only the harness does not end a run; a run that ends early still reads the final logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.tables import read_table
from run.folder import RunFolder
from tests.cluster.conftest import run_by

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


@pytest.mark.long
@pytest.mark.parametrize("case", ["paused", "isolated"])
def test_the_harness_moves_to_another_zookeeper_node(case: str, runs: Path) -> None:
    folder = run_by("interrupted_worker", case, runs, timeout_s=200)
    manifest = RunFolder.open(folder).manifest()
    assert (manifest["status"], manifest["problem"]) == ("complete", None)
    assert "converged" in {row["name"] for row in read_table(folder, "marks").to_pylist()}


def test_a_run_that_ends_early_reads_the_final_logs(runs: Path) -> None:
    """The body raises while broker3 is dead and broker2 is paused: all three logs are in the history."""
    folder = run_by("interrupted_worker", "broken-off", runs, timeout_s=200)
    manifest = RunFolder.open(folder).manifest()
    assert (manifest["status"], manifest["problem"]) == ("invalid", "the body ends half-way")
    replicas = read_table(folder, "replicas").to_pylist()
    assert {row["broker"]: row["leo"] for row in replicas} == {1: 3, 2: 3, 3: 2}
    assert all(row["complete"] for row in replicas)
    copies = read_table(folder, "copies").to_pylist()
    assert sorted((row["broker"], row["offset"]) for row in copies) == [
        *((1, 0), (1, 1), (1, 2)),
        *((2, 0), (2, 1), (2, 2)),
        *((3, 0), (3, 1)),
    ]
