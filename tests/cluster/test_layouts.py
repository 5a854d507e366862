"""Layouts of other shapes than three AZs of one each: isolation of every link, and real clusters."""

from __future__ import annotations

import json
import subprocess
import sys
from math import comb
from pathlib import Path

import pytest

from harness.cluster.cluster_file import read_cluster_file

WORKER = Path(__file__).with_name("layout_worker.py")
ROOT = WORKER.parents[2]
EXAMPLES = ROOT / "examples" / "clusters"
LABS = [
    pytest.param("embedded", marks=pytest.mark.cluster),
    pytest.param("compose", marks=pytest.mark.compose),
]


@pytest.mark.parametrize("lab", LABS)
@pytest.mark.parametrize("mode", ["zookeeper", "kraft"])
@pytest.mark.parametrize("name", ["two-data-centres", "five-azs", "three-azs-two-brokers"])
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
