"""How many clusters this machine can run side by side."""

from __future__ import annotations

import os
from dataclasses import dataclass

from harness.doctor import available_gib
from harness.errors import UnfitError
from harness.lab.model import Topology
from run.placement import SPARK_GIB, memory_gib

USUAL = 3
USUAL_HOSTS = 9
"""Hosts of a cluster of three AZs."""
CLUSTERS_PER_CORE = 1.5
"""A scenario mostly waits for sessions and lags to end, so two cores carry three clusters."""
CLUSTER_GIB = 0.75
"""Six JVMs and the clients; measured: 0.6 GiB (docs/benchmarks.md)."""


@dataclass(frozen=True)
class Machine:
    """What this process may use."""

    cores: int
    available_gib: float

    @classmethod
    def here(cls) -> Machine:
        """This machine, now."""
        return cls(len(os.sched_getaffinity(0)), available_gib())

    @property
    def by_cores(self) -> int:
        """Clusters that the processors carry without slowing each other down much."""
        return max(1, int(self.cores * CLUSTERS_PER_CORE))

    @property
    def by_memory(self) -> int:
        """Clusters that the available memory holds."""
        return max(1, int((self.available_gib - SPARK_GIB) / CLUSTER_GIB))


def side_by_side(topology: Topology) -> int:
    """How many clusters with these hosts this machine can run at once: processes count, not clusters."""
    machine = Machine.here()
    per_cluster = memory_gib(topology) - SPARK_GIB
    by_memory = int((machine.available_gib - SPARK_GIB) / per_cluster)
    by_cores = int(machine.by_cores * USUAL_HOSTS / len(topology.hosts) + 0.5)
    return max(1, min(by_memory, by_cores))


@dataclass(frozen=True)
class Parallelism:
    """A number of clusters, and what the user should know about it."""

    clusters: int
    warning: str = ""


def choose(asked: int, planned: int, machine: Machine) -> Parallelism:
    """How many clusters to run for ``planned`` runs; ``asked`` 0 means three, or fewer on a small machine.

    More clusters than the processors carry are run, with a warning. Raises UnfitError for more than the
    memory holds.
    """
    if not asked:
        return Parallelism(min(USUAL, machine.by_cores, machine.by_memory))
    clusters = max(1, min(asked, planned))
    if clusters > machine.by_memory:
        raise UnfitError(
            f"--parallel {asked}: {clusters} clusters need {clusters * CLUSTER_GIB + SPARK_GIB:.0f} GiB of "
            f"memory, and {machine.available_gib:.1f} GiB are available; use {machine.by_memory} or fewer."
        )
    if clusters > machine.by_cores:
        return Parallelism(
            clusters,
            f"{machine.cores} cores carry about {machine.by_cores} clusters; with {clusters} side by side "
            f"each run takes longer, and some may end as unknown or invalid",
        )
    return Parallelism(clusters)
