"""A Kafka cluster that keeps its metadata in a KRaft quorum, whoever started it: what its nodes state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from harness.cluster.kraft_quorum import QuorumProbe, leaders
from harness.cluster.model import BOOT_S, first_answer
from harness.errors import InvalidRunError
from harness.kafka.model import TOPIC_ALREADY_EXISTS, PartitionState, Topic, TopicPartition
from harness.kafka.wire.admin import create_topics
from harness.lab.model import Host
from harness.waiting import wait_until


class KRaftCluster:
    """Dedicated controllers and brokers (`kraft`), or nodes that are both (`kraft-combined`)."""

    poll_s = 0.2

    def __init__(self, controllers: tuple[Host, ...], brokers: tuple[Host, ...], mode: str = "kraft") -> None:
        """``controllers`` are the voters of the quorum. Connects to nothing yet."""
        self.mode = mode
        self._controllers = controllers
        self._brokers = brokers
        self.quorum = QuorumProbe(controllers, brokers)

    def create_topics(self, topics: tuple[Topic, ...]) -> None:
        """Create topics with explicit assignments and wait until every broker knows their leaders."""
        hosts = {host.name: host for host in self._brokers}
        broker = hosts[self.operator_host()]
        for name, answer in create_topics(broker.broker_endpoint, topics).items():
            if answer.error not in (0, TOPIC_ALREADY_EXISTS):
                raise InvalidRunError(
                    f"Topic {name!r} was refused with error {answer.error}: {answer.message}"
                )
        preferred_leaders = {
            key: replicas[0]
            for topic in topics
            for key, replicas in zip(topic.topic_partitions, topic.assignment, strict=True)
        }
        names = [topic.name for topic in topics]
        for broker in self._brokers:
            self._wait(
                partial(_knows, broker, names, preferred_leaders),
                f"{broker.name} to know the leaders of {', '.join(names)}",
            )

    def registered(self) -> frozenset[int] | None:
        """Node ids of the brokers that are not fenced, as the most current broker states them."""
        metadata = self.quorum.metadata([])
        return None if metadata is None else frozenset(metadata.brokers)

    def controller(self) -> int | None:
        """Node id of the quorum's leader; if several claim to lead, the one with the latest epoch."""
        info = self.quorum.describe()
        return None if info is None else info.leader

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """A partition as the most current broker states it; None while the quorum has no leader."""
        key = TopicPartition(topic, partition)
        return self.partitions([key]).get(key)

    def partitions(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """Partitions as the most current broker states them; none while the quorum has no leader."""
        return self.quorum.partitions(keys)

    def operator_host(self) -> str:
        """A broker that forwards operator requests to the current leader of the quorum."""
        current = first_answer(lambda: self.quorum.most_current_brokers() or None, "its most current broker")
        if current is None:
            raise InvalidRunError("The controllers have no leader, so no broker can take a request.")
        return current[0].name

    def roles(self) -> Mapping[str, str]:
        """The active controller, and the state of each controller."""
        active = self.controller()
        modes = {host.name: self._role_of(host, active) for host in self._controllers}
        leading = next((name for name, role in modes.items() if role == "leader"), "nobody")
        return {"controller": leading, **modes}

    def check_alive(self) -> None:
        """Do nothing: who has not started the processes cannot tell whether they should run."""

    def close(self) -> None:
        """Do nothing: every query closes its own connection."""

    def _role_of(self, host: Host, active: int | None) -> str:
        if host.node_id == active:
            return "leader"
        follows = self.quorum.follows(host)
        return "down" if follows is None else f"follows node {follows}" if follows >= 0 else "no leader"

    def _wait(self, observe: Callable[[], object], awaiting: str, within_s: float = BOOT_S) -> None:
        wait_until(observe, within_s=within_s, awaiting=awaiting, poll_s=self.poll_s, abort=self.check_alive)


def _knows(broker: Host, topics: list[str], expected: Mapping[TopicPartition, int]) -> bool:
    return leaders(broker, topics) == expected
