"""A scenario's set-up on a cluster of another layout than the one it is written for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.cluster.setup import Setup
from harness.doctor import available_gib
from harness.errors import UnfitError, UsageError
from harness.lab.layout import THREE_AZS, Layout
from harness.lab.model import Host, Topology

SPARK_GIB = 1.5
"""Memory of the session that judges."""
_GIB: Mapping[str, float] = {"broker": 0.14, "zookeeper": 0.07, "controller": 0.1, "client": 0.04}
"""Memory of a host's processes, by role. Three AZs with ZooKeeper took 0.6 GiB (docs/benchmarks.md)."""

_FIRST_START_S, _PER_NODE_S = 2.0, 0.7
"""Seconds until a cluster is up, on two processors: three AZs take 4 to 7, six brokers with five ZooKeeper
nodes 6 to 13."""


def start_s(topology: Topology) -> float:
    """About how many seconds the cluster takes to start."""
    nodes = sum(host.role != "client" for host in topology.hosts)
    return _FIRST_START_S + _PER_NODE_S * nodes


def memory_gib(topology: Topology) -> float:
    """What a run on these hosts needs, judging included."""
    return SPARK_GIB + sum(_GIB[host.role] for host in topology.hosts)


def require_memory(topology: Topology) -> None:
    """Raise UnfitError if this machine has less memory than the hosts need."""
    needed, available = memory_gib(topology), available_gib()
    if available < needed:
        raise UnfitError(
            f"A cluster of {len(topology.hosts)} hosts needs about {needed:.1f} GiB of memory, and "
            f"{available:.1f} GiB are available; end other programs, or describe a smaller cluster."
        )


def hosts_of(setup: Setup, layout: Layout, mode: str) -> Topology:
    """The layout's hosts without the ZooKeeper nodes and controllers that a quorum of one node lacks."""
    whole = layout.topology(mode)
    if setup.quorum == "every AZ":
        return whole
    az = next((host.az for host in whole.hosts if host.name == setup.controller), "")

    def kept(host: Host) -> bool:
        if host.role == "zookeeper":
            return host.name == setup.zookeeper_leader
        return host.role != "controller" or host.az == az

    return replace(whole, hosts=tuple(filter(kept, whole.hosts)))


def place(setup: Setup, layout: Layout, mode: str, scenario: str) -> Setup:
    """The set-up on a layout: with its other brokers, which hold no replica of the scenario's topics.

    Scenarios are written for `THREE_AZS`, and name its hosts: `broker2` is a broker in the second AZ.
    Raises UsageError naming the roles that the layout cannot fill, or has too many hosts of.
    """
    if layout == THREE_AZS or setup.for_layout:
        return setup
    topology, written_for = layout.topology(mode), hosts_of(setup, THREE_AZS, mode)
    there = {(host.name, host.az) for host in topology.hosts}
    missing = [
        host
        for host in written_for.hosts
        if (host.role != "broker" or host.node_id in setup.brokers) and (host.name, host.az) not in there
    ]
    if missing:
        raise UsageError(
            f"{scenario} needs {_sentence(missing, topology)}; add them, or run a scenario that needs less."
        )
    for role in setup.exactly:
        required, present = (len(one.role(role)) for one in (written_for, topology))
        if present != required:
            raise UsageError(
                f"{scenario} needs exactly {required} {role}s, and the cluster has {present}; describe "
                f"{required}, or run another scenario."
            )
    usual = {host.node_id for host in written_for.role("broker")}
    others = tuple(host.node_id for host in topology.role("broker") if host.node_id not in usual)
    return replace(setup, brokers=(*setup.brokers, *others))


def _sentence(missing: list[Host], topology: Topology) -> str:
    roles_by_az: dict[str, list[str]] = {}
    for host in missing:
        name = topology.az_name(host.az) if host.az in topology.azs else f"a further AZ ({host.az})"
        roles_by_az.setdefault(name, []).append(host.role)
    parts = "; ".join(f"{_listed(roles)} in {az}" for az, roles in roles_by_az.items())
    names = ", ".join(map(topology.az_name, topology.azs))
    azs = f"{len(topology.azs)} AZ{'' if len(topology.azs) == 1 else 's'}"
    return f"{parts}, which the cluster of {azs} ({names}) does not have"


def _listed(roles: list[str]) -> str:
    *rest, last = (f"a {'ZooKeeper node' if role == 'zookeeper' else role}" for role in roles)
    return f"{', '.join(rest)} and {last}" if rest else last
