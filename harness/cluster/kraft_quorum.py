"""What a KRaft quorum says of itself, asked node by node: who leads, and which broker knows the most."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from harness.cluster.model import PartitionState
from harness.kafka.wire.metadata import BrokerView, metadata
from harness.kafka.wire.quorum import QuorumView, controller_fetch_probe, describe_quorum
from harness.lab.model import Host

PROBE_S = 1.0

T = TypeVar("T")


@dataclass(frozen=True)
class QuorumProbe:
    """Asks controllers and brokers; every call uses fresh connections of one second at most."""

    controllers: tuple[Host, ...]
    brokers: tuple[Host, ...]

    def describe(self) -> QuorumView | None:
        """The quorum as its leader describes it: of several that claim to lead, the one of the last epoch."""
        asked = _answers(self.controllers, lambda host: describe_quorum((host.address, 9093), PROBE_S))
        claiming = [view for _, view in asked if view.error == 0 and view.leader >= 0]
        return max(claiming, key=lambda view: view.epoch, default=None)

    def claimants(self) -> frozenset[str]:
        """Controllers that claim to lead right now; two of them are a split brain."""
        asked = _answers(self.controllers, lambda host: describe_quorum((host.address, 9093), PROBE_S))
        return frozenset(host.name for host, view in asked if view.error == 0)

    def follows(self, host: Host) -> int | None:
        """Whom one controller takes for the leader (-1: nobody); None when it does not answer."""
        for _, view in _answers((host,), lambda one: controller_fetch_probe((one.address, 9093))):
            return view.leader
        return None

    def informed(self) -> tuple[Host, ...]:
        """Brokers in the order of how much of the quorum's log they hold, as its leader knows them.

        A broker that follows a deposed leader, or none, falls behind within half a second.
        """
        quorum = self.describe()
        if quorum is None:
            return ()
        ends = dict((*quorum.observers, *quorum.voters))
        known = [host for host in self.brokers if ends.get(host.node_id, -1) >= 0]
        return tuple(sorted(known, key=lambda host: -ends[host.node_id]))

    def view(self, topics: Iterable[str] | None = None) -> BrokerView | None:
        """The cluster as the best informed broker that answers describes it."""
        wanted = None if topics is None else list(topics)
        for host in self.informed():
            asked = _answers((host,), lambda one: metadata((one.address, 9092), wanted, timeout_s=PROBE_S))
            for _, view in asked:
                return view
        return None

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        """One partition as the best informed broker describes it."""
        view = self.view([topic])
        found = None if view is None else view.partitions.get((topic, partition))
        if found is None:
            return None
        return PartitionState(found.leader, -1 if found.epoch is None else found.epoch, found.isr)

    def leaders(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """Leader of each partition, as the first of the brokers that answers says."""
        wanted = list(topics)
        asked = _answers(self.brokers, lambda one: metadata((one.address, 9092), wanted, timeout_s=PROBE_S))
        for _, view in asked:
            return {key: state.leader for key, state in view.partitions.items()}
        return {}

    def knows_itself(self, host: Host) -> bool:
        """A broker answers, and counts itself among the live ones: it has caught up and is not fenced."""
        asked = _answers((host,), lambda one: metadata((one.address, 9092), [], timeout_s=PROBE_S))
        return any(host.node_id in view.brokers for _, view in asked)


def _answers(hosts: Iterable[Host], ask: Callable[[Host], T]) -> list[tuple[Host, T]]:
    found = []
    for host in hosts:
        try:
            found.append((host, ask(host)))
        except (OSError, ValueError):  # down, paused, or closing while it answers
            continue
    return found
