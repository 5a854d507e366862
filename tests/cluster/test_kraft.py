"""Real KRaft clusters and old brokers: roles are forced, and the recorded differences are seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.claims.builders.sql import TOO_BUSY
from run.catalogue import find
from tests.cluster.conftest import acked, run_as_declared, run_by
from tests.runs.stored import Judging

pytestmark = pytest.mark.cluster


def claims_of(runs: Path, name: str, version: str, mode: str) -> dict[str, str]:
    """Run a scenario and return the status of each claim."""
    judgement = run_as_declared(name, "--kafka", version, "--mode", mode, "--runs", runs)
    return {claim["name"]: claim["status"] for claim in judgement["claims"]}


def test_the_main_case_in_kraft(runs: Path) -> None:
    """A combined cluster takes the scenario written for ZooKeeper: the controller is where it asks for it."""
    name, version, mode = "leader-az-isolated", "3.9.1", "kraft-combined"
    folder = run_by("version_worker", name, version, mode, runs)
    judging = Judging(find(name).declared(version))
    claims = judging.judge_folder(folder / "history")  # by DuckDB, which needs less time than Spark
    judging.close()
    wrong = {one.name: one.observed for one in claims if not one.as_declared}
    assert all(observed.endswith(TOO_BUSY) for observed in wrong.values()), wrong
    assert {one.name: one.status for one in claims}["zombie-writes-lost"] == "confirmed"
    manifest = json.loads((folder / "run.json").read_text())
    assert manifest["roles"]["controller"] == "broker2"
    assert manifest["mode"] == "kraft-combined"


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "mode"),
    [
        *((version, "zookeeper") for version in ("2.8.2", "3.3.2", "3.5.2", "3.9.1")),
        *((version, "kraft-combined") for version in ("3.7.2", "3.8.1", "3.9.1", "4.0.1", "4.2.0")),
    ],
)
def test_the_main_case_on_each_version(runs: Path, version: str, mode: str) -> None:
    """As declared on the versions that no other test judges: acks=1 writes are lost, no acks=all write is."""
    claims = claims_of(runs, "leader-az-isolated", version, mode)
    assert (claims["zombie-writes-lost"], claims["acks-all-safe"]) == ("confirmed", "confirmed")


@pytest.mark.long
@pytest.mark.parametrize(("version", "split"), [("3.6.2", "confirmed"), ("3.9.1", "refuted")])
def test_the_zombie_controller(runs: Path, version: str, split: str) -> None:
    """Two leaders of the quorum and lost writes before 3.7.0, neither from then on."""
    claims = claims_of(runs, "kraft-zombie-controller", version, "kraft")
    assert claims["split-brain"] == split
    assert claims["acks1-lost" if split == "confirmed" else "acks1-kept"] == "confirmed"
    assert claims["acks-all-safe"] == "confirmed"


@pytest.mark.long
@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_the_last_replica(runs: Path, version: str) -> None:
    """Committed writes fall with the last in-sync disk, unless eligible leader replicas are on."""
    claims = claims_of(runs, "kraft-last-replica-wiped", version, "kraft")
    assert claims["committed-lost"] == ("confirmed" if version == "3.9.1" else "refuted")


@pytest.mark.long
def test_a_matrix_is_shown_and_kept(runs: Path) -> None:
    """Old brokers side by side: the table has a row, two columns, and both say as declared."""
    run = acked(
        "matrix",
        "hw-truncation-by-version",
        "--versions",
        "0.10.2.2,2.4.1",
        "--runs",
        runs,
        "--json",
        timeout_s=290,
    )
    cells = run.json()
    assert {cell["version"]: cell["verdict"] for cell in cells} == {
        "0.10.2.2": "as declared",
        "2.4.1": "as declared",
    }
    assert next(cell["lost"] for cell in cells if cell["version"] == "0.10.2.2") == 1
    (table,) = (runs / "matrix").glob("*/matrix.md")
    assert "| hw-truncation-by-version | zookeeper |" in table.read_text()


@pytest.mark.long
def test_a_regression_is_found(runs: Path) -> None:
    """Which version cured the truncation to the high watermark? The run says so."""
    run = acked(
        "bisect",
        "hw-truncation-by-version",
        "--claim",
        "m2-lost",
        "--versions",
        "0.10.2.2,0.11.0.3,1.1.1",
        "--runs",
        runs,
        "--json",
        timeout_s=290,
    )
    assert run.status == 0, run.stderr
    assert (run.json()["last_before"], run.json()["first"]) == ("0.10.2.2", "0.11.0.3")


def test_what_cannot_be_run_is_said_in_one_sentence(runs: Path) -> None:
    """Unknown versions, modes that a version lacks, claims that a scenario lacks: nothing is started."""
    unknown = acked("run", "kraft-zombie-controller", "--kafka", "3.9.9", "--runs", runs)
    assert unknown.status == 254
    assert "did you mean 3.9.2" in unknown.stderr
    lacking = acked(
        "run", "kraft-zombie-controller", "--kafka", "4.3.1", "--mode", "zookeeper", "--runs", runs
    )
    assert lacking.status == 254
    assert "runs in mode" in lacking.stderr
    claim = acked("bisect", "kraft-zombie-controller", "--claim", "nonsense", "--runs", runs)
    assert claim.status == 254
    assert "has no claim 'nonsense'" in claim.stderr
    assert not runs.exists()
