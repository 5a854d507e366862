"""The catalogue on real clusters: the control finds nothing; without its mechanism a claim must fall."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.conftest import acked

pytestmark = pytest.mark.cluster


def test_without_a_fault_nothing_is_found(runs: Path) -> None:
    """The control: a finding here would be one of the harness's own making."""
    run = acked("run", "no-fault", "--runs", runs, "--json")
    judgement = run.json()
    assert judgement["verdict"] == "as declared", (judgement, run.stderr)
    assert judgement["findings_by_class"] == {}
    assert run.status == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("mutant", "fallen"),
    [
        ("unclean-election-off", {"unclean-election", "acks-all-lost"}),
        ("alter-isr-off", {"shrink-asked-once", "acks-all-fails-on"}),
        ("flushed", {"lost"}),
        ("leader-epochs-on", {"old-diverges"}),
    ],
)
def test_without_its_mechanism_a_claim_falls(mutant: str, fallen: set[str], runs: Path) -> None:
    """The same run with one setting changed must end as violated, by the claims that hang on it."""
    worker = subprocess.run(
        [sys.executable, "-m", "tests.cluster.mutant_worker", mutant, str(runs)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert worker.returncode == 0, worker.stderr
    judged = acked("check", worker.stdout.strip().splitlines()[-1], "--json").json()
    assert judged["verdict"] == "violated", judged["reasons"]
    wrong = {claim["name"] for claim in judged["claims"] if not claim["as_declared"]}
    assert fallen <= wrong


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_part_of_the_catalogue_side_by_side(runs: Path) -> None:
    """Three clusters at a time; each scenario its verdict, the worst of them the exit code."""
    run = acked("run", "--all", "--filter", "no-fault,client-az-cut,bridge", "--runs", runs, "--json")
    outcomes = {outcome["scenario"]: outcome for outcome in json.loads(run.stdout)}
    assert set(outcomes) == {"no-fault", "client-az-cut", "bridge"}
    assert {outcome["verdict"] for outcome in outcomes.values()} == {"as declared"}
    assert run.status == 0
