"""A schedule: what happens to a cluster and its clients during a run, as data (`schedule.json`).

The steps are carried out in their order. A step begins some time after the beginning of the previous step, or
on an event that is observed. A step that lasts ends in the same way. A host is named by itself (`broker1`),
by its AZ (`az1`), or by a role that is looked up when the step begins (`leader`, `az-of-leader`).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from harness.kafka.model import Topic, TopicPartition
from studies.search.faults import KINDS

VERSION = 3
"""Version of the format. A seed belongs to a version, because another grammar makes other schedules."""
READABLE = (1, 2, VERSION)
"""Versions of files that can be read: a later version adds keys and names, and changes none. Version 2 added
transactions. Version 3 added consumer groups, successors of producers, `group-coordinator`,
`other-controllers`, `raise-min-insync`, and `marker-written`."""
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
    "marker-written",
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
| `marker-written` | a replica has another transaction marker |
"""
EVENTS: tuple[str, ...] = get_args(Event)[1:]
Arrow = Literal["<->", "->", "<-"]
ROLES = ("leader", "follower", "controller", "quorum-leader", "coordinator", "group-coordinator")
"""Hosts that are looked up when a step begins: of the step's partition, or of the cluster. The coordinator is
that of all transactions; there is one if a producer is transactional. The group-coordinator is that of all
groups."""
COORDINATED = 3
"""Brokers that hold the logs of transactions and of committed offsets."""
AZ_OF = "az-of-"
OTHERS = "others"
"""Every host that the other side of a link does not name."""
OTHER_AZS = "other-azs"
"""Every host in an AZ in which the other side of a link has no host."""
OTHER_CONTROLLERS = "other-controllers"
"""Every member of the KRaft quorum that the other side of a link does not name."""
SIDES = (OTHERS, OTHER_AZS, OTHER_CONTROLLERS)
"""What the other side of a link may be besides hosts, AZs and roles."""

LONGEST_S = 600
"""The longest time of a moment."""
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_S)]
_MOST_STEPS = 50


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
    succeeds: Annotated[int, Meta(ge=0)] = 0
    """Number of the transactional producer whose `transactional.id` it takes over when it starts. That
    fences the other producer. 0: none."""
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


class Member(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A member of a consumer group."""

    az: str
    """The AZ of its client host."""
    starts: Annotated[int, Meta(ge=0)] = 0
    """Number of the step after which it joins; 0: before the first one."""
    stops: Annotated[int, Meta(ge=0)] = 0
    """Number of the step after which it leaves; 0: at the end."""


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A consumer group that reads one topic, and commits what it has read."""

    topic: Annotated[int, Meta(ge=0)] = 0
    """The topic of the schedule, counted from 0."""
    members: Annotated[tuple[Member, ...], Meta(min_length=1, max_length=20)]
    """Its members; the first one is there from beginning to end."""


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
    groups: Annotated[tuple[Group, ...], Meta(max_length=10)] = ()
    """Consumer groups besides those consumers."""
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
