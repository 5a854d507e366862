"""Schedules from a seed, and schedules from others by mutation.

The same seed, number and space give the same schedule, byte for byte: nothing here depends on time, on the
order of a set, or on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as changed
from random import Random

from msgspec.structs import replace

from nemesis.catalogue import FAULTS
from nemesis.scheduled import ScheduledFault
from studies.search.rules import mended, problems
from studies.search.schedule import VERSION, Group, Member, Producer, Schedule, TopicPlan
from studies.search.space import Space
from studies.steps.step import (
    AZ_OF,
    EVENTS,
    OTHER_AZS,
    OTHER_CONTROLLERS,
    OTHERS,
    ROLES,
    Arrow,
    Event,
    Moment,
    Step,
)
from workloads.protocol.spec import ShareAnswer

MOST_STEPS = 7
_MOST_PRODUCERS = 4
_MOST_TOPICS = 3
_MOST_MEMBERS = 3
_MUTATION_TRIES = 10
_WEIGHTS = {
    "leader": 2,
    "follower": 1,
    "controller": 3,
    "quorum-leader": 2,
    "coordinator": 2,
    "group-coordinator": 1,
    "share-coordinator": 2,
}
"""How often each role is chosen, relative to the others."""
_GROUPED = 0.4
"""Share of the schedules that have a consumer group, and of those that have a share group."""
_ANSWERS: tuple[tuple[ShareAnswer, ...], ...] = (
    ("accept",),
    ("accept", "accept", "release"),
    ("accept", "release", "renew", "reject"),
)
_AT_ONCE = 0.25
"""Share of the steps that begin together with the previous step."""


def fresh(space: Space, seed: int, number: int) -> Schedule:
    """The ``number``-th schedule of a seed."""
    rng = Random(f"{VERSION}/{seed}/{number}")
    topics = _topics(rng, space)
    count = rng.randint(1, MOST_STEPS) if space.faults else 0
    partitions = sum(topic.partitions for topic in topics)
    producers = tuple(_producer(rng, space, count) for _ in range(rng.randint(2, _MOST_PRODUCERS)))
    producers = _successions(rng, _lasting(producers))
    often = 1.0 if space.always_grouped else _GROUPED
    groups: tuple[Group, ...] = ()
    if space.grouped and rng.random() < often:
        groups += (_group(rng, space, count, len(topics)),)
    # With numbers of its own: schedules without a share group are the same whether there may be some or not.
    others = Random(f"{VERSION}/{seed}/{number}/share group")
    if space.shared and others.random() < often:
        groups += (_share_group(others, space, count, len(topics)),)
    narrowed = _with_roles_of(space, producers, groups)
    steps = tuple(_step(rng, narrowed, partitions) for _ in range(count))
    return Schedule(
        kafka=space.kafka,
        mode=space.mode,
        controller=space.controller,
        quorum_leader=space.quorum_leader,
        made_by=f"seed {seed}, number {number}",
        topics=topics,
        producers=producers,
        groups=groups,
        steps=steps,
    )


def mutated(space: Space, parent: Schedule, seed: int, number: int) -> Schedule:
    """A schedule that differs from ``parent`` in one to three places."""
    rng = Random(f"{VERSION}/{seed}/{number}/mutation")
    child = parent
    for _ in range(rng.randint(1, 3)):
        child = _mutated_once(rng, space, child)
    origin = parent.made_by.partition(" (from ")[0]
    return replace(child, made_by=f"seed {seed}, number {number} (from {origin})")


def _mutated_once(rng: Random, space: Space, schedule: Schedule) -> Schedule:
    """The schedule after one mutation; not every mutation changes every schedule."""
    narrowed = _with_roles_of(space, schedule.producers, schedule.groups)
    for _ in range(_MUTATION_TRIES):
        child = _tidy(rng.choice(_MUTATIONS)(rng, narrowed, schedule))
        if child != schedule:
            return child
    return schedule


def _with_roles_of(space: Space, producers: Sequence[Producer], groups: Sequence[Group]) -> Space:
    """The space with coordinators only where a producer or a group needs them."""
    return changed(
        space,
        coordinated=any(producer.transactional for producer in producers),
        grouped=(space.grouped or space.shared) and bool(groups),
        shared=space.shared and any(group.answers for group in groups),
    )


def _tidy(schedule: Schedule) -> Schedule:
    """The schedule with the references repaired that a change has left dangling."""
    count, partitions = len(schedule.steps), len(schedule.partitions)
    steps = tuple(replace(step, partition=step.partition % partitions) for step in schedule.steps)
    producers = []
    for producer in schedule.producers:
        starts, stops = min(producer.starts, count), min(producer.stops, count)
        producers.append(replace(producer, starts=starts, stops=stops if stops > starts else 0))
    groups = tuple(
        replace(group, members=tuple(_tidy_member(member, count) for member in group.members))
        for group in schedule.groups
    )
    tidy = replace(schedule, steps=steps, producers=mended(_lasting(tuple(producers))), groups=groups)
    assert not list(problems(tidy)), list(problems(tidy))
    return tidy


def _tidy_member(member: Member, count: int) -> Member:
    starts, stops = min(member.starts, count), min(member.stops, count)
    return replace(member, starts=starts, stops=stops if stops > starts else 0)


def _lasting(producers: tuple[Producer, ...]) -> tuple[Producer, ...]:
    """Let at least one producer write from beginning to end, so that every run has messages."""
    if any(producer.starts == 0 and producer.stops == 0 for producer in producers):
        return producers
    return (replace(producers[0], starts=0, stops=0, succeeds=0), *producers[1:])


def _successions(rng: Random, producers: tuple[Producer, ...]) -> tuple[Producer, ...]:
    """Let some transactional producers that start late fence one that starts before them."""
    successive = list(producers)
    for place, one in enumerate(producers):
        before = [
            number
            for number, other in enumerate(successive, start=1)
            if other.transactional and not other.succeeds and other.starts < one.starts
        ]
        if one.transactional and before and rng.random() < 0.5:
            successive[place] = replace(one, succeeds=rng.choice(before))
    return mended(successive)


def _group(rng: Random, space: Space, steps: int, topics: int) -> Group:
    azs = _client_azs(space)
    members = [Member(az=rng.choice(azs))]
    for _ in range(rng.randint(1, _MOST_MEMBERS - 1)):
        starts, stops = _span(rng, steps)
        members.append(Member(az=rng.choice(azs), starts=starts, stops=stops))
    return Group(topic=rng.randrange(topics), members=tuple(members))


def _share_group(rng: Random, space: Space, steps: int, topics: int) -> Group:
    return replace(_group(rng, space, steps, topics), answers=rng.choice(_ANSWERS))


def _client_azs(space: Space) -> list[str]:
    return list(dict.fromkeys(host.az for host in space.topology.role("client")))


def _span(rng: Random, steps: int) -> tuple[int, int]:
    """The steps after which a client starts and stops."""
    starts = rng.randint(1, steps) if steps and rng.random() < 0.4 else 0
    return starts, rng.randint(starts + 1, steps) if steps > starts and rng.random() < 0.2 else 0


def _topics(rng: Random, space: Space) -> tuple[TopicPlan, ...]:
    count = rng.choices(range(1, _MOST_TOPICS + 1), [12, 5, 2])[0]
    return tuple(_topic(rng, space, f"t{number}") for number in range(1, count + 1))


def _topic(rng: Random, space: Space, name: str) -> TopicPlan:
    replicas = min(3, space.brokers)
    if not space.safe and space.brokers > 2 and rng.random() < 0.15:
        replicas = rng.choice([2, min(4, space.brokers)])
    most = max(1, replicas - 1)
    return TopicPlan(
        name=name,
        partitions=rng.randint(1, min(3, space.brokers)),
        replicas=replicas,
        min_insync=most if space.safe or rng.random() < 0.7 else 1,
        unclean=not space.safe and rng.random() < 0.12,
    )


def _producer(rng: Random, space: Space, steps: int) -> Producer:
    one = rng.choice(space.producers)
    starts, stops = _span(rng, steps)
    return replace(one, az=rng.choice(_client_azs(space)), starts=starts, stops=stops)


def _step(rng: Random, space: Space, partitions: int) -> Step:
    kind = rng.choices(space.faults, [kind.weight for kind in space.faults])[0]
    targets, toward, arrow = _aims(rng, space, kind)
    return Step(
        fault=kind.mechanism,
        targets=targets,
        toward=toward,
        arrow=arrow,
        partition=rng.randrange(partitions),
        value=rng.choice(kind.values) if kind.values else 0.0,
        when=_when(rng, space),
        until=_until(rng, space) if kind.lasts else Moment(),
    )


def _aims(
    rng: Random, space: Space, kind: type[ScheduledFault]
) -> tuple[tuple[str, ...], tuple[str, ...], Arrow]:
    if kind.takes == "hosts":
        return _hosts(rng, space, kind), (), "<->"
    if kind.takes != "links":
        return (), (), "<->"
    one = _place(rng, space)
    arrow: Arrow = rng.choices(["<->", "->", "<-"], [6, 1, 1])[0]  # type: ignore[assignment]
    far = rng.random()
    if far < 0.6:
        sides = [OTHERS, OTHER_AZS] if space.mode == "zookeeper" else [OTHERS, OTHER_AZS, OTHER_CONTROLLERS]
        return (one,), (sides[int(far / 0.6 * len(sides))],), arrow
    places = [other for other in (_place(rng, space) for _ in range(rng.randint(1, 3))) if other != one]
    return (one,), tuple(dict.fromkeys(places)) or (OTHERS,), arrow


def _place(rng: Random, space: Space) -> str:
    """A role, the AZ of a role, an AZ, or a host; a role most often."""
    sort = rng.choices(["role", "az of role", "az", "host"], [4, 2, 2, 2])[0]
    if sort == "az":
        return rng.choice(space.topology.azs)
    if sort == "host":
        return rng.choice([host.name for host in space.topology.hosts if host.role != "client"])
    roles = _roles(space)
    role = rng.choices(roles, [_WEIGHTS[role] for role in roles])[0]
    return role if sort == "role" else AZ_OF + role


def _roles(space: Space) -> list[str]:
    absent = set() if space.mode == "zookeeper" else {"quorum-leader"}
    if not space.coordinated:
        absent.add("coordinator")
    if not space.grouped:
        absent.add("group-coordinator")
    if not space.shared:
        absent.add("share-coordinator")
    return [role for role in ROLES if role not in absent]


def _hosts(rng: Random, space: Space, kind: type[ScheduledFault]) -> tuple[str, ...]:
    """One host as a rule, sometimes two, by name or by role; rarely all brokers."""
    names = [host.name for host in space.topology.hosts if host.role in _roles_of(kind)]
    if "broker" in _roles_of(kind) and rng.random() < 0.08:
        return ("brokers",)
    roles = [role for role in _roles(space) if _may_be(role, kind, space)]
    hosts = [
        rng.choice(roles) if roles and rng.random() < 0.5 else rng.choice(names)
        for _ in range(1 if kind.about_partition or rng.random() < 0.75 else 2)
    ]
    return tuple(dict.fromkeys(hosts))


def _may_be(role: str, kind: type[ScheduledFault], space: Space) -> bool:
    if role == "quorum-leader":
        return "zookeeper" in _roles_of(kind)
    if role == "controller" and space.mode == "kraft":
        return "controller" in _roles_of(kind)
    return "broker" in _roles_of(kind)


def _roles_of(kind: type[ScheduledFault]) -> tuple[str, ...]:
    return kind.random_roles or kind.roles


def _when(rng: Random, space: Space) -> Moment:
    if rng.random() < _AT_ONCE:
        return Moment()
    if rng.random() < 0.4:
        return Moment(event=_event(rng, space), after_s=round(space.timings.lag_s * 2, 1))
    return Moment(after_s=rng.choice([0.2, 0.5, 1.0, 2.0, 4.0]))


def _event(rng: Random, space: Space) -> Event:
    possible = [event for event in EVENTS if space.coordinated or event != "marker-written"]
    return rng.choice(possible)  # type: ignore[arg-type]


def _until(rng: Random, space: Space) -> Moment:
    """Shorter than a session, about as long, or long enough for everything that can follow."""
    timings = space.timings
    if rng.random() < 0.25:
        return Moment(event=_event(rng, space), after_s=round(timings.harmless_s, 1))
    choices = [0.5, timings.session_s * 0.5, timings.session_s, timings.session_s * 1.75, timings.harmless_s]
    return Moment(after_s=round(rng.choice(choices), 1))


_Mutation = Callable[[Random, Space, Schedule], Schedule]


def _with_step(schedule: Schedule, place: int, *steps: Step) -> Schedule:
    """The schedule with the step at a place replaced."""
    return replace(schedule, steps=(*schedule.steps[:place], *steps, *schedule.steps[place + 1 :]))


def _add(rng: Random, space: Space, schedule: Schedule) -> Schedule:
    if not space.faults or len(schedule.steps) >= MOST_STEPS:
        return schedule
    place = rng.randint(0, len(schedule.steps))
    step = _step(rng, space, len(schedule.partitions))
    return replace(schedule, steps=(*schedule.steps[:place], step, *schedule.steps[place:]))


def _remove(rng: Random, space: Space, schedule: Schedule) -> Schedule:
    if len(schedule.steps) < 2:
        return schedule
    return _with_step(schedule, rng.randrange(len(schedule.steps)))


def _swap(rng: Random, space: Space, schedule: Schedule) -> Schedule:
    if len(schedule.steps) < 2:
        return schedule
    steps = list(schedule.steps)
    one, other = rng.sample(range(len(steps)), 2)
    steps[one], steps[other] = steps[other], steps[one]
    return replace(schedule, steps=tuple(steps))


def _change(rng: Random, space: Space, schedule: Schedule) -> Schedule:
    """The schedule with another beginning, end, aim or strength of one step."""
    if not schedule.steps:
        return schedule
    place = rng.randrange(len(schedule.steps))
    step = schedule.steps[place]
    kind = FAULTS[step.fault]
    part = rng.randrange(4)
    if part == 0:
        changed = replace(step, when=_when(rng, space))
    elif part == 1 and kind.lasts:
        changed = replace(step, until=_until(rng, space))
    elif part == 2 and kind.values:
        changed = replace(step, value=rng.choice(kind.values))
    else:
        targets, toward, arrow = _aims(rng, space, kind)
        changed = replace(step, targets=targets, toward=toward, arrow=arrow)
    return _with_step(schedule, place, changed)


def _change_producer(rng: Random, space: Space, schedule: Schedule) -> Schedule:
    place = rng.randrange(len(schedule.producers))
    one = _producer(rng, space, len(schedule.steps))
    return replace(schedule, producers=(*schedule.producers[:place], one, *schedule.producers[place + 1 :]))


def _change_topic(rng: Random, space: Space, schedule: Schedule) -> Schedule:
    place = rng.randrange(len(schedule.topics))
    one = _topic(rng, space, schedule.topics[place].name)
    return replace(schedule, topics=(*schedule.topics[:place], one, *schedule.topics[place + 1 :]))


def _change_group(rng: Random, space: Space, schedule: Schedule) -> Schedule:
    """The schedule with another group of the same kind, or without its group."""
    if not schedule.groups:
        return schedule
    place = rng.randrange(len(schedule.groups))
    make = _share_group if schedule.groups[place].answers else _group
    stays = space.always_grouped or rng.random() < 0.7
    other = (make(rng, space, len(schedule.steps), len(schedule.topics)),) if stays else ()
    return replace(schedule, groups=(*schedule.groups[:place], *other, *schedule.groups[place + 1 :]))


_MUTATIONS: Sequence[_Mutation] = (
    *(_add, _add, _remove, _swap, _change, _change, _change),
    *(_change_producer, _change_topic, _change_group),
)
