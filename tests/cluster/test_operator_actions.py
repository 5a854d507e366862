"""Operator actions on a real cluster, in both labs: each is injected only once its effect was seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.tables import read_table
from tests.cluster.conftest import acked

LABS = [
    pytest.param("embedded", marks=[pytest.mark.cluster, pytest.mark.long]),
    pytest.param("compose", marks=[pytest.mark.compose, pytest.mark.long]),
]


@pytest.mark.parametrize("lab", LABS)
def test_reassignment_elections_and_a_moved_controller(runs: Path, lab: str) -> None:
    """All four actions take effect; the unclean election loses what the old leader alone had."""
    run = acked("run", "operator-actions", "--lab", lab, "--runs", runs, "--json")
    judgement = run.json()
    assert judgement["verdict"] == "as declared", (judgement, run.stderr)
    assert {claim["status"] for claim in judgement["claims"]} == {"confirmed"}
    faults = read_table((runs / "operator-actions" / "latest").resolve(), "faults").to_pylist()
    injected = {row["name"] for row in faults if row["kind"] == "operator" and row["moment"] == "injected"}
    assert injected == {
        "reassign t/0 to [2, 1, 3]",
        "elect preferred leader of t/0",
        "make broker3 controller",
        "elect unclean leader of u/0",
    }
