"""A schedule: what happens to a cluster and its clients during a run, as data (`schedule.json`).

The steps (`studies.steps.step`) are carried out in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from harness.kafka.model import Topic, TopicPartition
from studies.steps.step import Step
from workloads.protocol.spec import ShareAnswer

VERSION = 3
"""Version of the format. A seed belongs to a version, because another grammar makes other schedules."""
FILE = "schedule.json"

COORDINATED = 3
"""Brokers that hold the logs of transactions and of committed offsets."""
_MOST_STEPS = 50


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
    """A group that reads one topic: a consumer group, which commits what it has read, or a share group."""

    topic: Annotated[int, Meta(ge=0)] = 0
    """The topic of the schedule, counted from 0."""
    members: Annotated[tuple[Member, ...], Meta(min_length=1, max_length=20)]
    """Its members; the first one is there from beginning to end."""
    answers: Annotated[tuple[ShareAnswer, ...], Meta(max_length=20)] = ()
    """Of a share group (KIP-932): how a member acknowledges a record that is delivered for the first time, by
    its offset in turn. It accepts all others. Empty: a consumer group."""


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
    """Groups besides those consumers."""
    steps: Annotated[tuple[Step, ...], Meta(max_length=_MOST_STEPS)] = ()
    """What happens, in this order."""

    def encode(self) -> bytes:
        """The bytes of `schedule.json`; equal schedules have equal bytes."""
        fields = msgspec.to_builtins(self)
        for group in fields["groups"]:
            # Consumer groups are stored as they were before there were share groups, and keep their digests.
            if not group["answers"]:
                del group["answers"]
        return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"

    @property
    def transactional(self) -> bool:
        """Whether any producer is transactional."""
        return any(producer.transactional for producer in self.producers)

    @property
    def shared(self) -> bool:
        """Whether any group is a share group."""
        return any(group.answers for group in self.groups)

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
    topics: list[Topic] = []
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
        topics.append(
            Topic(plan.name + suffix, placed[0], partitions=plan.partitions, placed=placed, config=config)
        )
    return tuple(topics)
