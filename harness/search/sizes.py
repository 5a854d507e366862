"""How large a schedule is, and whether it is a part of another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from harness.lab.model import Topology
from harness.search.faults import KINDS
from harness.search.schedule import (
    AZ_OF,
    OTHER_AZS,
    OTHER_CONTROLLERS,
    OTHERS,
    ROLES,
    SIDES,
    Group,
    Member,
    Moment,
    Producer,
    Schedule,
    Step,
    TopicPlan,
)
from harness.search.space import quorum_of

T = TypeVar("T")
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
        + sum(_producer_size(one) for one in schedule.producers)
        + sum(_topic_size(topic) for topic in schedule.topics)
        + sum(_group_size(group) for group in schedule.groups)
    )


def _step_size(step: Step, topology: Topology) -> int:
    aims = sum(name_size(name, topology) for name in (*step.targets, *step.toward))
    values = KINDS[step.fault].values
    strength = values.index(step.value) if step.value in values else len(values)
    return (
        # More than producers can grow when a removal renumbers the steps at which they start or stop.
        10_000
        + 10 * aims
        + (step.arrow == "<->")
        + strength
        + _moment_size(step.when)
        + (_moment_size(step.until) if KINDS[step.fault].lasts else 0)
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
    return 200 + sum(200 + 60 * (one.starts > 0) + 60 * (one.stops > 0) for one in group.members)


def _topic_size(topic: TopicPlan) -> int:
    changed = topic.min_insync != min(PLAIN.min_insync, topic.replicas)
    return 500 + 100 * topic.partitions + 2 * topic.unclean + changed


def within(small: Schedule, large: Schedule, topology: Topology) -> bool:
    """Whether a schedule is part of another one: it has nothing that the other one lacks."""
    return (
        _steps_within(small.steps, large.steps, topology)
        and _some_of(small.producers, large.producers, _producer_within)
        and _some_of(small.topics, large.topics, _topic_within)
        and _some_of(small.groups, large.groups, _group_within)
    )


def _some_of(few: tuple[T, ...], many: tuple[T, ...], fits: Callable[[T, T], bool]) -> bool:
    """Whether each of ``few`` fits a different one of ``many``, in the same order."""
    left = iter(many)
    return all(any(fits(one, other) for other in left) for one in few)


def _steps_within(few: tuple[Step, ...], many: tuple[Step, ...], topology: Topology) -> bool:
    """Whether each of ``few`` fits a different one of ``many``, in the same order.

    A step may take over the time, or the event, of steps that ``few`` lacks in front of it.
    """
    ends = {0}  # how many of ``many`` are used up by the steps so far, in every possible way
    for one in few:
        ends = {
            place + 1
            for end in ends
            for place in range(end, len(many))
            if _step_within(one, many[place], topology)
            and one.when.after_s <= round(sum(step.when.after_s for step in many[end : place + 1]), 1)
            and one.when.event in ("", *(step.when.event for step in many[end : place + 1]))
        }
    return bool(ends)


def _step_within(one: Step, other: Step, topology: Topology) -> bool:
    return (
        one.fault == other.fault
        and _hosts_within(one.targets, other.targets, topology)
        and _hosts_within(one.toward, other.toward, topology)
        and other.arrow in (one.arrow, "<->")
        and one.until.after_s <= max(SHORTEST_S, other.until.after_s)
        and one.until.event in ("", other.until.event)
        and (one.value == other.value or one.value in KINDS[one.fault].values)
    )


def _hosts_within(few: tuple[str, ...], many: tuple[str, ...], topology: Topology) -> bool:
    covered = set(many)
    ahead = list(many)
    while ahead:
        inner = parts(ahead.pop(), topology)
        ahead += [name for name in inner if name not in covered]
        covered.update(inner)
    return set(few) <= covered


def _producer_within(one: Producer, other: Producer) -> bool:
    return (
        one.az == other.az
        and one.acks in (-1, other.acks)
        and (one.idempotent or not other.idempotent)
        and one.transactional <= other.transactional
        and (one.succeeds > 0) <= (other.succeeds > 0)
        and one.in_flight <= other.in_flight
        and one.starts <= other.starts
        and (one.stops == 0 or one.stops <= other.stops)
    )


def _group_within(one: Group, other: Group) -> bool:
    return one.topic <= other.topic and _some_of(one.members, other.members, _member_within)


def _member_within(one: Member, other: Member) -> bool:
    return one.az == other.az and one.starts <= other.starts and (one.stops == 0 or one.stops <= other.stops)


def _topic_within(one: TopicPlan, other: TopicPlan) -> bool:
    return one.name == other.name and one.partitions <= other.partitions and one.unclean <= other.unclean
