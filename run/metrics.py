"""A cluster under test as OpenMetrics: what producers have achieved, and what brokers state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.kafka.model import PartitionState, TopicPartition
from harness.lab.model import Topology
from harness.observer.views import Views
from harness.openmetrics import Family, Sample, exposition
from workloads.protocol.results import StreamCounts

MESSAGES = Family("acked_messages", "counter", "Messages by producer and outcome.")
THROTTLED = Family("acked_throttled_ms", "counter", "By how much quotas delayed answers to a producer.")
ANSWERS = Family("acked_broker_answers", "gauge", "Whether the broker answered when it was asked last.")
LEADER = Family("acked_partition_leader", "gauge", "Id of the leader; -1: none.")
IN_SYNC = Family("acked_partition_in_sync_replicas", "gauge", "Replicas in the ISR.")
REPLICAS = Family("acked_partition_replicas", "gauge", "Assigned replicas.")


class Outcomes(Protocol):
    """How many messages of a producer have an outcome."""

    @property
    def ok(self) -> int: ...
    @property
    def fail(self) -> int: ...
    @property
    def info(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What is known at one moment."""

    outcomes: Mapping[str, Outcomes]
    """By the producer's name."""
    throttled_ms: Mapping[str, int]
    """By the producer's name, where it is known."""
    answers: Sequence[tuple[Mapping[str, object], bool]]
    """Labels of each broker, and whether it answers."""
    partitions: Mapping[TopicPartition, PartitionState]


def standing(
    counts: Mapping[str, StreamCounts], views: Views, partitions: Sequence[TopicPartition], topology: Topology
) -> Standing:
    """What a recording knows; ``counts`` are those of each producer, by its name."""
    states = {key: views.of("broker").partition(*key) for key in partitions}
    return Standing(
        outcomes=counts,
        throttled_ms={name: one.throttled_ms for name, one in counts.items()},
        answers=[
            ({"broker": host.node_id, "az": topology.az_name(host.az)}, views.answers(host.name))
            for host in topology.role("broker")
        ],
        partitions={key: state for key, state in states.items() if state is not None},
    )


def openmetrics(standings: Mapping[str, Standing]) -> str:
    """The metrics of what is under way, by the value of the label `run`; without a label if it is empty."""
    every = [({"run": run} if run else {}, one) for run, one in standings.items()]
    return exposition(
        (family, (({**run, **labels}, value) for run, one in every for labels, value in samples(one)))
        for family, samples in (
            (MESSAGES, _messages),
            (THROTTLED, lambda one: (({"producer": name}, ms) for name, ms in one.throttled_ms.items())),
            (ANSWERS, lambda one: ((labels, int(answers)) for labels, answers in one.answers)),
            (LEADER, lambda one: ((labels, state.leader) for labels, state in _stated(one))),
            (IN_SYNC, lambda one: ((labels, len(state.isr)) for labels, state in _stated(one))),
            (
                REPLICAS,
                lambda one: (
                    (labels, len(state.replicas))
                    for labels, state in _stated(one)
                    if state.replicas is not None
                ),
            ),
        )
    )


def _messages(one: Standing) -> Iterator[Sample]:
    for name, counts in one.outcomes.items():
        for outcome, count in (("ok", counts.ok), ("fail", counts.fail), ("info", counts.info)):
            yield {"producer": name, "outcome": outcome}, count


def _stated(one: Standing) -> Iterable[tuple[Mapping[str, object], PartitionState]]:
    return (
        ({"topic": key.topic, "partition": key.partition}, state) for key, state in one.partitions.items()
    )
