"""Making a schedule smaller as long as it still shows something: delta debugging, without any run.

`shrink` is given a test and calls it with ever smaller schedules. Steps are removed first, in halves and then
one by one; afterwards every single reduction is tried (`reductions`) until none passes any more: the result
is 1-minimal. Every reduction has a smaller `size`, a natural number, so that shrinking ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from harness.lab.model import Topology
from nemesis.catalogue import FAULTS
from studies.search.rules import chosen_producers, mended, problems
from studies.search.schedule import Group, Member, Producer, Schedule, TopicPlan
from studies.search.sizes import PLAIN, SHORTEST_S, parts, size
from studies.steps.step import LONGEST_S, Moment, Step


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
    answers: dict[str, bool] = {schedule.digest: True}

    def test(candidate: Schedule) -> bool:
        if candidate.digest not in answers:
            answers[candidate.digest] = passes(candidate)
        return answers[candidate.digest]

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
            for candidate in _without(current, place, place + length):
                if test(candidate):
                    current = candidate
                    break
            else:
                place += length
        length //= 2
    return current


def without_steps(schedule: Schedule, first: int, end: int, *, on_time: bool = False) -> Schedule:
    """The schedule without some steps; producers that refer to one now refer to the step before it.

    With ``on_time``, the next step still begins when it did, as far as known. Otherwise it begins earlier,
    because its time counts from the beginning of the step before it.
    """
    end = min(end, len(schedule.steps))

    def moved(number: int) -> int:
        """The number that a step has afterwards; for a removed step, that of the previous one."""
        return number if number <= first else max(first, number - (end - first))

    def of(one: Producer | Member) -> tuple[int, int] | None:
        """Where a client starts and stops; None: it would stop before anything has happened."""
        starts, stops = moved(one.starts), moved(one.stops)
        return None if one.stops and stops <= starts else (starts, stops)

    spans = [of(producer) for producer in schedule.producers]
    left = [place for place, span in enumerate(spans) if span is not None]
    producers = tuple(
        replace(one, starts=span[0], stops=span[1]) if span is not None else one
        for one, span in zip(schedule.producers, spans, strict=True)
    )
    groups = tuple(
        replace(
            group,
            members=tuple(
                replace(one, starts=span[0], stops=span[1])
                for one in group.members
                if (span := of(one)) is not None
            ),
        )
        for group in schedule.groups
    )
    after = schedule.steps[end:]
    if on_time and after:
        when = _one_after_the_other([step.when for step in schedule.steps[first : end + 1]])
        after = (replace(after[0], when=when), *after[1:])
    steps = (*schedule.steps[:first], *after)
    chosen = chosen_producers(producers, left) or _always(schedule.producers)
    return replace(schedule, steps=steps, producers=mended(chosen), groups=groups)


def _one_after_the_other(moments: Sequence[Moment]) -> Moment:
    """When the last of several moments comes, if nothing happens at the others.

    Only one event can be waited for: the last one. The time after it is lost; times before it may be spent
    waiting for it.
    """
    total = moments[0]
    for moment in moments[1:]:
        if moment.event:
            total = moment
        elif not total.event:
            total = Moment(after_s=min(LONGEST_S, round(total.after_s + moment.after_s, 1)))
    return total


def _always(producers: tuple[Producer, ...]) -> tuple[Producer, ...]:
    return (replace(producers[0], starts=0, stops=0, succeeds=0),)


def reductions(schedule: Schedule, topology: Topology) -> Iterator[Schedule]:
    """Every schedule that is smaller by one change, the largest changes first; all of them are valid."""
    for candidate in _reductions(schedule, topology):
        if not any(problems(candidate)) and size(candidate, topology) < size(schedule, topology):
            yield candidate


def _reductions(schedule: Schedule, topology: Topology) -> Iterator[Schedule]:
    yield from _fewer_steps(schedule)
    if len(schedule.producers) > 1:
        for place in range(len(schedule.producers)):
            left = [other for other in range(len(schedule.producers)) if other != place]
            yield replace(schedule, producers=chosen_producers(schedule.producers, left))
    yield from _fewer_members(schedule)
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
        yield from _without(schedule, place, place + 1)


def _without(schedule: Schedule, first: int, end: int) -> Iterator[Schedule]:
    """The schedule without some steps: what follows begins earlier, or when it did."""
    earlier = without_steps(schedule, first, end)
    on_time = without_steps(schedule, first, end, on_time=True)
    yield earlier
    if on_time != earlier:
        yield on_time


def _fewer_members(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules without a group, without a member, or with one that is there from beginning to end."""
    for place, group in enumerate(schedule.groups):
        smaller: list[tuple[Group, ...]] = [()]
        for at, member in enumerate(group.members):
            others = (*group.members[:at], *group.members[at + 1 :])
            if at:
                smaller.append((replace(group, members=others),))
            if member.stops:
                plain = replace(member, stops=0)
                smaller.append(
                    (replace(group, members=(*group.members[:at], plain, *group.members[at + 1 :])),)
                )
            if member.starts:
                plain = replace(member, starts=0, stops=0)
                smaller.append(
                    (replace(group, members=(*group.members[:at], plain, *group.members[at + 1 :])),)
                )
        if len(group.answers) > 1:
            smaller.append((replace(group, answers=group.answers[:1]),))
        for instead in smaller:
            yield replace(
                schedule, groups=(*schedule.groups[:place], *instead, *schedule.groups[place + 1 :])
            )


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
        yield replace(
            schedule,
            topics=topics,
            steps=steps,
            groups=schedule.groups if fewer else _groups_without(schedule, place),
        )


def _groups_without(schedule: Schedule, topic: int) -> tuple[Group, ...]:
    """The groups that read another topic, which is counted anew."""
    return tuple(
        replace(group, topic=group.topic - (group.topic > topic))
        for group in schedule.groups
        if group.topic != topic
    )


def _smaller_steps(step: Step, topology: Topology) -> Iterator[Step]:
    for targets in _fewer_hosts(step.targets, topology):
        yield replace(step, targets=targets)
    for toward in _fewer_hosts(step.toward, topology):
        yield replace(step, toward=toward)
    if step.arrow == "<->":
        yield replace(step, arrow="->")
        yield replace(step, arrow="<-")
    if FAULTS[step.fault].lasts:
        for until in _sooner(step.until, SHORTEST_S):
            yield replace(step, until=until)
    for when in _sooner(step.when, 0.0):
        yield replace(step, when=when)
    for value in FAULTS[step.fault].values:
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
    if one.succeeds:
        yield replace(one, succeeds=0)
    if one.transactional:
        yield replace(one, transactional=False, succeeds=0)
    if one.stops:
        yield replace(one, stops=0)
    if one.starts:
        yield replace(one, starts=0, stops=0, succeeds=0)
    if one.in_flight > 1:
        yield replace(one, in_flight=1)
    if one.acks != -1:
        yield replace(one, acks=-1)
    if not one.idempotent and one.acks == -1:
        yield replace(one, idempotent=True, in_flight=min(one.in_flight, 5))


def _plainer_topics(topic: TopicPlan) -> Iterator[TopicPlan]:
    if topic.unclean:
        yield replace(topic, unclean=False)
    if topic.min_insync != min(PLAIN.min_insync, topic.replicas):
        yield replace(topic, min_insync=min(PLAIN.min_insync, topic.replicas))
