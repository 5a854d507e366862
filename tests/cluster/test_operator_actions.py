"""Operator actions on a real cluster: each is recorded as injected only once its effect was seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.tables import read_table
from tests.cluster.conftest import acked

pytestmark = pytest.mark.cluster


def test_reassignment_elections_and_a_moved_controller(runs: Path) -> None:
    """All four actions take effect; the unclean election loses what the old leader alone had."""
    run = acked("run", "operator-actions", "--runs", runs, "--json")
    judgement = run.json()
    assert judgement["verdict"] == "as declared", (judgement, run.stderr)
    faults = read_table((runs / "operator-actions" / "latest").resolve(), "faults").to_pylist()
    injected = {row["name"] for row in faults if row["kind"] == "operator" and row["moment"] == "injected"}
    assert injected == {
        "reassign t/0 to [2, 1, 3]",
        "elect preferred leader of t/0",
        "make broker3 controller",
        "elect unclean leader of u/0",
    }
