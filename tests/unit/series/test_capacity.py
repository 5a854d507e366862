"""How many concurrent clusters a machine can run, and the error if that is too many."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.cluster_file import read_cluster_file
from harness.errors import UnfitError
from harness.lab.layout import AvailabilityZone, Layout
from harness.lab.model import Topology
from studies.series.capacity import Machine, choose

USUAL = Machine(cores=2, available_gib=20.0)
SERVER = Machine(cores=64, available_gib=500.0)


def of(brokers: int, zookeepers: int, azs: int = 3, mode: str = "zookeeper") -> Topology:
    names = [f"az{number}" for number in range(azs)]
    zones = [AvailabilityZone(name=name, brokers=brokers, zookeepers=zookeepers) for name in names]
    return Layout(tuple(zones)).topology(mode)


def test_two_cores_carry_three_clusters() -> None:
    """A large machine runs as many, unless more are requested."""
    assert choose(0, 54, USUAL).clusters == 3
    assert choose(0, 54, SERVER).clusters == 3
    assert choose(12, 54, SERVER).clusters == 12
    assert choose(0, 54, SERVER, usual=54).clusters == 54


@pytest.mark.parametrize("small", [Machine(1, 20.0), Machine(8, 2.0), Machine(1, 0.5)])
def test_a_small_machine_carries_one(small: Machine) -> None:
    assert choose(0, 54, small).clusters == 1


@pytest.mark.parametrize(
    ("topology", "clusters"),
    [
        (of(1, 1), 3),
        (of(2, 1), 2),
        (of(1, 1, azs=5), 1),
        (read_cluster_file(Path("examples/clusters/two-data-centres.toml")).layout.topology("zookeeper"), 1),
        (of(1, 1, mode="kraft-combined"), 3),
    ],
)
def test_large_clusters_run_one_at_a_time(topology: Topology, clusters: int) -> None:
    """Two clusters of eleven nodes side by side on two processors crashed again and again."""
    assert choose(0, 54, USUAL, topology, usual=54).clusters == clusters
    assert not choose(clusters, 54, USUAL, topology).warning
    assert choose(clusters + 1, 54, USUAL, topology).clusters == clusters + 1
    assert f"with {clusters + 1} side by side" in choose(clusters + 1, 54, USUAL, topology).warning


def test_memory_counts_nodes_as_well() -> None:
    roomy, tight = Machine(64, 500.0), Machine(64, 4.0)
    large = of(4, 1)
    assert choose(0, 54, roomy, large, usual=8).clusters == 8
    assert choose(0, 54, tight, large, usual=8).clusters == 1


def test_more_than_the_cores_carry_is_run_with_a_warning() -> None:
    choice = choose(5, 54, USUAL)
    assert choice.clusters == 5
    assert "2 cores carry about 3 clusters of 6 nodes" in choice.warning
    assert not choose(3, 54, USUAL).warning


def test_more_than_the_memory_holds_is_refused() -> None:
    """The error names a number that fits."""
    with pytest.raises(UnfitError, match=r"--parallel 60: 54 clusters need 42 GiB .*; use 24 or fewer"):
        choose(60, 54, USUAL)


def test_no_more_clusters_than_runs_are_needed() -> None:
    """With one run left, any number is accepted."""
    assert choose(500, 1, USUAL).clusters == 1
    assert choose(4, 0, USUAL).clusters == 1


def test_this_machine_has_cores_and_memory() -> None:
    here = Machine.here()
    assert here.cores >= 1
    assert here.available_gib > 0
