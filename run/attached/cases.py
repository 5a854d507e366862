"""Which faults a cluster of others can have, and what a scenario of the catalogue means there.

Roles are found, never moved: the topic of the run has a leader in each AZ that the case needs, and the
controller stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from harness.cluster.attached import AttachedCluster
from harness.cluster.hosts_file import ENDING, HostsFile
from harness.errors import UnfitError, UsageError, quoted
from harness.kafka.wire.quorum import describe_quorum
from harness.lab.model import Host, Topology
from nemesis.fault import Injection
from nemesis.nemesis import Nemesis
from nemesis.network import links
from nemesis.network.links import Link
from nemesis.processes.killing import Kill, ProcessEnd, Restart, Stop

BETWEEN_RESTARTS_S = 3.0
"""How long nodes run at least before the next one is restarted."""
_SHRUNK_S = 35.0
"""After how long a broker that is cut off is out of the ISR: more than replica.lag.time.max.ms of 30 s."""
END_S = 120.0
"""How long a node may take to end: one that is cut off waits long for its controller before it does."""


@dataclass(frozen=True, kw_only=True)
class Aim:
    """The fault of one run: where, and what it takes away."""

    title: str
    """Such as `isolate eu-a`, for people."""
    ability: str
    """What the hosts file must allow."""
    make: Callable[[Nemesis, Restart], Injection]
    """Makes it; gets what starts a node again."""
    links: tuple[Link, ...] = ()
    """Those that it cuts."""
    hosts: tuple[Host, ...] = ()
    """Those that the cluster does without meanwhile."""
    value: float = 0.0
    """Its strength, in the unit of the fault, if it has one."""
    others: tuple[Host, ...] = ()
    """Of a cut between two sides that both serve on: the other side, which some partitions do without."""

    @property
    def ends(self) -> bool:
        """Whether it ends processes."""
        return self.ability in ENDING

    @property
    def takes(self) -> Literal["process", "interface", ""]:
        """What of a host only one fault at a time may have; empty for links."""
        if self.links:
            return ""
        return "interface" if self.ability == "throttle" else "process"


@dataclass(frozen=True, kw_only=True)
class Act:
    """A fault and its time."""

    aim: Callable[[], Aim]
    """What it is, found out when it begins. Raises UnfitError or InvalidRunError if it is not possible."""
    says: str
    """For the plan, such as `isolate eu-a`."""
    lasts_s: float
    """How long it is in force; 0: it is undone as soon as it has acted."""
    after_s: float = 0.0
    """When it begins, after the beginning of the one before it."""
    waits: Literal["", "over", "room", "whole"] = ""
    """It also waits until those before it that have no time are over; or besides, until every partition has
    enough in-sync replicas without the hosts of this one; or until all are over and every ISR is full."""
    spans: bool = False
    """It is over as soon as all acts after it are, if that comes before its time."""


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
    restarts: bool = False
    """Whether every broker is restarted in turn meanwhile."""


def _isolated(topology: Topology, az: str) -> Aim:
    cut, name = links.isolate(topology, az), topology.az_name(az)
    return Aim(
        title=f"isolate {name}",
        ability="cut",
        make=lambda nemesis, _: nemesis.cut_links(f"isolate {name}", cut, asked={"isolated": name}),
        links=cut,
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


def _leader_in(topology: Topology, az: str) -> Host:
    """The broker of an AZ that leads there: that with the lowest id (`spread_over_azs`)."""
    return min((one for one in topology.role("broker") if one.az == az), key=lambda one: one.node_id)


def _leader_paused(roles: Roles) -> Aim:
    az = _first(roles.azs_without_controller(), "is without the controller")
    host = _leader_in(roles.topology, az)
    name = host.name
    return Aim(
        title=f"pause {name}", ability="pause", make=lambda nemesis, _: nemesis.pause(name), hosts=(host,)
    )


def ended(hosts: tuple[Host, ...], kind: type[ProcessEnd]) -> Aim:
    """Nodes' processes are ended, and started again when the fault is over."""
    return Aim(
        title=f"{kind.mechanism} {', '.join(host.name for host in hosts)}",
        ability="kill" if kind is Kill else "restart",
        make=lambda nemesis, start: nemesis.make(kind, hosts, start, within_s=END_S),
        hosts=hosts,
    )


def _leader_killed(roles: Roles) -> Aim:
    az = _first(roles.azs_without_controller(), "is without the controller")
    return ended((_leader_in(roles.topology, az),), Kill)


def _controller_killed(roles: Roles) -> Aim:
    return ended((roles.controller,), Kill)


def _bridge(roles: Roles) -> Aim:
    topology = roles.topology
    azs = list(dict.fromkeys(host.az for host in topology.role("broker")))
    if len(azs) != 3:
        raise UnfitError(f"A bridge needs three AZs with brokers, and the hosts file has {len(azs)}.")
    left, over, right = azs
    one, other = topology.az_name(left), topology.az_name(right)
    cut, title = links.bridge(topology, over, left, right), f"cut {one} from {other}"
    asked = {"ends": [{"from": one, "to": other, "both": True}]}
    return Aim(
        title=title,
        ability="cut",
        make=lambda nemesis, _: nemesis.cut_links(title, cut, asked=asked),
        links=cut,
        hosts=tuple(host for host in topology.hosts if host.az == left),
        others=tuple(host for host in topology.hosts if host.az == right),
    )


def _one_way(roles: Roles) -> Aim:
    """What the leading AZ sends to another one is lost; what it receives from there arrives."""
    topology = roles.topology
    source = _first(roles.azs_without_controller(), "is without the controller")
    others = [host for host in topology.role("broker") if host.az not in (source, roles.controller.az)]
    to = _first([host.az for host in others], "is a third one")
    one, other = topology.az_name(source), topology.az_name(to)
    cut, title = links.parse(topology, f"{source} -> {to}"), f"cut {one} -> {other}"
    asked = {"ends": [{"from": one, "to": other, "both": False}]}
    return Aim(
        title=title,
        ability="one-way",
        make=lambda nemesis, _: nemesis.cut_links(title, cut, asked=asked),
        links=cut,
        hosts=tuple(host for host in topology.hosts if host.az == to),
        others=tuple(host for host in topology.hosts if host.az == source),
    )


def _two_brokers(roles: Roles) -> Aim:
    """Two brokers lose each other; who controls reaches both, so that both can end in an orderly way."""
    brokers = [host for host in roles.topology.role("broker") if host != roles.controller]
    if len(roles.topology.role("broker")) < 3 or len(brokers) < 2:
        raise UnfitError("Restarts while a link is cut need three brokers, and the hosts file has fewer.")
    one, other = brokers[:2]
    title = f"cut {one.name} from {other.name}"
    cut = links.parse(roles.topology, f"{one.name} <-> {other.name}")
    asked = {"ends": [{"from": one.name, "to": other.name, "both": True}]}
    return Aim(
        title=title,
        ability="cut",
        make=lambda nemesis, _: nemesis.cut_links(title, cut, asked=asked),
        links=cut,
        hosts=(one,),
        others=(other,),
    )


CASES: Mapping[str, Case] = {
    "leader-az-isolated": Case(says="an AZ is cut off that leads, without the controller", aim=_leader_az),
    "follower-az-isolated": Case(says="an AZ of followers is cut off", aim=_follower_az, partitions=1),
    "leader-paused": Case(says="a broker that leads hangs", aim=_leader_paused),
    "controller-az-isolated": Case(says="the AZ of the active controller is cut off", aim=_controller_az),
    "bridge": Case(says="two AZs lose each other, and the third reaches both", aim=_bridge),
    "leader-killed": Case(says="a broker that leads is killed, and started again", aim=_leader_killed),
    "controller-killed": Case(
        says="the active controller is killed, and started again", aim=_controller_killed
    ),
    "rolling-restart-during-cut": Case(
        says="every broker is restarted in turn while two of them lose each other",
        aim=_two_brokers,
        restarts=True,
    ),
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


def acts_of(name: str, file: HostsFile, cluster: AttachedCluster, fault_s: float) -> tuple[Act, ...]:
    """What a case does on this cluster now. Raises UnfitError if it is not possible."""
    case = case_of(name)
    if case.mode not in ("", cluster.mode):
        raise UnfitError(
            f"{name} needs a cluster in mode {case.mode}, and this one is in mode {cluster.mode}."
        )
    roles = Roles(topology=file.topology, controller=controller_of(file.topology, cluster))
    aim = case.aim(roles)
    acts = [Act(aim=lambda: aim, says=aim.title, lasts_s=fault_s)]
    if case.restarts:
        longest_s = float(file.max_s)
        acts = [replace(acts[0], lasts_s=longest_s, spans=True), *_restarts(roles, aim, longest_s)]
    for aims in in_force_together(acts):
        require_fit(name, file, aims)
    return tuple(acts)


def in_force_together(acts: Sequence[Act]) -> list[list[Aim]]:
    """The faults that are in force at the same time: those with a time, and one of the others at once."""
    lasting = [act.aim() for act in acts if act.lasts_s]
    return [[*lasting, act.aim()] for act in acts if not act.lasts_s] or [lasting]


def _restarts(roles: Roles, cut: Aim, longest_s: float) -> Iterator[Act]:
    """First the brokers that reach all others, then those that are cut off, and the controller's last."""
    one, other = *cut.hosts, *cut.others
    brokers = sorted(
        roles.topology.role("broker"), key=lambda host: (host == roles.controller, host == one, host == other)
    )
    for number, host in enumerate(brokers):
        yield Act(
            aim=partial(ended, (host,), Stop),
            says=f"restart {host.name}",
            lasts_s=0.0,
            after_s=BETWEEN_RESTARTS_S if number else min(_SHRUNK_S, longest_s / 4),
            waits="room",
        )


def require_fit(name: str, file: HostsFile, aims: Sequence[Aim]) -> None:
    """Raise UnfitError unless the file and the quorum allow these faults at the same time."""
    for aim in aims:
        if aim.ability not in file.allow:
            raise UnfitError(f"{name} needs {aim.ability!r}, which limits.allow of {file.given} leaves out.")
    taken = taken_by(aims)
    _require_quorum(name, file.topology, taken)
    for host in (host for aim in aims if aim.ends for host in aim.hosts):
        if host.name not in file.starts:
            raise UnfitError(f"{name} needs a start command of {host.name}; give `start` in {file.given}.")
    if len(taken) > file.hosts_at_once:
        names = ", ".join(host.name for host in taken)
        raise UnfitError(
            f"{name} takes {len(taken)} hosts at once ({names}), and limits.hosts-at-once of "
            f"{file.given} is {file.hosts_at_once}; raise it if that is meant."
        )


def taken_by(aims: Iterable[Aim]) -> tuple[Host, ...]:
    """The hosts that a cluster does without, each once."""
    return tuple({host.name: host for aim in aims for host in aim.hosts}.values())


def controller_of(topology: Topology, cluster: AttachedCluster) -> Host:
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


def _require_quorum(name: str, topology: Topology, hosts: Iterable[Host]) -> None:
    """Raise UnfitError if the rest has no majority of the metadata quorum: the whole cluster would stop."""
    for service in ("controller", "zookeeper"):
        every = [host for host in topology.hosts if service in host.services]
        taken = [host for host in hosts if service in host.services]
        if taken and 2 * len(taken) >= len(every):
            raise UnfitError(
                f"{name} would take {len(taken)} of {len(every)} nodes with the service {service}, and "
                "with them the majority; the whole cluster would stop."
            )
