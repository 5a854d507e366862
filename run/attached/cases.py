"""What a scenario of the catalogue means on a cluster of others: which hosts its fault is aimed at.

Roles are found, never moved: the topic of the run has a leader in each AZ that the case needs, and the
controller stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.cluster.attached import AttachedCluster
from harness.cluster.hosts_file import HostsFile
from harness.errors import UnfitError, UsageError, quoted
from harness.kafka.wire.quorum import describe_quorum
from harness.lab.model import Host, Topology
from nemesis.fault import Injection
from nemesis.nemesis import Nemesis
from nemesis.network import links
from nemesis.network.links import Link


@dataclass(frozen=True, kw_only=True)
class Aim:
    """The fault of one run: where, and what it takes away."""

    title: str
    """Such as `isolate eu-a`, for people."""
    ability: str
    """What the hosts file must allow."""
    make: Callable[[Nemesis], Injection]
    links: tuple[Link, ...] = ()
    """Those that it cuts."""
    hosts: tuple[Host, ...] = ()
    """Those that the cluster does without meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Who does what on the cluster when the run begins."""

    topology: Topology
    """Of the hosts file."""
    controller: Host
    """The host of the active controller."""

    def azs_without_controller(self) -> list[str]:
        """AZs that have brokers, without that of the controller, in the order of the file."""
        with_brokers = dict.fromkeys(host.az for host in self.topology.role("broker"))
        return [az for az in with_brokers if az != self.controller.az]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A scenario as it is carried out on hosts of others."""

    says: str
    aim: Callable[[Roles], Aim]
    partitions: int = 0
    """Of the topic; 0: each AZ leads one, so that every AZ is that of a leader."""
    mode: str = ""
    """The only mode in which it means anything."""


def _isolated(topology: Topology, az: str) -> Aim:
    return Aim(
        title=f"isolate {topology.az_name(az)}",
        ability="cut",
        make=lambda nemesis: nemesis.isolate(az),
        links=links.isolate(topology, az),
        hosts=tuple(host for host in topology.hosts if host.az == az),
    )


def _first(azs: list[str], what: str) -> str:
    if not azs:
        raise UnfitError(f"No AZ of the hosts file {what}; a run needs brokers in two AZs or more.")
    return azs[0]


def _leader_az(roles: Roles) -> Aim:
    return _isolated(roles.topology, _first(roles.azs_without_controller(), "is without the controller"))


def _follower_az(roles: Roles) -> Aim:
    """The topic has one partition, which the first AZ leads (`spread_over_azs`)."""
    leading = sorted({host.az for host in roles.topology.role("broker")})[0]
    azs = [az for az in roles.azs_without_controller() if az != leading]
    return _isolated(roles.topology, _first(azs, "has neither the leader nor the controller"))


def _controller_az(roles: Roles) -> Aim:
    return _isolated(roles.topology, roles.controller.az)


def _leader_paused(roles: Roles) -> Aim:
    az = _first(roles.azs_without_controller(), "is without the controller")
    host = next(host for host in roles.topology.role("broker") if host.az == az)
    name = host.name
    return Aim(
        title=f"pause {name}", ability="pause", make=lambda nemesis: nemesis.pause(name), hosts=(host,)
    )


def _bridge(roles: Roles) -> Aim:
    topology = roles.topology
    azs = list(dict.fromkeys(host.az for host in topology.role("broker")))
    if len(azs) != 3:
        raise UnfitError(f"A bridge needs three AZs with brokers, and the hosts file has {len(azs)}.")
    left, over, right = azs
    return Aim(
        title=f"cut {topology.az_name(left)} from {topology.az_name(right)}",
        ability="cut",
        make=lambda nemesis: nemesis.bridge(over, left, right),
        links=links.bridge(topology, over, left, right),
        hosts=tuple(host for host in topology.hosts if host.az == left),
    )


def _one_way(roles: Roles) -> Aim:
    """What the leading AZ sends to another one is lost; what it receives from there arrives."""
    topology = roles.topology
    source = _first(roles.azs_without_controller(), "is without the controller")
    others = [host for host in topology.role("broker") if host.az not in (source, roles.controller.az)]
    to = _first([host.az for host in others], "is a third one")
    one, other = topology.az_name(source), topology.az_name(to)
    return Aim(
        title=f"cut {one} -> {other}",
        ability="one-way",
        make=lambda nemesis: nemesis.cut(f"{source} -> {to}"),
        links=links.parse(topology, f"{source} -> {to}"),
        hosts=tuple(host for host in topology.hosts if host.az == to),
    )


CASES: Mapping[str, Case] = {
    "leader-az-isolated": Case(says="an AZ is cut off that leads, without the controller", aim=_leader_az),
    "follower-az-isolated": Case(says="an AZ of followers is cut off", aim=_follower_az, partitions=1),
    "leader-paused": Case(says="a broker that leads hangs", aim=_leader_paused),
    "controller-az-isolated": Case(says="the AZ of the active controller is cut off", aim=_controller_az),
    "bridge": Case(says="two AZs lose each other, and the third reaches both", aim=_bridge),
    "one-way-leader-to-follower": Case(says="what one AZ sends to another is lost, one way", aim=_one_way),
    "kraft-leader-az-isolated": Case(
        says="an AZ is cut off that leads, without the controller", aim=_leader_az, mode="kraft"
    ),
}
"""By the scenario's name."""


def case_of(name: str) -> Case:
    """The case of this name. Raises UsageError."""
    if name not in CASES:
        raise UsageError(
            f"{quoted(name)} cannot be run on hosts that acked did not set up; with --hosts, use "
            f"{', '.join(CASES)}."
        )
    return CASES[name]


def aim_of(name: str, file: HostsFile, cluster: AttachedCluster) -> Aim:
    """What a case is aimed at on this cluster now. Raises UnfitError if it is not possible."""
    case = case_of(name)
    if case.mode not in ("", cluster.mode):
        raise UnfitError(
            f"{name} needs a cluster in mode {case.mode}, and this one is in mode {cluster.mode}."
        )
    aim = case.aim(Roles(topology=file.topology, controller=_controller(file.topology, cluster)))
    if aim.ability not in file.allow:
        raise UnfitError(f"{name} needs {aim.ability!r}, which limits.allow of {file.path} leaves out.")
    if len(aim.hosts) > file.hosts_at_once:
        names = ", ".join(host.name for host in aim.hosts)
        raise UnfitError(
            f"{name} takes {len(aim.hosts)} hosts at once ({names}), and limits.hosts-at-once of "
            f"{file.path} is {file.hosts_at_once}; raise it if that is meant."
        )
    _require_quorum(name, file.topology, aim)
    return aim


def _controller(topology: Topology, cluster: AttachedCluster) -> Host:
    """The host of the active controller. Raises UnfitError if it is not known."""
    if cluster.mode == "zookeeper":
        found = cluster.controller()
        role = "broker"
    else:
        described = describe_quorum(cluster.any_endpoint())
        if described.error:
            raise UnfitError(
                f"The active controller is not known (Kafka error {described.error}); grant DESCRIBE "
                "on the cluster."
            )
        found, role = described.leader, "controller"
    hosts = [
        host
        for host in topology.hosts
        if host.node_id == found and (host.role == role or role in host.services)
    ]
    if not hosts:
        raise UnfitError(f"The active controller, node {found}, is no host of the hosts file; add it.")
    return hosts[0]


def _require_quorum(name: str, topology: Topology, aim: Aim) -> None:
    """Raise UnfitError if the rest has no majority of the metadata quorum: the whole cluster would stop."""
    for service in ("controller", "zookeeper"):
        every = [host for host in topology.hosts if service in host.services]
        taken = [host for host in aim.hosts if service in host.services]
        if taken and 2 * len(taken) >= len(every):
            raise UnfitError(
                f"{name} would take {len(taken)} of {len(every)} nodes with the service {service}, and "
                "with them the majority; the whole cluster would stop."
            )
