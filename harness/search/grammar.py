"""Schedules from a seed, and schedules from others by mutation.

The same seed, number and space give the same schedule, byte for byte: nothing here depends on time, on the
order of a set, or on the machine.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from random import Random
from typing import TypeVar

from msgspec.structs import replace

from harness.cluster.timings import Timings
from harness.errors import UsageError
from harness.lab.model import Topology
from harness.search.faults import KINDS, StepKind, kinds_of
from harness.search.schedule import (
    AZ_OF,
    COORDINATED,
    EVENTS,
    OTHER_AZS,
    OTHERS,
    ROLES,
    VERSION,
    Arrow,
    Moment,
    Producer,
    Schedule,
    Step,
    TopicPlan,
    problems,
)

T = TypeVar("T")
MOST_STEPS = 7
_MOST_PRODUCERS = 4
_WEIGHTS = {"leader": 2, "follower": 1, "controller": 3, "quorum-leader": 2, "coordinator": 2}
"""How often each role is chosen, relative to the others."""
_AT_ONCE = 0.25
"""Share of the steps that begin together with the previous step."""
_TRANSACTIONAL = Producer(az="", transactional=True)
_SAFE = (*(Producer(az=""),) * 2, Producer(az="", in_flight=1), _TRANSACTIONAL)
_ANY = (
    *_SAFE,
    Producer(az="", idempotent=False),
    Producer(az="", acks=1, idempotent=False),
    Producer(az="", acks=1, idempotent=False, in_flight=1),
    Producer(az="", acks=0, idempotent=False),
)
"""Settings of producers; what is named twice is chosen twice as often."""


@dataclass(frozen=True, kw_only=True)
class Space:
    """What schedules are made of."""

    kafka: str
    mode: str
    topology: Topology
    timings: Timings
    controller: str
    quorum_leader: str = ""
    kinds: tuple[StepKind, ...] = ()
    producers: tuple[Producer, ...] = _ANY
    """Settings of producers, one of which is chosen for each."""
    coordinated: bool = True
    """Steps may be about the coordinator of transactions."""
    safe: bool = False
    """Only settings that protect every acknowledged message from the failure of one AZ."""

    @property
    def brokers(self) -> int:
        """How many brokers there are."""
        return len(self.topology.role("broker"))


def space_of(
    *,
    kafka: str,
    mode: str,
    topology: Topology,
    timings: Timings,
    faults: str | None = None,
    producers: str | None = None,
    safe: bool = False,
    lacks: Collection[str] = (),
) -> Space:
    """The space of a cluster. Raises UsageError.

    ``faults`` are globs of kinds (a,b), or `no-fault`; ``producers`` are globs of kinds of producers.
    ``lacks`` has what clients or brokers cannot do: `idempotence`, `transactions`.
    """
    kinds = tuple(kind for kind in kinds_of(mode) if not (safe and kind.name == "elect-unclean"))
    if faults == "no-fault":
        kinds = ()
    elif faults is not None:
        kinds = _matching(
            kinds,
            faults,
            lambda kind: kind.name,
            f"--faults {{!r}} matches no fault of mode {mode}",
            "no-fault",
        )
    possible = _possible(topology, safe=safe, lacks=lacks)
    if producers is not None:
        possible = _matching(
            possible, producers, kind_of, "--producers {!r} matches no kind of producer of this search"
        )
    number = min(2, len(topology.azs))
    quorum = topology.role({"zookeeper": "zookeeper", "kraft": "controller"}.get(mode, "broker"))
    controllers = topology.role("broker") if mode == "zookeeper" else quorum
    return Space(
        kafka=kafka,
        mode=mode,
        topology=topology,
        timings=timings,
        controller=controllers[min(number, len(controllers)) - 1].name,
        quorum_leader=quorum[min(number, len(quorum)) - 1].name if mode == "zookeeper" else "",
        kinds=kinds,
        producers=possible,
        safe=safe,
    )


def kind_of(producer: Producer) -> str:
    """The name of a kind of producers, which `--producers` takes."""
    if producer.transactional:
        return "transactional"
    return "idempotent" if producer.idempotent else f"acks-{'all' if producer.acks == -1 else producer.acks}"


def _possible(topology: Topology, *, safe: bool, lacks: Collection[str]) -> tuple[Producer, ...]:
    """The settings of producers that a cluster and its clients can have. Raises UsageError."""
    few = len(topology.role("broker")) < COORDINATED
    found = tuple(
        one
        for one in (_SAFE if safe else _ANY)
        if not (one.transactional and (few or "transactions" in lacks))
        and not (one.idempotent and "idempotence" in lacks)
    )
    if not found:
        raise UsageError(
            "--safe needs idempotent producers, which this client or this version of Kafka lacks."
        )
    return found


def _matching(
    things: tuple[T, ...], text: str, name: Callable[[T], str], refusal: str, also: str = ""
) -> tuple[T, ...]:
    """The things whose name matches one of the globs of a text. Raises UsageError for one without any."""
    globs = [glob.strip() for glob in text.split(",")]
    for glob in globs:
        if not any(fnmatch.fnmatchcase(name(one), glob) for one in things):
            names = ", ".join(dict.fromkeys(map(name, things)))
            raise UsageError(f"{refusal.format(glob)}; use {names}{f', or {also}' if also else ''}.")
    return tuple(one for one in things if any(fnmatch.fnmatchcase(name(one), glob) for glob in globs))


def fresh(space: Space, seed: int, number: int) -> Schedule:
    """The ``number``-th schedule of a seed."""
    rng = Random(f"{VERSION}/{seed}/{number}")
    topics = _topics(rng, space)
    count = rng.randint(1, MOST_STEPS) if space.kinds else 0
    partitions = sum(topic.partitions for topic in topics)
    producers = tuple(_producer(rng, space, count) for _ in range(rng.randint(2, _MOST_PRODUCERS)))
    narrowed = _with_roles_of(space, producers)
    steps = tuple(_step(rng, narrowed, partitions) for _ in range(count))
    return Schedule(
        kafka=space.kafka,
        mode=space.mode,
        controller=space.controller,
        quorum_leader=space.quorum_leader,
        made_by=f"seed {seed}, number {number}",
        topics=topics,
        producers=_lasting(producers),
        steps=steps,
    )


def mutated(space: Space, parent: Schedule, seed: int, number: int) -> Schedule:
    """A schedule that differs from ``parent`` in one to three places."""
    rng = Random(f"{VERSION}/{seed}/{number}/mutation")
    child = parent
    for _ in range(rng.randint(1, 3)):
        narrowed = _with_roles_of(space, child.producers)
        child = _tidy(rng.choice(_MUTATIONS)(rng, narrowed, child))
    origin = parent.made_by.partition(" (from ")[0]
    return replace(child, made_by=f"seed {seed}, number {number} (from {origin})")


def _with_roles_of(space: Space, producers: Sequence[Producer]) -> Space:
    """The space with a coordinator only where one of the producers needs it."""
    return changed(space, coordinated=any(one.transactional for one in producers))


def _tidy(schedule: Schedule) -> Schedule:
    """The schedule with the references repaired that a change has left dangling."""
    count, partitions = len(schedule.steps), len(schedule.partitions)
    steps = tuple(replace(step, partition=step.partition % partitions) for step in schedule.steps)
    producers = []
    for one in schedule.producers:
        starts, stops = min(one.starts, count), min(one.stops, count)
        producers.append(replace(one, starts=starts, stops=stops if stops > starts else 0))
    tidy = replace(schedule, steps=steps, producers=_lasting(tuple(producers)))
    assert not list(problems(tidy)), list(problems(tidy))
    return tidy


def _lasting(producers: tuple[Producer, ...]) -> tuple[Producer, ...]:
    """Let at least one producer write from beginning to end, so that every run has messages."""
    if any(one.starts == 0 and one.stops == 0 for one in producers):
        return producers
    return (replace(producers[0], starts=0, stops=0), *producers[1:])


def _topics(rng: Random, space: Space) -> tuple[TopicPlan, ...]:
    return tuple(_topic(rng, space, f"t{number}") for number in range(1, 2 + (rng.random() < 0.25)))


def _topic(rng: Random, space: Space, name: str) -> TopicPlan:
    replicas = min(3, space.brokers)
    most = max(1, replicas - 1)
    return TopicPlan(
        name=name,
        partitions=rng.randint(1, min(3, space.brokers)),
        replicas=replicas,
        min_insync=most if space.safe or rng.random() < 0.7 else 1,
        unclean=not space.safe and rng.random() < 0.12,
    )


def _producer(rng: Random, space: Space, steps: int) -> Producer:
    azs = list(dict.fromkeys(host.az for host in space.topology.role("client")))
    one = rng.choice(space.producers)
    starts = rng.randint(1, steps) if steps and rng.random() < 0.4 else 0
    stops = rng.randint(starts + 1, steps) if steps > starts and rng.random() < 0.2 else 0
    return replace(one, az=rng.choice(azs), starts=starts, stops=stops)


def _step(rng: Random, space: Space, partitions: int) -> Step:
    kind = rng.choices(space.kinds, [kind.weight for kind in space.kinds])[0]
    targets, toward, arrow = _aims(rng, space, kind)
    return Step(
        fault=kind.name,
        targets=targets,
        toward=toward,
        arrow=arrow,
        partition=rng.randrange(partitions),
        value=rng.choice(kind.values) if kind.values else 0.0,
        when=_when(rng, space),
        until=_until(rng, space) if kind.lasts else Moment(),
    )


def _aims(rng: Random, space: Space, kind: StepKind) -> tuple[tuple[str, ...], tuple[str, ...], Arrow]:
    if kind.takes == "hosts":
        return _hosts(rng, space, kind), (), "<->"
    if kind.takes != "links":
        return (), (), "<->"
    one = _place(rng, space)
    arrow: Arrow = rng.choices(["<->", "->", "<-"], [6, 1, 1])[0]  # type: ignore[assignment]
    far = rng.random()
    if far < 0.6:
        return (one,), (OTHERS if far < 0.3 else OTHER_AZS,), arrow
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
    return [role for role in ROLES if role not in absent]


def _hosts(rng: Random, space: Space, kind: StepKind) -> tuple[str, ...]:
    """One host as a rule, sometimes two, by name or by role; rarely all brokers."""
    names = [host.name for host in space.topology.hosts if host.role in kind.roles]
    if "broker" in kind.roles and rng.random() < 0.08:
        return ("brokers",)
    roles = [role for role in _roles(space) if _may_be(role, kind, space)]
    found = [
        rng.choice(roles) if roles and rng.random() < 0.5 else rng.choice(names)
        for _ in range(1 if kind.about_partition or rng.random() < 0.75 else 2)
    ]
    return tuple(dict.fromkeys(found))


def _may_be(role: str, kind: StepKind, space: Space) -> bool:
    if role == "quorum-leader":
        return "zookeeper" in kind.roles
    if role == "controller" and space.mode == "kraft":
        return "controller" in kind.roles
    return "broker" in kind.roles


def _when(rng: Random, space: Space) -> Moment:
    if rng.random() < _AT_ONCE:
        return Moment()
    if rng.random() < 0.4:
        return Moment(event=rng.choice(EVENTS), after_s=round(space.timings.lag_s * 2, 1))  # type: ignore[arg-type]
    return Moment(after_s=rng.choice([0.2, 0.5, 1.0, 2.0, 4.0]))


def _until(rng: Random, space: Space) -> Moment:
    """Shorter than a session, about as long, or long enough for everything that can follow."""
    timings = space.timings
    if rng.random() < 0.25:
        return Moment(event=rng.choice(EVENTS), after_s=round(timings.harmless_s, 1))  # type: ignore[arg-type]
    choices = [0.5, timings.session_s * 0.5, timings.session_s, timings.session_s * 1.75, timings.harmless_s]
    return Moment(after_s=round(rng.choice(choices), 1))


_Mutation = Callable[[Random, Space, Schedule], Schedule]


def _with_step(schedule: Schedule, place: int, *steps: Step) -> Schedule:
    """The schedule with the step at a place replaced."""
    return replace(schedule, steps=(*schedule.steps[:place], *steps, *schedule.steps[place + 1 :]))


def _add(rng: Random, space: Space, schedule: Schedule) -> Schedule:
    if not space.kinds or len(schedule.steps) >= MOST_STEPS:
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
    kind = KINDS[step.fault]
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


_MUTATIONS: Sequence[_Mutation] = (
    *(_add, _add, _remove, _swap, _change, _change, _change),
    *(_change_producer, _change_topic),
)
