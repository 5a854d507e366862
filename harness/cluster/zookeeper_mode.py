"""A Kafka cluster that keeps its metadata in ZooKeeper, whoever started it: what ZooKeeper states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from harness.cluster.model import BOOT_S, first_answer
from harness.errors import InvalidRunError
from harness.kafka.model import PartitionState, Topic, TopicPartition, broker_name
from harness.lab.model import Host
from harness.waiting import wait_until
from harness.zookeeper.four_letter import mode as zookeeper_mode
from harness.zookeeper.session import NoZooKeeperAnswerError, ZooKeeperSession
from harness.zookeeper.znodes import assigned_state, state_path, topic_path


class ZooKeeperCluster:
    """Brokers that keep their metadata in an ensemble of ZooKeeper nodes."""

    mode = "zookeeper"
    poll_s = 0.05

    def __init__(self, nodes: Sequence[Host]) -> None:
        """``nodes`` are the ensemble; the session prefers the first. Connects with `connect`."""
        self._nodes = tuple(nodes)
        self._session = ZooKeeperSession([node.zookeeper_endpoint for node in nodes])

    @property
    def registry(self) -> ZooKeeperSession:
        """The harness's session with ZooKeeper, for operator actions on znodes."""
        return self._session

    def connect(self, within_s: float = BOOT_S) -> None:
        """Begin the session with ZooKeeper. Raises WaitTimeoutError."""
        self._session.start(within_s)

    def create_topics(self, topics: tuple[Topic, ...]) -> None:
        """Create topics by their znodes and wait until the preferred replica of each partition leads."""
        for topic in topics:
            self._session.create_topic(topic)
        for topic in topics:
            for number, replicas in enumerate(topic.assignment):
                self._wait_for_leader(topic.name, number, replicas[0])

    def registered(self) -> frozenset[int] | None:
        """Broker ids under `/brokers/ids`; None if no ZooKeeper node answers."""
        try:
            return frozenset(int(name) for name in self._session.children("/brokers/ids"))
        except NoZooKeeperAnswerError:
            return None

    def controller(self) -> int | None:
        """The broker in `/controller`; None if there is none or no ZooKeeper node answers."""
        try:
            value = self._session.read_json("/controller")
        except NoZooKeeperAnswerError:
            return None
        return None if value is None else int(value["brokerid"])

    def operator_host(self) -> str:
        """The controller. Raises InvalidRunError while there is none."""
        controller = first_answer(self.controller, "a controller")
        if controller is None:
            raise InvalidRunError("There is no controller, so no broker can take an operator request.")
        return broker_name(controller)

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """The partition by its znodes; None if they do not exist or no ZooKeeper node answers."""
        key = TopicPartition(topic, partition)
        return self.partitions([key]).get(key)

    def partitions(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """Partitions by their znodes; left out are those without, and all after one without an answer."""
        assignments: dict[str, Any] = {}
        states = {}
        with suppress(NoZooKeeperAnswerError):  # what was answered until then need not be asked again
            for key in keys:
                value = self._session.read_json(state_path(key))
                if key.topic not in assignments:
                    assignments[key.topic] = self._session.read_json(topic_path(key.topic))
                assignment = assignments[key.topic]
                if value is not None and assignment is not None:
                    states[key] = assigned_state(value, assignment, key.partition)
        return states

    def roles(self) -> Mapping[str, str]:
        """The controller, and the mode of each ZooKeeper node."""
        seen = {node.name: zookeeper_mode(node.zookeeper_endpoint) or "down" for node in self._nodes}
        controller = self.controller()
        return {"controller": "nobody" if controller is None else broker_name(controller), **seen}

    def check_alive(self) -> None:
        """Do nothing: who has not started the processes cannot tell whether they should run."""

    def close(self) -> None:
        """End the session with ZooKeeper."""
        self._session.close()

    def _is_registered(self, node_id: int) -> bool:
        registered = self.registered()
        if registered is None:
            raise NoZooKeeperAnswerError("no ZooKeeper node answers")
        return node_id in registered

    def _wait_for_leader(self, topic: str, partition: int, leader: int) -> None:
        def led() -> bool:
            state = self.partition(topic, partition)
            return state is not None and state.leader == leader

        self._wait(led, f"broker {leader} to lead {topic}/{partition}")

    def _zookeepers_that(self, mode: str | None) -> list[str]:
        """The nodes in this mode; with None, the nodes that do not serve."""
        return [node.name for node in self._nodes if zookeeper_mode(node.zookeeper_endpoint) == mode]

    def _wait(self, observe: Callable[[], object], awaiting: str, within_s: float = BOOT_S) -> None:
        wait_until(
            observe,
            within_s=within_s,
            awaiting=awaiting,
            abort=self.check_alive,
        )
