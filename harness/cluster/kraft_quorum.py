"""Queries of a KRaft quorum, node by node: who leads, and which broker has the most recent metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from harness.kafka.model import PartitionState, TopicPartition
from harness.kafka.wire.metadata import BrokerMetadata, metadata
from harness.kafka.wire.quorum import QuorumInfo, controller_fetch_probe, describe_quorum
from harness.lab.model import Host

PROBE_S = 1.0

T = TypeVar("T")


@dataclass(frozen=True)
class QuorumProbe:
    """Queries controllers and brokers; every call uses new connections, each for one second at most."""

    controllers: tuple[Host, ...]
    brokers: tuple[Host, ...]

    def describe(self) -> QuorumInfo | None:
        """The quorum as its leader describes it; if several claim to lead, the one with the latest epoch."""
        answers = _answers(self.controllers, lambda host: describe_quorum(host.controller_endpoint, PROBE_S))
        leading = [info for _, info in answers if info.error == 0 and info.leader >= 0]
        return max(leading, key=lambda info: info.epoch, default=None)

    def follows(self, host: Host) -> int | None:
        """Node id of the leader that one controller follows (-1: none); None if it does not answer."""
        for _, probe in _answers((host,), lambda one: controller_fetch_probe(one.controller_endpoint)):
            return probe.leader
        return None

    def most_current_brokers(self) -> tuple[Host, ...]:
        """Brokers that hold part of the metadata log, as its leader knows them; the most current first.

        A broker that follows a deposed leader, or none, falls behind within half a second.
        """
        quorum = self.describe()
        if quorum is None:
            return ()
        ends = dict((*quorum.observers, *quorum.voters))
        reached = [host for host in self.brokers if ends.get(host.node_id, -1) >= 0]
        return tuple(sorted(reached, key=lambda host: -ends[host.node_id]))

    def metadata(self, topics: Iterable[str] | None = None) -> BrokerMetadata | None:
        """Metadata of the most current broker that answers."""
        for host in self.most_current_brokers():
            for view in _metadata((host,), topics):
                return view
        return None

    def partitions(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """Partitions as the most current broker describes them."""
        wanted = set(keys)
        view = self.metadata(sorted({key.topic for key in wanted})) if wanted else None
        return {} if view is None else {k: state for k, state in view.partitions.items() if k in wanted}

    def knows_itself(self, host: Host) -> bool:
        """Whether a broker answers and lists itself as live: it has caught up and is not fenced."""
        return any(host.node_id in view.brokers for view in _metadata((host,), []))


def leaders(broker: Host, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """Leader of each partition as one broker states it; none if it does not answer."""
    for view in _metadata((broker,), topics):
        return {key: state.leader for key, state in view.partitions.items()}
    return {}


def _metadata(brokers: Iterable[Host], topics: Iterable[str] | None) -> list[BrokerMetadata]:
    topic_names = None if topics is None else list(topics)
    answers = _answers(brokers, lambda one: metadata(one.broker_endpoint, topic_names, timeout_s=PROBE_S))
    return [view for _, view in answers]


def _answers(hosts: Iterable[Host], ask: Callable[[Host], T]) -> list[tuple[Host, T]]:
    answers = []
    for host in hosts:
        try:
            answers.append((host, ask(host)))
        except (OSError, ValueError):  # down, paused, or closing while it answers
            continue
    return answers
