"""Whether a schedule is part of another one: what every reduction of `acked shrink` must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from harness.lab.model import Topology
from nemesis.catalogue import FAULTS
from studies.search.schedule import Group, Member, Producer, Schedule, TopicPlan
from studies.search.sizes import SHORTEST_S, parts
from studies.steps.step import Step

T = TypeVar("T")


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
        and (one.value == other.value or one.value in FAULTS[one.fault].values)
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
    return (
        one.topic <= other.topic
        and bool(one.answers) == bool(other.answers)
        and one.answers == other.answers[: len(one.answers)]
        and _some_of(one.members, other.members, _member_within)
    )


def _member_within(one: Member, other: Member) -> bool:
    return one.az == other.az and one.starts <= other.starts and (one.stops == 0 or one.stops <= other.stops)


def _topic_within(one: TopicPlan, other: TopicPlan) -> bool:
    return one.name == other.name and one.partitions <= other.partitions and one.unclean <= other.unclean
