"""A schedule: what happens to a cluster and its clients during a run, as data (`schedule.json`).

The steps are carried out in their order. A step begins some time after the beginning of the previous step, or
on an event that is observed. A step that lasts ends in the same way. A host is named by itself (`broker1`),
by its AZ (`az1`), or by a role that is looked up when the step begins (`leader`, `az-of-leader`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from harness.errors import BadDataError, UsageError
from harness.kafka.model import Topic, TopicPartition
from harness.lab.model import Topology
from harness.search.faults import KINDS

VERSION = 2
"""Version of the format. A seed belongs to a version, because another grammar makes other schedules."""
READABLE = (1, VERSION)
"""Versions of files that can be read; version 1 has no transactions, and is otherwise the same."""
FILE = "schedule.json"

Event = Literal[
    "",
    "leader-elected",
    "no-leader",
    "isr-shrunk",
    "isr-full",
    "controller-elected",
    "acknowledged",
    "refused",
]
"""What may be observed; empty: nothing, only time counts.

| event | since the previous step began |
|---|---|
| `leader-elected` | a partition has another leader |
| `no-leader` | a partition has no leader (now) |
| `isr-shrunk` | the ISR of a partition has become smaller |
| `isr-full` | the ISRs of all partitions are complete (now) |
| `controller-elected` | another controller is active |
| `acknowledged` | a message of every producer that runs was acknowledged |
| `refused` | a message ended without an acknowledgement |
"""
EVENTS: tuple[str, ...] = get_args(Event)[1:]
Arrow = Literal["<->", "->", "<-"]
ROLES = ("leader", "follower", "controller", "quorum-leader", "coordinator")
"""Hosts that are looked up when a step begins: of the step's partition, or of the cluster. The coordinator is
that of all transactions; there is one if a producer is transactional."""
COORDINATED = 3
"""Brokers that hold the log of transactions."""
AZ_OF = "az-of-"
OTHERS = "others"
"""Every host that the other side of a link does not name."""
OTHER_AZS = "other-azs"
"""Every host in an AZ in which the other side of a link has no host."""

Seconds = Annotated[float, Meta(ge=0, le=600)]
_MOST_STEPS = 50
_TOPIC = re.compile(r"[a-z][a-z0-9]{0,40}")


class Moment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time, or an observed event; with an event, the time is the longest wait for it."""

    after_s: Seconds = 0.0
    """Seconds, at most 600."""
    event: Event = ""
    """What is observed, such as `leader-elected` (see `docs/search.md`); empty: nothing."""


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault or operator action."""

    fault: str
    """What it does, such as `cut` or `kill` (see `docs/search.md`)."""
    targets: tuple[str, ...] = ()
    """Hosts; of links, one side."""
    toward: tuple[str, ...] = ()
    """Of links: the other side."""
    arrow: Arrow = "<->"
    """Of links: `<->`, `->` or `<-`, from the targets to the other side."""
    partition: int = 0
    """The partition of the schedule that the step is about, counted through all topics."""
    value: float = 0.0
    """Of faults with a strength: percent, kbit/s or seconds."""
    when: Moment = Moment()
    """When it begins, counted from the beginning of the previous step."""
    until: Moment = Moment(after_s=5.0)
    """When it ends, counted from its own beginning; ignored for a step that acts once."""


class Producer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A producer that writes to all partitions of all topics at a steady rate, or in transactions."""

    az: str
    """The AZ of its client host."""
    acks: Literal[-1, 0, 1] = -1
    """-1: all."""
    idempotent: bool = True
    """`enable.idempotence`"""
    in_flight: Annotated[int, Meta(ge=1, le=100)] = 5
    """`max.in.flight.requests.per.connection`"""
    transactional: bool = False
    """It writes in transactions, each of which spans all partitions, and commits and aborts them in turn."""
    starts: Annotated[int, Meta(ge=0)] = 0
    """Number of the step after which it starts; 0: before the first one."""
    stops: Annotated[int, Meta(ge=0)] = 0
    """Number of the step after which it stops; 0: at the end."""

    @property
    def label(self) -> str:
        """Its settings in a few words."""
        acks = "acks=all" if self.acks == -1 else f"acks={self.acks}"
        kind = ", transactional" if self.transactional else ", idempotent" if self.idempotent else ""
        return f"{acks}{kind}, {self.in_flight} in flight"


class TopicPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic; every partition is led by another broker."""

    name: str
    """Lower-case letters and digits."""
    partitions: Annotated[int, Meta(ge=1, le=20)] = 1
    """How many."""
    replicas: Annotated[int, Meta(ge=1, le=20)] = 3
    """The replication factor."""
    min_insync: Annotated[int, Meta(ge=1, le=20)] = 2
    """`min.insync.replicas`"""
    unclean: bool = False
    """`unclean.leader.election.enable`"""

    @property
    def label(self) -> str:
        """Its settings in a few words."""
        return f"min.insync.replicas={self.min_insync}" + (", unclean election" if self.unclean else "")


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole schedule."""

    acked_schedule: int = VERSION
    """The version of the format."""
    kafka: str
    """The version that it was made for."""
    mode: str
    """The metadata mode that it was made for."""
    controller: str
    """Host of the active controller before the first step."""
    quorum_leader: str = ""
    """ZooKeeper node that leads before the first step; empty on KRaft."""
    made_by: str = ""
    """Where it comes from, such as `seed 7, number 3`."""
    topics: Annotated[tuple[TopicPlan, ...], Meta(min_length=1, max_length=10)]
    """The topics, which exist before the first step."""
    producers: Annotated[tuple[Producer, ...], Meta(min_length=1, max_length=20)]
    """The producers; one consumer in each of two AZs reads everything."""
    steps: Annotated[tuple[Step, ...], Meta(max_length=_MOST_STEPS)] = ()
    """What happens, in this order."""

    def encode(self) -> bytes:
        """The bytes of `schedule.json`; equal schedules have equal bytes."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    @property
    def transactional(self) -> bool:
        """Whether any producer is transactional."""
        return any(one.transactional for one in self.producers)

    @property
    def digest(self) -> str:
        """A short name for what it does, wherever it comes from."""
        return sha256(msgspec.structs.replace(self, made_by="").encode()).hexdigest()[:12]

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions, in the order in which steps count them."""
        return tuple(
            TopicPartition(topic.name, number) for topic in self.topics for number in range(topic.partitions)
        )


def read(path: Path) -> Schedule:
    """A schedule from a file. Raises BadDataError with one sentence."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadDataError(
            f"{path} cannot be read ({error.strerror}); name a {FILE}, or the folder of a run that has one."
        ) from None
    return decode(data, str(path))


def decode(data: bytes, place: str) -> Schedule:
    """A schedule from the bytes of a file at ``place``. Raises BadDataError with one sentence."""
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadDataError(
            f"{place} is not a whole JSON document ({error}); it may be cut short: copy it again."
        ) from None
    version = raw.get("acked_schedule") if isinstance(raw, dict) else None
    if version is None:
        raise BadDataError(f"{place} holds no schedule: it has no key 'acked_schedule'; name a {FILE}.")
    if version not in READABLE:
        raise BadDataError(
            f"{place} has a schedule of version {version!r}, and this acked reads the versions "
            f"{' and '.join(map(str, READABLE))}; use the acked that wrote it."
        )
    raw["acked_schedule"] = VERSION
    for number, step in enumerate(_list(raw, "steps"), start=1):
        fault = step.get("fault") if isinstance(step, dict) else None
        if isinstance(fault, str) and fault not in KINDS:
            raise BadDataError(
                f"{place}: step {number}: there is no fault {fault!r}; use {', '.join(KINDS)}."
            )
    try:
        schedule = msgspec.convert(raw, Schedule)
    except msgspec.ValidationError as error:
        raise BadDataError(f"{place}: {error}; correct the value.") from None
    problem = next(problems(schedule), "")
    if problem:
        raise BadDataError(f"{place}: {problem}.")
    return schedule


def _list(raw: dict[str, Any], key: str) -> list[Any]:
    found = raw.get(key, [])
    return found if isinstance(found, list) else []


def problems(schedule: Schedule) -> Iterator[str]:
    """What is wrong with a schedule beyond the types of its values, a clause each."""
    names = [topic.name for topic in schedule.topics]
    if len(set(names)) < len(names):
        yield "two topics have the same name; rename one"
    for topic in schedule.topics:
        if not _TOPIC.fullmatch(topic.name):
            yield f"the topic's name {topic.name!r} is not possible; use lower-case letters and digits"
        if topic.min_insync > topic.replicas:
            yield f"topic {topic.name!r} has min_insync above its {topic.replicas} replicas; use fewer"
    if all(producer.starts for producer in schedule.producers):
        yield "no producer starts before the first step; let one have starts 0"
    for number, producer in enumerate(schedule.producers, start=1):
        if producer.idempotent and producer.acks != -1:
            yield f"producer {number} is idempotent with acks={producer.acks}; idempotence needs acks -1"
        if producer.transactional and not producer.idempotent:
            yield f"producer {number} is transactional and not idempotent; transactions need idempotence"
        if producer.idempotent and producer.in_flight > 5:
            yield f"producer {number} is idempotent with {producer.in_flight} in flight; use 5 at most"
        if max(producer.starts, producer.stops) > len(schedule.steps):
            yield f"producer {number} names a step after the last of {len(schedule.steps)}"
        if producer.stops and producer.stops <= producer.starts:
            yield f"producer {number} stops after step {producer.stops}, before it has started"
    for number, step in enumerate(schedule.steps, start=1):
        for problem in _step_problems(step, len(schedule.partitions)):
            yield f"step {number} ({step.fault}) {problem}"


def _step_problems(step: Step, partitions: int) -> Iterator[str]:
    kind = KINDS.get(step.fault)
    if kind is None:
        yield f"is not a fault; use {', '.join(KINDS)}"
        return
    if kind.takes in ("hosts", "links") and not step.targets:
        yield "names no targets"
    if kind.takes == "links" and not step.toward:
        yield "names no other side (toward)"
    if kind.takes not in ("hosts", "links") and step.targets:
        yield "takes no targets"
    if kind.takes != "links" and step.toward:
        yield "takes no other side (toward)"
    if not 0 <= step.partition < partitions:
        yield f"is about partition {step.partition} of {partitions}, counted from 0"
    if kind.values and not kind.values[0] <= step.value <= kind.values[-1]:
        yield f"has the value {step.value:g}; use {kind.values[0]:g} to {kind.values[-1]:g} {kind.unit}"


def require_hosts(schedule: Schedule, topology: Topology, place: str) -> None:
    """Raise UsageError if a schedule names something that the cluster does not have."""
    for number, step in enumerate(schedule.steps, start=1):
        for target in (*step.targets, *step.toward):
            name = target.removeprefix(AZ_OF)
            if name not in (*ROLES, OTHERS, OTHER_AZS):
                try:
                    topology.select(target)
                except UsageError as error:
                    raise UsageError(f"{place}: step {number}: {error.message}") from None
    for one in (schedule.controller, *filter(None, (schedule.quorum_leader,))):
        topology.host(one)
    azs = {host.az for host in topology.role("client")}
    for producer in schedule.producers:
        if producer.az not in azs:
            raise UsageError(
                f"{place}: a producer is in {producer.az}, which has no client; use {', '.join(sorted(azs))}."
            )
    brokers = len(topology.role("broker"))
    if schedule.transactional and brokers < COORDINATED:
        raise UsageError(
            f"{place}: a producer is transactional, which needs {COORDINATED} brokers, and the cluster has "
            f"{brokers}."
        )
    for topic in schedule.topics:
        if topic.replicas > brokers:
            raise UsageError(
                f"{place}: topic {topic.name!r} has {topic.replicas} replicas, and the cluster has "
                f"{brokers} brokers; use that many at most."
            )


def topics_of(schedule: Schedule, brokers: Iterable[int], suffix: str = "") -> tuple[Topic, ...]:
    """The topics to create; ``suffix`` makes their names unique on a cluster that outlasts a run."""
    ring = tuple(brokers)
    found: list[Topic] = []
    first = 0
    for plan in schedule.topics:
        placed = tuple(
            tuple(ring[(first + number + place) % len(ring)] for place in range(plan.replicas))
            for number in range(plan.partitions)
        )
        first += plan.partitions
        config = {
            "min.insync.replicas": str(plan.min_insync),
            "unclean.leader.election.enable": str(plan.unclean).lower(),
        }
        found.append(
            Topic(plan.name + suffix, placed[0], partitions=plan.partitions, placed=placed, config=config)
        )
    return tuple(found)


def described(step: Step) -> str:
    """A step as a line of text."""
    kind = KINDS[step.fault]
    parts = [step.fault]
    if kind.takes == "links":
        parts.append(f"{' + '.join(step.targets)} {step.arrow} {' + '.join(step.toward)}")
    elif kind.takes == "hosts":
        parts.append(" + ".join(step.targets))
    if kind.takes == "partition" or kind.about_partition:
        parts.append(f"partition {step.partition}")
    if kind.values:
        parts.append(f"{step.value:g} {kind.unit}")
    begins = _moment(step.when, "at once")
    return f"{begins}: {' '.join(parts)}" + (
        f", until {_moment(step.until, 'at once')}" if kind.lasts else ""
    )


def _moment(moment: Moment, now: str) -> str:
    if moment.event:
        return f"{moment.event} ({moment.after_s:g} s at most)"
    return f"after {moment.after_s:g} s" if moment.after_s else now
