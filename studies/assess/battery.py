"""Which faults are injected into a cluster, and where its roles are meanwhile.

Every fault comes in several placements: with the controller and the leader of the metadata quorum inside what
the fault hits, and outside. (Leaders of partitions are inside and outside in the same run: see
`studies.assess.load`.) Placements that differ only in the names of AZs or hosts of the same shape are
equivalent, and the first of them is run. Which placements a fault has, its class says.

In ZooKeeper mode, each broker's session begins at a node in its own AZ. If a fault between two AZs takes the
nodes of one of them from the quorum, its brokers may find another node in time or not, and chance decides. So
there are two placements: in one the sessions are in a third AZ and last, in the other the brokers know only
the nodes of their own AZ and lose them.
"""

from __future__ import annotations

import fnmatch
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import msgspec

from harness.cluster.upgrading import order_of_upgrade
from harness.errors import UsageError
from harness.lab.model import Host, Topology
from nemesis.catalogue import FAULTS
from nemesis.scheduled import Placement, Preparation, ScheduledFault, Shape
from studies.steps.step import OTHERS, Moment, Step

_A_PAIR = 2
_THIRDS = 3


@dataclass(frozen=True, kw_only=True)
class Upgraded:
    """How far a rolling upgrade has come when the fault begins."""

    to: str
    """The newer version."""
    hosts: tuple[str, ...]
    """The nodes that run it, in the order in which they were upgraded."""
    nodes: int
    """How many nodes are to be upgraded."""

    def __str__(self) -> str:
        return f"{len(self.hosts)} of {self.nodes} nodes on {self.to}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One fault and one placement of the roles: one run."""

    name: str
    """For `--faults` and the run's folder: `isolate-az1.roles-az1`."""
    says: str
    subject: str
    """The fault as the subject of a sentence, the same for all placements: `Isolating az1`."""
    placement: Placement
    steps: tuple[Step, ...]
    """What happens; `lasting` says how long."""
    controller: str
    """Host of the active controller; where controllers are hosts of their own, one of those."""
    quorum_leader: str
    """ZooKeeper node that leads; empty in KRaft, where it is the controller."""
    inside: tuple[str, ...]
    """Brokers that the fault hits: partitions that they lead are led inside the fault."""
    controller_inside: bool
    quorum_leader_inside: bool
    sessions: Mapping[str, str] = field(default_factory=dict)
    """The ZooKeeper node at which each broker's session is; empty in KRaft."""
    pins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Brokers that know only these ZooKeeper nodes."""
    sessions_of: str = ""
    """The AZ whose nodes the fault takes from the quorum while its brokers reach others; mostly none."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """The part of each AZ or host in the fault, by name; all others have none."""
    stands_for: tuple[str, ...] = ()
    """Names of equivalent cases, which are not run."""
    upgraded: Upgraded | None = None
    """None: every node runs the version of the run."""

    @property
    def faults(self) -> tuple[type[ScheduledFault], ...]:
        """The kinds of faults of its steps."""
        return tuple(FAULTS[step.fault] for step in self.steps)

    @property
    def kind(self) -> str:
        """The beginning of its name: the placement's name, or the fault's."""
        return self.placement.name or self.steps[-1].fault

    @property
    def preparations(self) -> frozenset[Preparation]:
        """What its cluster must be started with, and what other cases do without."""
        return frozenset(fault.preparation for fault in self.faults if fault.preparation)

    def prepared(self, preparation: Preparation, topology: Topology) -> tuple[str, ...]:
        """The hosts that need this preparation."""
        return tuple(
            host
            for step, fault in zip(self.steps, self.faults, strict=True)
            if fault.preparation == preparation
            for host in step.targets
            if topology.host(host).role in fault.roles
        )

    def lasting_s(self, hold_s: float) -> float:
        """How long it lasts, where the time-outs of the cluster ask for ``hold_s``."""
        return max(hold_s, self.placement.at_least_s)

    def lasting(self, hold_s: float) -> tuple[Step, ...]:
        """Its steps, each of which lasts so long."""
        until = Moment(after_s=self.lasting_s(hold_s))
        return tuple(msgspec.structs.replace(step, until=until) for step in self.steps)

    @property
    def session_hit(self) -> str:
        """The broker whose ZooKeeper session the fault may end, the controller if it is one; mostly empty.

        If there are several others, the first.
        """
        if not self.sessions:
            return ""
        hit = (*self.pins, *((self.controller,) if self.controller in self.inside else ()), *self.inside)
        return next(iter(hit), "")

    @property
    def roles(self) -> str:
        """Where the roles are: `inside`, `outside`, or both in words where they differ."""
        controller, quorum = (
            "inside" if inside else "outside"
            for inside in (self.controller_inside, self.quorum_leader_inside)
        )
        words = [controller]
        if self.quorum_leader and controller != quorum:
            words.append(f"quorum leader {quorum}")
        if self.sessions_of:
            words.append(f"sessions of {self.sessions_of} {'lost' if self.pins else 'kept'}")
        return ", ".join(words)


def battery(topology: Topology, mode: str, upgrade_to: str = "") -> tuple[Case, ...]:
    """All cases of a cluster, each equivalent placement once, the most telling first.

    With ``upgrade_to``, each at every third of a rolling upgrade to this version; at the last one, every node
    runs it, and what it offers is not turned on yet.
    """
    cluster = _Cluster(topology, mode)
    alike: dict[object, list[Case]] = {}
    placed = ((fault, placement) for fault in FAULTS.values() for placement in fault.placements)
    for fault, placement in sorted(placed, key=lambda pair: pair[1].rank):
        for case in _RECIPES[placement.at](cluster, fault, placement):
            for one in cluster.in_upgrade(case, upgrade_to) if upgrade_to else (case,):
                alike.setdefault(cluster.shape(one), []).append(one)
    return _in_turns(
        replace(first, stands_for=tuple(case.name for case in others)) for first, *others in alike.values()
    )


def select(cases: Sequence[Case], globs: Sequence[str]) -> tuple[Case, ...]:
    """The cases whose names, with or without `.roles-...`, match one of the globs.

    Raises UsageError for a glob that matches none.
    """
    for glob in globs:
        if any(_matches(case.name, glob) for case in cases):
            continue
        alike = [case.name for case in cases if any(_matches(name, glob) for name in case.stands_for)]
        if alike:
            raise UsageError(
                f"--faults {glob!r} matches only faults that are not run, because they are equivalent to "
                f"others; name these instead: {', '.join(alike)}."
            )
        raise UsageError(
            f"--faults {glob!r} matches no fault of this cluster; `acked assess --list` shows the names."
        )
    return tuple(case for case in cases if any(_matches(case.name, glob) for glob in globs))


def _matches(name: str, glob: str) -> bool:
    return any(fnmatch.fnmatchcase(one, glob) for one in (name, name.partition(".roles-")[0]))


def within_budget(
    cases: Sequence[Case], seconds: Callable[[Sequence[Case]], float], budget_s: float
) -> tuple[Case, ...]:
    """The first cases, as many as fit into a time; at least one.

    ``seconds`` is how long some of them take together.
    """
    for count in range(len(cases), 1, -1):
        if seconds(cases[:count]) <= budget_s:
            return tuple(cases[:count])
    return tuple(cases[:1])


def _in_turns(cases: Iterable[Case]) -> tuple[Case, ...]:
    """First one case of every kind of fault, then the second one of each, and so on."""
    turns: Counter[tuple[str, str]] = Counter()
    ranked: list[tuple[int, int, Case]] = []
    for case in cases:
        sort = (case.kind, _role_of(case))
        first_turn = 2 if case.placement.at == "isolated AZ" else 1
        ranked.append((turns[sort] // first_turn, case.placement.rank, case))
        turns[sort] += 1
    return tuple(case for *_, case in sorted(ranked, key=lambda entry: entry[:2]))


def _role_of(case: Case) -> str:
    return case.steps[0].targets[0].rstrip("0123456789") if case.placement.at == "node" else ""


@dataclass(frozen=True)
class _Roles:
    """Where controller and quorum leader are; ``where`` names the place in the case's name."""

    where: str
    controller: str
    quorum_leader: str


class _Cluster:
    def __init__(self, topology: Topology, mode: str) -> None:
        self.topology, self.mode = topology, mode
        self.azs = topology.azs
        self.brokers = topology.role("broker")
        self.quorum_role = {"zookeeper": "zookeeper", "kraft": "controller"}.get(mode, "broker")
        self.quorum = topology.role(self.quorum_role)
        self.controllers = self.brokers if mode == "zookeeper" else self.quorum

    def hosts(self, az: str, *roles: str) -> tuple[Host, ...]:
        return tuple(host for host in self.topology.hosts if host.az == az and host.role in roles)

    def processes(self, az: str) -> tuple[Host, ...]:
        """Nodes of the cluster in an AZ, those of the metadata quorum first."""
        return (*self.hosts(az, "zookeeper", "controller"), *self.hosts(az, "broker"))

    def kinds(self) -> dict[str, tuple[Host, ...]]:
        """Hosts by the kind of node that they are."""
        return {"broker": self.brokers, self.quorum_role: self.quorum}

    def name(self, az: str) -> str:
        return self.topology.az_name(az)

    def placements(self) -> Iterator[_Roles]:
        """One placement per AZ, with the roles that it can have; others are in the first AZ that can."""
        for az in self.azs:
            controller = next((host for host in self.controllers if host.az == az), None)
            quorum = next((host for host in self.quorum if host.az == az), None)
            if controller or (quorum and self.mode == "zookeeper"):
                yield self.roles(self.name(az), controller or self.controllers[0], quorum or self.quorum[0])

    def roles(self, where: str, controller: Host, quorum_leader: Host) -> _Roles:
        return _Roles(where, controller.name, quorum_leader.name if self.mode == "zookeeper" else "")

    def inside_and_outside(self, azs: Sequence[str]) -> Iterator[_Roles]:
        """The first placement inside these AZs, and the first one outside."""
        names = {self.name(az) for az in azs}
        for inside in (True, False):
            fitting = (roles for roles in self.placements() if (roles.where in names) is inside)
            yield from itertools.islice(fitting, 1)

    def dropped(self, roles: _Roles, cut: Sequence[str]) -> str:
        """The one of two AZs whose ZooKeeper nodes leave the quorum if they are cut; empty if neither is."""
        if self.mode != "zookeeper" or len(cut) != _A_PAIR:
            return ""
        leading = self.topology.host(roles.quorum_leader).az
        if leading not in cut:
            return ""
        other = next(az for az in cut if az != leading)
        for az in (other, leading):
            if 2 * sum(node.az != az for node in self.quorum) > len(self.quorum):
                return az
        return ""

    def session(self, broker: Host, cut: Sequence[str] = (), dropped: str = "") -> str:
        """The ZooKeeper node of a broker's session: in its own AZ, or in the next one that has any.

        With an AZ that is ``dropped`` it is, where possible, a node that stays in the quorum.
        """
        start = self.azs.index(broker.az)
        azs = [az for az in (*self.azs[start:], *self.azs[:start]) if self.hosts(az, "zookeeper")]
        lasting = [az for az in azs if az != dropped and {az, broker.az} != set(cut)]
        nodes = self.hosts((lasting or azs)[0], "zookeeper")
        return nodes[self.hosts(broker.az, "broker").index(broker) % len(nodes)].name

    def at_risk(self, cut: Sequence[str], dropped: str) -> tuple[Host, ...]:
        """Brokers in the AZ that is dropped, if it has ZooKeeper nodes and they can reach others as well."""
        elsewhere = any(node.az not in cut for node in self.quorum)
        own = dropped and self.hosts(dropped, "zookeeper")
        return self.hosts(dropped, "broker") if own and elsewhere else ()

    def case(
        self,
        placement: Placement,
        steps: Sequence[Step],
        roles: _Roles,
        parts: Mapping[str, str],
        *,
        label: str = "",
        says: Sequence[object] = (),
        subject: Sequence[object] | None = None,
        cut: Sequence[str] = (),
    ) -> Case:
        """``says`` and ``subject`` are the names in the placement's texts, the same unless both are given.

        ``cut`` are the two AZs between which the fault is, if it is between two.
        """
        value = placement.value
        kind = placement.name or steps[-1].fault
        dropped = self.dropped(roles, cut)

        def hit(host: str) -> bool:
            return bool(host) and (host in parts or self.topology.host(host).az in parts)

        return Case(
            name=f"{kind}{'-' if label else ''}{label}.roles-{roles.where}",
            says=placement.says.format(*says, value=value),
            subject=placement.subject.format(*(says if subject is None else subject), value=value),
            placement=placement,
            steps=tuple(steps),
            controller=roles.controller,
            quorum_leader=roles.quorum_leader,
            inside=tuple(broker.name for broker in self.brokers if hit(broker.name)),
            controller_inside=hit(roles.controller),
            quorum_leader_inside=hit(roles.quorum_leader),
            sessions={broker.name: self.session(broker, cut, dropped) for broker in self.brokers}
            if self.mode == "zookeeper"
            else {},
            sessions_of=self.name(dropped) if self.at_risk(cut, dropped) else "",
            parts=parts,
        )

    def with_sessions_lost(self, case: Case, roles: _Roles, cut: Sequence[str]) -> Iterator[Case]:
        """The same with brokers that lose their sessions, if they would keep them otherwise."""
        losing = self.at_risk(cut, self.dropped(roles, cut))
        if losing:
            own = tuple(node.name for node in self.hosts(losing[0].az, "zookeeper"))
            yield replace(
                case,
                name=f"{case.name}.sessions-lost",
                sessions={**case.sessions, **{broker.name: self.session(broker) for broker in losing}},
                pins={broker.name: own for broker in losing},
            )

    def in_upgrade(self, case: Case, version: str) -> Iterator[Case]:
        """The case at every third of a rolling upgrade to a version."""
        hosts = tuple(host.name for host in order_of_upgrade(self.topology, self.mode, case.controller))
        for count in sorted({math.ceil(len(hosts) * third / _THIRDS) for third in range(1, _THIRDS + 1)}):
            upgraded = Upgraded(to=version, hosts=hosts[:count], nodes=len(hosts))
            yield replace(
                case,
                name=f"{case.name}.{count}-of-{len(hosts)}",
                says=f"{case.says}, {upgraded}",
                subject=f"{case.subject} with {upgraded}",
                upgraded=upgraded,
            )

    def shape(self, case: Case) -> object:
        """What two equivalent cases have in common: everything except names."""

        def of_host(host: Host) -> tuple[object, ...]:
            part = case.parts.get(host.name, "")
            roles = host.name == case.controller, host.name == case.quorum_leader
            upgraded = case.upgraded is not None and host.name in case.upgraded.hosts
            return host.role, part, *roles, of_session(host), host.name in case.pins, upgraded

        def of_session(host: Host) -> tuple[object, ...]:
            if host.name not in case.sessions:
                return ()
            node = self.topology.host(case.sessions[host.name])
            parts = case.parts.get(node.az, ""), case.parts.get(node.name, "")
            return *parts, node.name == case.quorum_leader, node.az == host.az

        azs = (
            (
                case.parts.get(az, ""),
                *sorted((of_host(host) for host in self.topology.hosts if host.az == az), key=repr),
            )
            for az in self.azs
        )
        third = len(case.upgraded.hosts) if case.upgraded else 0
        return case.kind, third, tuple(sorted(azs, key=repr))


_Recipe = Callable[[_Cluster, type[ScheduledFault], Placement], Iterator[Case]]


def _step(fault: type[ScheduledFault], placement: Placement, hosts: Iterable[str]) -> Step:
    return Step(fault=fault.mechanism, targets=tuple(hosts), value=placement.value)


def _isolated(cluster: _Cluster, fault: type[ScheduledFault], placement: Placement) -> Iterator[Case]:
    for az in cluster.azs if len(cluster.azs) > 1 else ():
        name = cluster.name(az)
        step = Step(fault=fault.mechanism, targets=(az,), toward=(OTHERS,), value=placement.value)
        for roles in _nearest_first(cluster, (az,)):
            yield cluster.case(placement, [step], roles, {az: "target"}, label=name, says=(name,))


def _of_az(cluster: _Cluster, fault: type[ScheduledFault], placement: Placement) -> Iterator[Case]:
    for az in cluster.azs if len(cluster.azs) > 1 else ():
        if cluster.hosts(az, *placement.roles):
            name, hosts = cluster.name(az), [host.name for host in cluster.processes(az)]
            step = _step(fault, placement, hosts)
            for roles in cluster.inside_and_outside((az,)):
                yield cluster.case(placement, [step], roles, {az: "target"}, label=name, says=(name,))


def _of_all(cluster: _Cluster, fault: type[ScheduledFault], placement: Placement) -> Iterator[Case]:
    hosts = [host.name for az in cluster.azs for host in cluster.processes(az)]
    parts = dict.fromkeys(cluster.azs, "target")
    yield cluster.case(placement, [_step(fault, placement, hosts)], next(cluster.placements()), parts)


def _between(cluster: _Cluster, fault: type[ScheduledFault], placement: Placement) -> Iterator[Case]:
    azs = [az for az in cluster.azs if not placement.roles or cluster.hosts(az, *placement.roles)]
    for one, other in itertools.combinations(azs, 2):
        step = Step(fault=fault.mechanism, targets=(one,), toward=(other,), value=placement.value)
        parts = {one: "end", other: "end"}
        yield from _of_two(cluster, placement, step, parts, cluster.inside_and_outside((one, other)))


def _one_way(cluster: _Cluster, fault: type[ScheduledFault], placement: Placement) -> Iterator[Case]:
    for one, other in itertools.permutations(cluster.azs, 2):
        step = Step(fault=fault.mechanism, targets=(one,), toward=(other,), arrow="->", value=placement.value)
        parts = {one: "source", other: "destination"}
        both = cluster.hosts(one, "broker") and cluster.hosts(other, "broker")
        nearest = _nearest_first(cluster, (one, other))[: 3 if both else 1]
        yield from _of_two(cluster, placement, step, parts, nearest)


def _of_two(
    cluster: _Cluster,
    placement: Placement,
    step: Step,
    parts: Mapping[str, str],
    placements: Iterable[_Roles],
) -> Iterator[Case]:
    """The cases of a step between two AZs, then the same with ZooKeeper sessions that are lost."""
    cut = (*step.targets, *step.toward)
    names = [cluster.name(az) for az in cut]
    lost: list[Case] = []
    for roles in placements:
        case = cluster.case(placement, [step], roles, parts, label="-".join(names), says=names, cut=cut)
        yield case
        lost += cluster.with_sessions_lost(case, roles, cut) if placement.parts_sessions else ()
    yield from lost


def _of_cluster(cluster: _Cluster, fault: type[ScheduledFault], placement: Placement) -> Iterator[Case]:
    """The fault while two AZs are cut from each other, which lasts at least as long."""
    step = _step(fault, placement, ())
    azs = [az for az in cluster.azs if cluster.hosts(az, *placement.roles)]
    for one, other in itertools.combinations(azs, 2):
        names = cluster.name(one), cluster.name(other)
        yield cluster.case(
            placement,
            [Step(fault="cut", targets=(one,), toward=(other,)), step],
            next(cluster.inside_and_outside((one, other))),
            {one: "end", other: "end"},
            label="-".join(names),
            says=(f" while {names[0]} and {names[1]} are cut",),
            cut=(one, other),
        )
    if len(azs) == 1:
        yield cluster.case(placement, [step], next(cluster.placements()), {}, says=("",))


def _of_nodes(cluster: _Cluster, fault: type[ScheduledFault], placement: Placement) -> Iterator[Case]:
    """The first node of each kind, with its role and without it."""
    for kind, nodes in cluster.kinds().items():
        node = nodes[0]
        for roles in _here_and_elsewhere(cluster, node) if kind in placement.roles else ():
            yield cluster.case(
                placement,
                [_step(fault, placement, [node.name])],
                roles,
                {node.name: "target"},
                label=node.name,
                says=(node.name + _duty(node, roles),),
                subject=(node.name,),
            )


def _duty(node: Host, roles: _Roles) -> str:
    if node.role == "zookeeper":
        return " (leader)" if node.name == roles.quorum_leader else " (follower)"
    if node.role == "controller":
        return " (active)" if node.name == roles.controller else " (standby)"
    return " (controller)" if node.name == roles.controller else ""


def _here_and_elsewhere(cluster: _Cluster, node: Host) -> Iterator[_Roles]:
    """The node with the role that it can have, and without it; other roles are in another AZ if possible."""

    def elsewhere(hosts: Sequence[Host]) -> Host | None:
        return min(
            (host for host in hosts if host != node), key=lambda host: host.az == node.az, default=None
        )

    controller, quorum_leader = elsewhere(cluster.controllers), elsewhere(cluster.quorum)
    if node.role == "zookeeper":
        controller = controller or cluster.controllers[0]
        yield cluster.roles("here", controller, node)
        if quorum_leader:
            yield cluster.roles("elsewhere", controller, quorum_leader)
        return
    quorum_leader = quorum_leader or cluster.quorum[0]
    if node in cluster.controllers:
        yield cluster.roles("here", node, quorum_leader)
    if controller:
        yield cluster.roles("elsewhere", controller, quorum_leader)


def _of_quorum(cluster: _Cluster, fault: type[ScheduledFault], placement: Placement) -> Iterator[Case]:
    roles = next(cluster.placements())
    leader = roles.quorum_leader or roles.controller
    nodes = sorted(cluster.quorum, key=lambda host: (host.name != leader, host.node_id))
    lost = [host.name for host in nodes[: (len(nodes) + 1) // 2]]
    parts = dict.fromkeys(lost, "target")
    says = (len(lost), len(nodes))
    yield cluster.case(placement, [_step(fault, placement, lost)], roles, parts, says=says)


def _of_leaders(cluster: _Cluster, fault: type[ScheduledFault], placement: Placement) -> Iterator[Case]:
    for roles in itertools.islice(cluster.placements(), 1 if cluster.mode == "zookeeper" else 0):
        hosts = (roles.quorum_leader, roles.controller)
        yield cluster.case(placement, [_step(fault, placement, hosts)], roles, dict.fromkeys(hosts, "target"))


def _nearest_first(cluster: _Cluster, azs: Sequence[str]) -> list[_Roles]:
    """All placements, those inside the AZs first, in the order of the AZs."""
    names = [cluster.name(az) for az in azs]
    return sorted(
        cluster.placements(),
        key=lambda roles: names.index(roles.where) if roles.where in names else len(names),
    )


_RECIPES: Mapping[Shape, _Recipe] = MappingProxyType(
    {
        "isolated AZ": _isolated,
        "AZ": _of_az,
        "all AZs": _of_all,
        "two AZs": _between,
        "one way": _one_way,
        "half of the quorum": _of_quorum,
        "node": _of_nodes,
        "both leaders": _of_leaders,
        "cluster": _of_cluster,
    }
)
