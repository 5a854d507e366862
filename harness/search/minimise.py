"""Making a schedule smaller as long as it still shows something: delta debugging, without any run.

`shrink` is given a test and calls it with ever smaller schedules. Steps are removed first, in halves and then
one by one; afterwards every single reduction is tried (`reductions`) until none passes any more: the result
is 1-minimal. Every reduction has a smaller `size`, a natural number, so that shrinking ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from harness.lab.model import Topology
from harness.search.faults import KINDS
from harness.search.schedule import (
    AZ_OF,
    OTHER_AZS,
    OTHERS,
    ROLES,
    Moment,
    Producer,
    Schedule,
    Step,
    TopicPlan,
    problems,
)

T = TypeVar("T")
SHORTEST_S = 1.0
"""Durations are halved down to this."""
_PLAIN = TopicPlan(name="", min_insync=2)
_TENTHS = 10


def shrink(
    schedule: Schedule,
    topology: Topology,
    passes: Callable[[Schedule], bool],
    *,
    steps_only: bool = False,
) -> Schedule:
    """The smallest schedule that was found to pass. ``schedule`` itself is assumed to pass.

    ``passes`` is called only once for each schedule, and its answers are remembered. With ``steps_only``,
    only steps are removed.
    """
    known: dict[str, bool] = {schedule.digest: True}

    def test(candidate: Schedule) -> bool:
        if candidate.digest not in known:
            known[candidate.digest] = passes(candidate)
        return known[candidate.digest]

    current = _without_chunks(schedule, test)
    first = 0
    while True:
        smaller = _fewer_steps(current) if steps_only else reductions(current, topology)
        for place, candidate in enumerate(smaller):
            if place >= first and test(candidate):
                # What came before did not pass a moment ago; it is tried again at the end.
                current, first = candidate, place
                break
        else:
            if first == 0:
                return current
            first = 0


def _without_chunks(schedule: Schedule, test: Callable[[Schedule], bool]) -> Schedule:
    """Remove runs of steps, of half the steps first, down to single ones."""
    current, length = schedule, len(schedule.steps) // 2
    while length >= 1:
        place = 0
        while place < len(current.steps):
            candidate = without_steps(current, place, place + length)
            if test(candidate):
                current = candidate
            else:
                place += length
        length //= 2
    return current


def without_steps(schedule: Schedule, first: int, end: int) -> Schedule:
    """The schedule without some steps; producers that refer to one now refer to the step before it."""
    end = min(end, len(schedule.steps))

    def moved(number: int) -> int:
        """The number that a step has afterwards; for a removed step, that of the previous one."""
        return number if number <= first else max(first, number - (end - first))

    producers = []
    for one in schedule.producers:
        starts = moved(one.starts)
        stops = moved(one.stops) if one.stops else 0
        if one.stops and stops <= starts:
            continue  # it would stop before anything has happened
        producers.append(replace(one, starts=starts, stops=stops))
    steps = (*schedule.steps[:first], *schedule.steps[end:])
    return replace(schedule, steps=steps, producers=tuple(producers) or _always(schedule.producers))


def _always(producers: tuple[Producer, ...]) -> tuple[Producer, ...]:
    return (replace(producers[0], starts=0, stops=0),)


def reductions(schedule: Schedule, topology: Topology) -> Iterator[Schedule]:
    """Every schedule that is smaller by one change, the largest changes first; all of them are valid."""
    for candidate in _reductions(schedule, topology):
        if not any(problems(candidate)) and size(candidate, topology) < size(schedule, topology):
            yield candidate


def _reductions(schedule: Schedule, topology: Topology) -> Iterator[Schedule]:
    yield from _fewer_steps(schedule)
    if len(schedule.producers) > 1:
        for place in range(len(schedule.producers)):
            rest = (*schedule.producers[:place], *schedule.producers[place + 1 :])
            yield replace(schedule, producers=rest)
    yield from _fewer_partitions(schedule)
    for place, step in enumerate(schedule.steps):
        for smaller in _smaller_steps(step, topology):
            steps = (*schedule.steps[:place], smaller, *schedule.steps[place + 1 :])
            yield replace(schedule, steps=steps)
    for place, one in enumerate(schedule.producers):
        for plainer in _plainer_producers(one):
            rest = (*schedule.producers[:place], plainer, *schedule.producers[place + 1 :])
            yield replace(schedule, producers=rest)
    for place, topic in enumerate(schedule.topics):
        for plain in _plainer_topics(topic):
            topics = (*schedule.topics[:place], plain, *schedule.topics[place + 1 :])
            yield replace(schedule, topics=topics)


def _fewer_steps(schedule: Schedule) -> Iterator[Schedule]:
    for place in range(len(schedule.steps)):
        yield without_steps(schedule, place, place + 1)


def _fewer_partitions(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules without one partition that no step is about, or without a whole topic of such partitions.

    Topics are cut from their ends, so that the leaders of the others stay what they are, as far as possible.
    """
    first = 0
    for place, topic in enumerate(schedule.topics):
        fewer = topic.partitions - 1
        if fewer:
            topics = (
                *schedule.topics[:place],
                replace(topic, partitions=fewer),
                *schedule.topics[place + 1 :],
            )
        else:
            topics = (*schedule.topics[:place], *schedule.topics[place + 1 :])
        gone = first + fewer
        first += topic.partitions
        if not topics:
            continue
        steps = tuple(
            replace(step, partition=max(0, step.partition - 1)) if step.partition >= gone else step
            for step in schedule.steps
        )
        yield replace(schedule, topics=topics, steps=steps)


def _smaller_steps(step: Step, topology: Topology) -> Iterator[Step]:
    for targets in _fewer_hosts(step.targets, topology):
        yield replace(step, targets=targets)
    for toward in _fewer_hosts(step.toward, topology):
        yield replace(step, toward=toward)
    if step.arrow == "<->":
        yield replace(step, arrow="->")
        yield replace(step, arrow="<-")
    if KINDS[step.fault].lasts:
        for until in _sooner(step.until, SHORTEST_S):
            yield replace(step, until=until)
    for when in _sooner(step.when, 0.0):
        yield replace(step, when=when)
    for value in KINDS[step.fault].values:
        if value != step.value:
            yield replace(step, value=value)


def _fewer_hosts(names: tuple[str, ...], topology: Topology) -> Iterator[tuple[str, ...]]:
    """Fewer names: one only, or all but one; or in place of a name, one of its parts, or all but one."""
    if len(names) > 2:
        yield from ((name,) for name in names)
    if len(names) > 1:
        for place in range(len(names)):
            yield (*names[:place], *names[place + 1 :])
    for place, name in enumerate(names):
        inner = parts(name, topology)
        choices: list[tuple[str, ...]] = [(one,) for one in inner]
        if len(inner) > 2:
            choices += [tuple(other for other in inner if other != one) for one in inner]
        for chosen in choices:
            kept = tuple(dict.fromkeys((*names[:place], *chosen, *names[place + 1 :])))
            if kept != names:
                yield kept


def parts(name: str, topology: Topology) -> tuple[str, ...]:
    """What a name stands for, one level down; empty for a single host."""
    if name == OTHERS:
        return (OTHER_AZS, *topology.azs)
    if name == OTHER_AZS:
        return topology.azs
    if name.startswith(AZ_OF):
        return (name.removeprefix(AZ_OF),)
    if name in ROLES:
        return ()
    hosts = tuple(host.name for host in topology.select(name))
    return () if hosts == (name,) else hosts


def _sooner(moment: Moment, shortest_s: float) -> Iterator[Moment]:
    """Earlier moments: after the shortest time, after half of the time, after a time instead of an event."""
    if moment.event:
        yield Moment(after_s=shortest_s)
        yield Moment(after_s=moment.after_s)
    half = round(moment.after_s / 2, 1)
    for after_s in dict.fromkeys((shortest_s, max(shortest_s, half))):
        if after_s < moment.after_s:
            yield replace(moment, after_s=after_s)


def _plainer_producers(one: Producer) -> Iterator[Producer]:
    if one.transactional:
        yield replace(one, transactional=False)
    if one.stops:
        yield replace(one, stops=0)
    if one.starts:
        yield replace(one, starts=0, stops=0)
    if one.in_flight > 1:
        yield replace(one, in_flight=1)
    if one.acks != -1:
        yield replace(one, acks=-1)
    if not one.idempotent and one.acks == -1:
        yield replace(one, idempotent=True, in_flight=min(one.in_flight, 5))


def _plainer_topics(topic: TopicPlan) -> Iterator[TopicPlan]:
    if topic.unclean:
        yield replace(topic, unclean=False)
    if topic.min_insync != min(_PLAIN.min_insync, topic.replicas):
        yield replace(topic, min_insync=min(_PLAIN.min_insync, topic.replicas))


def size(schedule: Schedule, topology: Topology) -> int:
    """How large a schedule is; every reduction lowers it."""
    return (
        sum(_step_size(step, topology) for step in schedule.steps)
        + sum(_producer_size(one) for one in schedule.producers)
        + sum(_topic_size(topic) for topic in schedule.topics)
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
    if name in (OTHERS, OTHER_AZS):
        return 4 * hosts + 2 * azs + (16 if name == OTHERS else 8)
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
        + 2 * (one.acks != -1)
        + (not one.idempotent)
        # With idempotence, five requests may be in flight; that many fit next to each other.
        + (one.in_flight > 1)
    )


def _topic_size(topic: TopicPlan) -> int:
    changed = topic.min_insync != min(_PLAIN.min_insync, topic.replicas)
    return 500 + 100 * topic.partitions + 2 * topic.unclean + changed


def within(small: Schedule, large: Schedule, topology: Topology) -> bool:
    """Whether a schedule is part of another one: it has nothing that the other one lacks."""
    return (
        _some_of(small.steps, large.steps, lambda one, other: _step_within(one, other, topology))
        and _some_of(small.producers, large.producers, _producer_within)
        and _some_of(small.topics, large.topics, _topic_within)
    )


def _some_of(few: tuple[T, ...], many: tuple[T, ...], fits: Callable[[T, T], bool]) -> bool:
    """Whether each of ``few`` fits a different one of ``many``, in the same order."""
    left = iter(many)
    return all(any(fits(one, other) for other in left) for one in few)


def _step_within(one: Step, other: Step, topology: Topology) -> bool:
    return (
        one.fault == other.fault
        and _hosts_within(one.targets, other.targets, topology)
        and _hosts_within(one.toward, other.toward, topology)
        and other.arrow in (one.arrow, "<->")
        and one.until.after_s <= max(SHORTEST_S, other.until.after_s)
        and one.until.event in ("", other.until.event)
        and one.when.after_s <= other.when.after_s
        and one.when.event in ("", other.when.event)
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
        and one.in_flight <= other.in_flight
        and one.starts <= other.starts
        and (one.stops == 0 or one.stops <= other.stops)
    )


def _topic_within(one: TopicPlan, other: TopicPlan) -> bool:
    return one.name == other.name and one.partitions <= other.partitions and one.unclean <= other.unclean
