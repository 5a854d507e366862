"""Kafka's own nouns, each defined once: topics, partitions and their state, node ids and listener ports.

Imports of the project only what security consists of, so that the harness, the clients and the checkers can
share it.

**Node ids.** Broker *n* has the host name `broker<n>` and the node id *n*. A dedicated KRaft controller
`controller<n>` has the node id *10 + n*, or *100 + n* where more than ten brokers have the ids from 11 on,
because controllers and brokers share one id space. In `kraft-combined` a node is broker and controller at
once, with the broker's id. `node_host` finds the host of an id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Literal, NamedTuple

from harness.errors import UsageError
from harness.kafka.security import PLAINTEXT, ClientSecurity

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
"""The listener of a KRaft controller."""
ZOOKEEPER_PORT = 2181
"""Where a ZooKeeper node serves its clients, brokers among them."""
ZOOKEEPER_PEER_PORTS = (2888, 3888)
"""Where ZooKeeper nodes talk to each other: followers to their leader, and elections."""

TRANSACTION_LOG = "__transaction_state"
OFFSETS_LOG = "__consumer_offsets"
SHARE_LOG = "__share_group_state"
"""Internal topics of the coordinators of transactions and of groups."""

NO_LEADER = -1
"""The leader of a partition, or of a KRaft quorum, that has none."""

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
REQUEST_TIMED_OUT = 7
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
POLICY_VIOLATION = 44
ELECTION_NOT_NEEDED = 84
"""Kafka's error codes, by their names in the protocol."""

_CONTROLLER_IDS_FROM = 10
_LATER_CONTROLLER_IDS_FROM = 100

Generation = Literal["v1", "v2"]
"""Versions of the transaction protocol; v2 is KIP-890 part 2, in Kafka 4.0 and later."""
Library = Literal["", "librdkafka", "java"]
"""A client library by which claims differ; empty: any."""


class ProducerIdentity(NamedTuple):
    """What a broker gives an idempotent producer: its id, and the epoch that fences older producers."""

    producer_id: int
    epoch: int


@dataclass(frozen=True)
class Endpoint:
    """Where a node is reached: one listener of a broker or controller, or the client port of ZooKeeper."""

    host: str
    """Host name or IP address to connect to."""
    port: int
    """TCP port."""
    _: KW_ONLY
    listener: str = "PLAINTEXT"
    """Name of the listener in the node's configuration."""
    security: ClientSecurity = PLAINTEXT
    """What the listener speaks, and what a client needs for it."""
    node_id: int | None = None
    """Id of the node in Kafka or ZooKeeper; None: unknown."""
    node: str = ""
    """Name of the node's host in the lab, such as `broker1`; empty: unknown."""

    def __str__(self) -> str:
        """`host:port`, as in bootstrap.servers."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def label(self) -> str:
        """How messages call the node: by its name in the lab, or by its address."""
        return self.node or str(self)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as sockets take them."""
        return self.host, self.port

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """The endpoint that `host:port` names. Raises ValueError."""
        host, _, port = text.rpartition(":")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))


class TopicPartition(NamedTuple):
    """One partition of a topic. It equals, and hashes as, the plain pair ``(topic, partition)``."""

    topic: str
    """The topic."""
    partition: int
    """Number of the partition, from 0."""

    def __str__(self) -> str:
        """`topic/partition`, the notation that messages carry and people type."""
        return f"{self.topic}/{self.partition}"

    @property
    def folder(self) -> str:
        """Name of a replica's folder in a broker's data folder: `<topic>-<partition>`."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, kw_only=True)
class PartitionState:
    """Leader, leader epoch and ISR of a partition as one source states them: a metadata store or a broker.

    ``leader`` is NO_LEADER when there is none. ``leader_epoch`` is None if the source does not state it
    (Metadata responses below version 7), and ``replicas`` is None if it was not asked for. During a
    reassignment, ``replicas`` are the old and the new ones (KIP-455).
    """

    leader: int
    """Node id of the leader, or NO_LEADER."""
    leader_epoch: int | None
    """The leader epoch."""
    isr: tuple[int, ...]
    """Node ids of the in-sync replicas."""
    replicas: tuple[int, ...] | None = None
    """Node ids of all replicas: the current assignment, in its order."""
    moving: tuple[int, ...] = ()
    """Those that a reassignment under way adds or removes. Only ZooKeeper states them: a KRaft controller
    ends a reassignment in the same record that completes the ISR."""

    @property
    def isr_is_full(self) -> bool:
        """Whether exactly the replicas of the current assignment are in sync, and none is being moved."""
        return set(self.isr) == set(self.replicas or ()) and not self.moving


@dataclass(frozen=True)
class Topic:
    """A topic to create. ``replicas`` are the broker ids of its partitions, preferred leader first.

    With ``spread`` each further partition rotates them, so that every broker leads some. ``placed`` gives
    each partition replicas of its own.
    """

    name: str
    """Its name."""
    replicas: tuple[int, ...]
    """Broker ids, preferred leader first."""
    _: KW_ONLY
    partitions: int = 1
    """Number of partitions."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Topic configuration, by Kafka's names."""
    spread: bool = False
    """Rotate the replicas from partition to partition."""
    placed: tuple[tuple[int, ...], ...] = ()
    """The replicas of each partition, instead of ``replicas``."""
    later: int = 0
    """How many of its last partitions it is created without: `Operator.add_partitions` adds them."""

    def __post_init__(self) -> None:
        if not 0 <= self.later < max(self.partitions, 1):
            raise UsageError(
                f"The topic {self.name!r} has {self.partitions} partition(s), {self.later} of them added "
                "later; create it with at least one."
            )

    @property
    def at_creation(self) -> Topic:
        """The topic as it is created, without the partitions that are added later."""
        first = self.assignment[: self.partitions - self.later]
        return replace(self, partitions=len(first), placed=first, later=0) if self.later else self

    @property
    def assignment(self) -> tuple[tuple[int, ...], ...]:
        """Replicas of each partition, in order of partition."""
        if self.placed:
            return self.placed
        if not self.spread:
            return (self.replicas,) * self.partitions
        size = len(self.replicas)
        turns = (number % size for number in range(self.partitions))
        return tuple(self.replicas[turn:] + self.replicas[:turn] for turn in turns)

    @property
    def internal(self) -> bool:
        """Whether brokers keep their own records in it, such as `__transaction_state`."""
        return self.name.startswith("__")

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        """All its partitions, in order."""
        return tuple(TopicPartition(self.name, number) for number in range(self.partitions))


def broker_name(node_id: int) -> str:
    """Host name of a broker: 1 → `broker1`."""
    return f"broker{node_id}"


def broker_id(name: str) -> int:
    """Node id of a broker by its host name: `broker1` → 1. Raises ValueError for any other name."""
    role, _, number = name.partition("broker")
    if role or not number.isdigit():
        raise ValueError(f"{name!r} is not the host name of a broker, such as 'broker1'")
    return int(number)


def node_host(node_id: int, hosts: Collection[str]) -> str:
    """Host name of a node id among ``hosts``: that of the broker, or else of the dedicated controller.

    An id that belongs to none of them is named as a broker's.
    """
    broker = broker_name(node_id)
    if broker not in hosts:
        for first in (_CONTROLLER_IDS_FROM, _LATER_CONTROLLER_IDS_FROM):
            if (controller := f"controller{node_id - first}") in hosts:
                return controller
    return broker


def controller_id(number: int, brokers: int = 3) -> int:
    """Node id of a dedicated KRaft controller: 1 → 11, or 101 where brokers have the ids from 11 on."""
    return (_CONTROLLER_IDS_FROM if brokers <= _CONTROLLER_IDS_FROM else _LATER_CONTROLLER_IDS_FROM) + number
