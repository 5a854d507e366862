"""How large a schedule is."""

from __future__ import annotations

from harness.lab.model import Topology
from nemesis.catalogue import FAULTS
from studies.search.schedule import Group, Producer, Schedule, TopicPlan
from studies.steps.aims import quorum_of
from studies.steps.step import AZ_OF, OTHER_AZS, OTHER_CONTROLLERS, OTHERS, ROLES, SIDES, Moment, Step

SHORTEST_S = 1.0
"""Durations are halved down to this."""
PLAIN = TopicPlan(name="", min_insync=2)
"""The settings of topics that count as small."""
_TENTHS = 10


def parts(name: str, topology: Topology) -> tuple[str, ...]:
    """What a name stands for, one level down; empty for a single host."""
    if name == OTHERS:
        quorum = () if topology.role("zookeeper") else (OTHER_CONTROLLERS,)
        return (OTHER_AZS, *quorum, *topology.azs)
    if name == OTHER_AZS:
        return topology.azs
    if name == OTHER_CONTROLLERS:
        return tuple(host.name for host in quorum_of(topology))
    if name.startswith(AZ_OF):
        return (name.removeprefix(AZ_OF),)
    if name in ROLES:
        return ()
    hosts = tuple(host.name for host in topology.select(name))
    return () if hosts == (name,) else hosts


def size(schedule: Schedule, topology: Topology) -> int:
    """How large a schedule is; every reduction lowers it."""
    return (
        sum(_step_size(step, topology) for step in schedule.steps)
        + sum(_producer_size(producer) for producer in schedule.producers)
        + sum(_topic_size(topic) for topic in schedule.topics)
        + sum(_group_size(group) for group in schedule.groups)
    )


def _step_size(step: Step, topology: Topology) -> int:
    aims = sum(name_size(name, topology) for name in (*step.targets, *step.toward))
    values = sorted(FAULTS[step.fault].values, key=abs)
    strength = values.index(step.value) if step.value in values else len(values)
    return (
        # More than producers can grow when a removal renumbers the steps at which they start or stop.
        10_000
        + 10 * aims
        + (step.arrow == "<->")
        + strength
        + _moment_size(step.when)
        + (_moment_size(step.until) if FAULTS[step.fault].lasts else 0)
        + step.partition
    )


def _moment_size(moment: Moment) -> int:
    return round(moment.after_s * _TENTHS) + (20 if moment.event else 0)


def name_size(name: str, topology: Topology) -> int:
    """The weight of a name by the hosts that it stands for; names of its parts weigh less."""
    hosts, azs = len(topology.hosts), len(topology.azs)
    if name in SIDES:
        return 4 * hosts + 2 * azs + 8 * (len(SIDES) - SIDES.index(name))
    if name.startswith(AZ_OF):
        return 4 * hosts + 2
    if name in ROLES:
        return 4
    inner = topology.select(name)
    return 4 if tuple(host.name for host in inner) == (name,) else 4 * len(inner) + 2


def _producer_size(one: Producer) -> int:
    return (
        1_000
        + 60 * (one.starts > 0)
        + 60 * (one.stops > 0)
        + 4 * one.transactional
        + 60 * (one.succeeds > 0)
        + 2 * (one.acks != -1)
        + (not one.idempotent)
        # With idempotence, five requests may be in flight; that many fit next to each other.
        + (one.in_flight > 1)
    )


def _group_size(group: Group) -> int:
    members = sum(200 + 60 * (member.starts > 0) + 60 * (member.stops > 0) for member in group.members)
    return 200 + members + len(group.answers)


def _topic_size(topic: TopicPlan) -> int:
    changed = topic.min_insync != min(PLAIN.min_insync, topic.replicas)
    return 500 + 100 * topic.partitions + 2 * topic.unclean + changed
