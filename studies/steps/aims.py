"""Which hosts the names of a schedule mean at the moment when a step begins."""

from __future__ import annotations

from collections.abc import Callable

from harness.errors import InvalidRunError
from harness.kafka.model import OFFSETS_LOG, SHARE_LOG, TRANSACTION_LOG, TopicPartition, broker_name
from harness.lab.model import Host, Topology
from harness.zookeeper.four_letter import mode
from nemesis.network import links
from nemesis.network.links import Link
from run.stage import Stage
from studies.steps.step import AZ_OF, OTHER_AZS, OTHER_CONTROLLERS, OTHERS, ROLES, Step

TRANSACTIONS = TopicPartition(TRANSACTION_LOG, 0)
"""The log of all transactions; its leader coordinates them."""
OFFSETS = TopicPartition(OFFSETS_LOG, 0)
"""The log of all committed offsets; its leader coordinates the groups."""
_COORDINATED = {
    "coordinator": (TRANSACTIONS, "transactions"),
    "group-coordinator": (OFFSETS, "groups"),
    "share-coordinator": (TopicPartition(SHARE_LOG, 0), "the states of share groups"),
}
"""By role: the log that its holder leads, and what it coordinates."""


Holder = Callable[[str], str]
"""The name of the host that has a role now. Raises InvalidRunError for a role that nobody has."""


def hosts_of(stage: Stage, names: tuple[str, ...], key: TopicPartition) -> tuple[Host, ...]:
    """The hosts that names mean now, each once; ``key`` is the partition whose leader a role is about.

    Raises InvalidRunError for a role that nobody has.
    """
    return hosts_named(stage.lab.topology, names, lambda role: _holder(stage, role, key))


def links_of(stage: Stage, step: Step, key: TopicPartition) -> tuple[Link, ...]:
    """The links between the two sides of a step. Raises InvalidRunError if there is none."""
    topology = stage.lab.topology
    return links_between(*sides_of(topology, step, lambda role: _holder(stage, role, key)), step)


def hosts_named(topology: Topology, names: tuple[str, ...], holder: Holder) -> tuple[Host, ...]:
    """The hosts that names mean, each once. Raises InvalidRunError for a role that nobody has."""
    hosts: dict[str, Host] = {}
    for name in names:
        role = name.removeprefix(AZ_OF)
        if role not in ROLES:
            chosen = topology.select(name)
        else:
            found = topology.host(holder(role))
            chosen = topology.select(found.az) if name.startswith(AZ_OF) else (found,)
        hosts |= {host.name: host for host in chosen}
    return tuple(hosts.values())


def sides_of(topology: Topology, step: Step, holder: Holder) -> tuple[tuple[Host, ...], tuple[Host, ...]]:
    """Both sides of the links of a step."""
    one = hosts_named(topology, step.targets, holder)
    azs = {host.az for host in one}
    other: tuple[Host, ...] = ()
    for name in step.toward:
        if name == OTHERS:
            other += tuple(host for host in topology.hosts if host not in one)
        elif name == OTHER_AZS:
            other += tuple(host for host in topology.hosts if host.az not in azs)
        elif name == OTHER_CONTROLLERS:
            other += tuple(host for host in quorum_of(topology) if host not in one)
        else:
            other += hosts_named(topology, (name,), holder)
    return one, tuple(dict.fromkeys(other))


def links_between(one: tuple[Host, ...], other: tuple[Host, ...], step: Step) -> tuple[Link, ...]:
    """The links between two sides, in the direction of a step. Raises InvalidRunError if there is none."""
    forward = [Link(a.name, b.name) for a in one for b in other if a != b]
    chosen = {
        "->": forward,
        "<-": [Link(link.destination, link.source) for link in forward],
        "<->": [*forward, *(Link(link.destination, link.source) for link in forward)],
    }[step.arrow]
    if not chosen:
        raise InvalidRunError("both sides of the link are the same host")
    return links.ordered(chosen)


def quorum_of(topology: Topology) -> tuple[Host, ...]:
    """The members of the KRaft quorum: dedicated controllers, or else the brokers."""
    return tuple(topology.role("controller") or topology.role("broker"))


def _holder(stage: Stage, role: str, key: TopicPartition) -> str:
    """Name of the host that has a role now, by what the observer saw last."""
    if role == "controller":
        return _controller(stage)
    if role == "quorum-leader":
        for node in stage.lab.topology.role("zookeeper"):
            if mode(node.zookeeper_endpoint) in ("leader", "standalone"):
                return node.name
        raise InvalidRunError("no ZooKeeper node leads")
    view = stage.observer.views.of(source_of(stage))
    if role in _COORDINATED:
        log_key, what = _COORDINATED[role]
        log = view.partition(*log_key)
        if log is None or log.leader < 0:
            raise InvalidRunError(f"no broker coordinates {what}")
        return broker_name(log.leader)
    state = view.partition(*key)
    if state is None or state.leader < 0:
        raise InvalidRunError(f"{key} has no leader")
    if role == "leader":
        return broker_name(state.leader)
    replicas = next(topic for topic in stage.setup.topics if topic.name == key.topic).assignment
    others = [member for member in replicas[key.partition] if member != state.leader]
    if not others:
        raise InvalidRunError(f"{key} has no follower")
    return broker_name(others[0])


def _controller(stage: Stage) -> str:
    number = controller_seen(stage)
    for host in stage.lab.topology.hosts:
        if host.node_id == number and host.role in ("broker", "controller"):
            return host.name
    raise InvalidRunError("no controller is active")


def controller_seen(stage: Stage) -> int | None:
    """Node id of the controller by what the observer saw last."""
    kind = "zookeeper" if stage.cluster.mode == "zookeeper" else "controller"
    return stage.observer.views.of(kind).controller()


def source_of(stage: Stage) -> str:
    """The kind of node whose statements about partitions count."""
    return "zookeeper" if stage.cluster.mode == "zookeeper" else "broker"
