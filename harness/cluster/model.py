"""What a cluster is and who starts it, in ZooKeeper mode and on KRaft."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from harness.errors import WaitTimeoutError
from harness.kafka.model import PartitionState, Topic, TopicPartition
from harness.kafka.versions import KafkaVersion
from harness.waiting import wait_until

T = TypeVar("T")
_ANSWER_S = 5.0
BOOT_S = 60.0
"""How long the nodes of a new cluster may take to start."""


def first_answer(ask: Callable[[], T | None], what: str) -> T | None:
    """Query the metadata store until it answers; None if it does not within 5 s.

    One query lasts at most a second, and on a busy machine one or two of them may time out.
    """
    try:
        return wait_until(
            ask,
            accept=lambda answer: answer is not None,
            within_s=_ANSWER_S,
            awaiting=f"the metadata store to name {what}",
        )
    except WaitTimeoutError:
        return None


def known_states(cluster: Cluster, keys: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
    """The states of partitions in the metadata store, those that it names within 5 s."""
    wanted, known = set(keys), dict[TopicPartition, PartitionState]()

    def all_known() -> bool | None:
        known.update(cluster.partitions(sorted(wanted - known.keys())))
        return wanted <= known.keys() or None

    if wanted:
        first_answer(all_known, "the states of the partitions")
    return known


class Distribution(Protocol):
    """A resolved Kafka version: its jars and class-data archives (see `harness.artifacts`)."""

    @property
    def spec(self) -> KafkaVersion:
        """What is particular to the version."""

    @property
    def version(self) -> str:
        """Kafka version."""

    @property
    def root(self) -> Path:
        """Its folder in the cache."""

    @property
    def sums(self) -> Mapping[str, str]:
        """SHA-256 of every jar, by file name."""

    def class_path(self) -> str:
        """Class path, identical for every process and for the archives."""

    def archive(self, main_class: str) -> Path | None:
        """Class-data archive for a main class, where there is one."""


class Cluster(Protocol):
    """A Kafka cluster, whoever started it: what its nodes state, and what they can be asked to do."""

    mode: str
    """The metadata mode: `zookeeper`, `kraft` or `kraft-combined`; in a migration, the current one."""
    poll_s: float
    """Time between two queries of the metadata store: on KRaft each opens new connections."""

    def create_topics(self, topics: tuple[Topic, ...]) -> None:
        """Create topics with explicit assignments and wait until every broker knows their leaders."""

    def registered(self) -> frozenset[int] | None:
        """Node ids of the registered, unfenced brokers; None if the metadata store does not answer."""

    def controller(self) -> int | None:
        """Node id of the active controller; None if there is none or the metadata store does not answer."""

    def operator_host(self) -> str:
        """A broker that accepts operator requests now: the controller, or on KRaft one that reaches it."""

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """A partition's state in the metadata store; None if unknown, or if it does not answer."""

    def partitions(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """The states of several partitions, without those that are unknown or not answered.

        It costs one request for all of them where the metadata store can answer so.
        """

    def roles(self) -> Mapping[str, str]:
        """Current holder of each role, for the manifest."""

    def check_alive(self) -> None:
        """Raise ProcessDiedError if a process is known to have ended that no fault has ended."""

    def close(self) -> None:
        """Close connections."""


class StartedCluster(Cluster, Protocol):
    """A cluster whose processes this run starts in a lab, with forced roles; the lab ends them."""

    def boot(self) -> None:
        """Start everything with the roles of the set-up; return when all brokers are registered."""

    def place_roles(self) -> None:
        """Give the roles of the set-up back to their hosts on a running cluster, in which every process runs.

        Raises InvalidRunError or WaitTimeoutError if that fails.
        """

    def start(self, host: str) -> None:
        """Start a host's process again and wait until the cluster knows it."""

    def upgrade(self, host: str, version: str, properties: Mapping[str, str]) -> None:
        """From its next start on a host runs this version, with properties that it alone gets.

        The version is that of the run, or the one that the set-up names. Raises UsageError for another one.
        """

    @property
    def asked_config(self) -> Mapping[str, Mapping[str, str]]:
        """Broker properties by host, as configured; compared with the effective ones."""
