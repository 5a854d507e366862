"""How many clusters this machine can run side by side."""

from __future__ import annotations

import os
from dataclasses import dataclass

from harness.doctor import available_gib
from harness.errors import UnfitError
from harness.lab.layout import THREE_AZS
from harness.lab.model import Topology
from run.placement import SPARK_GIB, memory_gib, start_s

USUAL = 3
"""Clusters side by side, unless the user says how many: more leave no time for the judgements."""
CLUSTERS_PER_CORE = 1.5
NODES_PER_CORE = 9
"""What a processor carries. Measured on two processors: a cluster of three brokers and three ZooKeeper nodes
takes 13 s of processor time to start and 0.65 processors during a run; one of six brokers and five ZooKeeper
nodes takes 21 s and 0.8. A run mostly waits for sessions and lags to end, so three clusters of six nodes keep
two processors just busy. Two of eleven nodes do so as well on an idle machine (docs/benchmarks.md), but where
other programs ran too, both started too slowly, and run after run crashed."""
THREE_AZ_TOPOLOGY = THREE_AZS.topology("zookeeper")


@dataclass(frozen=True)
class Machine:
    """What this process may use."""

    cores: int
    available_gib: float

    @classmethod
    def here(cls) -> Machine:
        """This machine, now."""
        return cls(len(os.sched_getaffinity(0)), available_gib())

    def by_cores(self, topology: Topology) -> int:
        """Clusters of these hosts that the processors carry without slowing each other down much."""
        most = min(int(self.cores * CLUSTERS_PER_CORE), self.cores * NODES_PER_CORE // nodes(topology))
        return max(1, most)

    def by_memory(self, topology: Topology) -> int:
        """Clusters of these hosts that the available memory holds."""
        return max(1, int((self.available_gib - SPARK_GIB) / cluster_gib(topology)))


def nodes(topology: Topology) -> int:
    """Processes of Kafka and ZooKeeper."""
    return sum(host.role != "client" for host in topology.hosts)


def cluster_gib(topology: Topology) -> float:
    """Memory of a cluster and its clients."""
    return memory_gib(topology) - SPARK_GIB


@dataclass(frozen=True)
class Parallelism:
    """A number of clusters, and what the user should know about it."""

    clusters: int
    warning: str = ""


def choose(
    asked: int, planned: int, machine: Machine, topology: Topology = THREE_AZ_TOPOLOGY, usual: int = USUAL
) -> Parallelism:
    """How many clusters of these hosts to run for ``planned`` runs.

    ``asked`` 0 means ``usual``, or as many as processors and memory carry if those are fewer. More than the
    processors carry are run, with a warning. Raises UnfitError for more than the memory holds.
    """
    by_cores, by_memory = machine.by_cores(topology), machine.by_memory(topology)
    clusters = max(1, min(asked or usual, planned))
    if not asked:
        return Parallelism(min(clusters, by_cores, by_memory))
    if clusters > by_memory:
        needed = clusters * cluster_gib(topology) + SPARK_GIB
        raise UnfitError(
            f"--parallel {asked}: {clusters} clusters need {needed:.0f} GiB of memory, and "
            f"{machine.available_gib:.1f} GiB are available; use {by_memory} or fewer."
        )
    if clusters > by_cores:
        of_nodes = f"cluster{'s' * (by_cores > 1)} of {nodes(topology)} nodes"
        return Parallelism(
            clusters,
            f"{machine.cores} cores carry about {by_cores} {of_nodes}; with {clusters} side by side each run "
            "takes longer, and some may end as unknown or invalid",
        )
    return Parallelism(clusters)


def starting_s(topology: Topology, parallel: int) -> float:
    """About how many seconds a cluster takes to start while ``parallel`` of them start and run."""
    return start_s(topology) * (1 + parallel) / 2
