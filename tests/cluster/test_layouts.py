"""Layouts other than three AZs with one host of each role: isolation of every link, and real clusters."""

from __future__ import annotations

import json
import subprocess
import sys
from math import comb
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.cluster.cluster_file import read_cluster_file
from tests.cluster.conftest import acked

WORKER = Path(__file__).with_name("layout_worker.py")
ROOT = WORKER.parents[2]
EXAMPLES = ROOT / "examples" / "clusters"
LABS = [
    pytest.param("embedded", marks=pytest.mark.cluster),
    pytest.param("compose", marks=[pytest.mark.compose, pytest.mark.long]),
]


@pytest.mark.parametrize("lab", LABS)
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param("two-data-centres", "zookeeper", marks=pytest.mark.long),
        ("two-data-centres", "kraft"),
        pytest.param("five-azs", "kraft", marks=pytest.mark.long),
        pytest.param("five-azs", "zookeeper", marks=pytest.mark.long),
        pytest.param("three-azs-two-brokers", "zookeeper", marks=pytest.mark.long),
        pytest.param("three-azs-two-brokers", "kraft-combined", marks=pytest.mark.long),
    ],
)
def test_every_link_between_azs_can_be_cut(lab: str, mode: str, name: str, tmp_path: Path) -> None:
    """While two AZs are cut from each other, or one from all, exactly those calls are dead."""
    file = EXAMPLES / f"{name}.toml"
    command = [sys.executable, str(WORKER), lab, str(file), mode, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    faults = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    azs = len(read_cluster_file(file).layout.azs)
    assert len(faults) == comb(azs, 2) + azs
    assert all(fault["dead"] > 0 and fault["alive"] > 0 for fault in faults)


@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "name"),
    [
        ("leader-az-isolated", "five-azs"),
        ("leader-az-isolated", "three-azs-two-brokers"),
        ("kraft-leader-az-isolated", "five-azs"),
    ],
)
def test_a_scenario_on_another_layout(scenario: str, name: str, tmp_path: Path) -> None:
    """The verdict is that of three AZs; every broker of the layout runs, and knows its AZ by name."""
    file = EXAMPLES / f"{name}.toml"
    done = acked("run", scenario, "--cluster", file, "--runs", tmp_path, "--json")
    assert done.status == 0, done.stderr
    run = tmp_path / scenario / "latest"
    layout = read_cluster_file(file).layout
    assert json.loads((run / "run.json").read_text())["azs"] == {
        f"az{number}": az.name for number, az in enumerate(layout.azs, start=1)
    }
    configs = pq.read_table(run / "history" / "configs.parquet").to_pylist()
    racks = {row["name"]: row["value"] for row in configs if row["key"] == "broker.rack"}
    mode = "kraft" if scenario.startswith("kraft") else "zookeeper"
    topology = layout.topology(mode)
    assert racks == {host.name: topology.az_name(host.az) for host in topology.role("broker")}


@pytest.mark.cluster
def test_a_layout_that_lacks_a_role_starts_nothing(tmp_path: Path) -> None:
    file = EXAMPLES / "two-data-centres.toml"
    done = acked("run", "leader-az-isolated", "--cluster", file, "--runs", tmp_path)
    assert done.status == 254
    assert "needs a broker and a client in tie-breaker" in done.stderr
    assert list(tmp_path.iterdir()) == []
