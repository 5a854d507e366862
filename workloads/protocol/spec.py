"""What the harness asks of a client: plain data that crosses the agent's pipe as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from harness.errors import UsageError
from workloads.protocol.results import (
    PartitionRead,
    ReadResult,
    SendResult,
    StreamCounts,
    ZombieResult,
)

__all__ = [
    "Load",
    "PartitionRead",
    "ReadResult",
    "Reader",
    "SendResult",
    "StreamCounts",
    "Via",
    "Writer",
    "ZombieResult",
    "as_json",
    "load_from_json",
    "reader_from_json",
    "writer_from_json",
]

Via = Literal["raw", "librdkafka"]


@dataclass(frozen=True)
class Writer:
    """A producer: its number is unique in the run, and its settings never change after its first message.

    ``brokers`` are host names (`broker1`) or `address:port`: exactly one for ``raw``, which sends to that
    broker whatever it thinks of leadership; the bootstrap list for ``librdkafka``.
    """

    number: int
    name: str
    brokers: tuple[str, ...]
    via: Via = "raw"
    acks: int = -1
    role: Literal["scripted", "stream"] = "scripted"
    idempotent: bool = False
    retries: int = 0
    request_timeout_s: float = 2.0
    """How long the broker may take (the time-out inside the ProduceRequest)."""
    delivery_timeout_s: float | None = None
    """librdkafka's message.timeout.ms; None: time for all retries and 3 s more."""
    transactional_id: str = ""
    produce_version: int = 7
    """Version of raw ProduceRequests: 2 for brokers before 0.11, 3 or more after."""
    connect_timeout_s: float = 1.0
    node: int | None = None
    """Node id of a raw writer's broker; filled in by `workloads.client.client` where the host is known."""
    config: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """More librdkafka settings; they win over all others."""

    def __post_init__(self) -> None:
        who = f"Writer {self.number} ({self.name})"
        if not self.brokers or (self.via == "raw" and len(self.brokers) != 1):
            wanted = "exactly one broker" if self.via == "raw" else "at least one broker"
            raise UsageError(f"{who} is given the brokers {list(self.brokers)}; name {wanted}.")
        if not (self.idempotent or self.transactional_id):
            return
        if self.via == "raw":
            raise UsageError(f"{who} is a raw client, which is never idempotent; say via='librdkafka'.")
        if self.acks != -1:
            raise UsageError(f"{who} is idempotent with acks={self.acks}; idempotence needs acks=-1.")

    @property
    def limit_s(self) -> float:
        """The longest a message of this writer can take to get its outcome."""
        if self.via == "raw":
            return self.connect_timeout_s + self.request_timeout_s + 1.0
        if self.delivery_timeout_s is not None:
            return self.delivery_timeout_s
        return (self.retries + 1) * (self.request_timeout_s + 0.2) + 3.0

    def settings(self) -> dict[str, Any]:
        """The producer's whole librdkafka configuration."""
        config: dict[str, Any] = {
            "bootstrap.servers": ",".join(self.brokers),
            "client.id": self.name,
            "acks": self.acks,
            "enable.idempotence": self.idempotent,
            "retries": self.retries,
            "retry.backoff.ms": 100,
            "request.timeout.ms": int(self.request_timeout_s * 1000),
            "message.timeout.ms": int(self.limit_s * 1000),
            "socket.timeout.ms": int(self.request_timeout_s * 1000) + 5000,
            "socket.connection.setup.timeout.ms": 1000,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 1000,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "linger.ms": 0,
            "log_level": 2,
        }
        if self.transactional_id:
            config["transactional.id"] = self.transactional_id
            config["transaction.timeout.ms"] = max(int(self.limit_s * 1000), config["socket.timeout.ms"])
        if self.idempotent or self.transactional_id:
            # librdkafka refuses idempotence without acks=all and retries.
            config |= {"enable.idempotence": True, "acks": -1, "retries": max(self.retries, 1)}
        return config | dict(self.config)


@dataclass(frozen=True)
class Load:
    """What a background stream sends; it ends by itself at ``max_count`` messages or after ``max_s``."""

    topic: str
    partitions: tuple[int, ...] = (0,)
    rate: float = 50.0
    """Messages a second; debt of a slow moment is made up for up to one second's worth."""
    size_bytes: int = 100
    max_count: int = 10_000_000
    max_s: float = 3600.0
    max_in_flight: int = 20_000
    """With this many unanswered messages the stream pauses: availability shows, memory stays bounded."""

    def __post_init__(self) -> None:
        if self.rate <= 0 or not self.partitions:
            raise UsageError(
                f"A stream to {self.topic} at {self.rate:g} messages a second into the partitions "
                f"{list(self.partitions)} sends nothing; give it a rate above 0 and a partition."
            )


@dataclass(frozen=True)
class Reader:
    """A consumer: its number is unique in the run. Without ``group`` it assigns its partitions by hand."""

    number: int
    name: str
    brokers: tuple[str, ...]
    partitions: tuple[tuple[str, int], ...]
    """(topic, partition); a group member subscribes to the topics named here."""
    group: str = ""
    commit: bool = True
    """A group member commits after each poll that returned something."""
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    check_crcs: bool = True
    pinned: bool = False
    """Ask the one broker in ``brokers`` alone, whoever leads: what a client sees that reaches no other."""
    config: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """More settings: librdkafka's for a group member, else kafka-python's."""

    def group_settings(self) -> dict[str, Any]:
        """librdkafka's configuration for a group member."""
        config: dict[str, Any] = {
            "bootstrap.servers": ",".join(self.brokers),
            "client.id": self.name,
            "group.id": self.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": self.isolation,
            "check.crcs": self.check_crcs,
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 100,
            "socket.connection.setup.timeout.ms": 1000,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 1000,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "session.timeout.ms": 6000,
            "log_level": 2,
        }
        return config | dict(self.config)

    def hand_settings(self) -> dict[str, Any]:
        """kafka-python's configuration for partitions assigned by hand."""
        config: dict[str, Any] = {
            "bootstrap_servers": list(self.brokers),
            "client_id": self.name,
            "group_id": None,
            "enable_auto_commit": False,
            "isolation_level": self.isolation,
            "check_crcs": self.check_crcs,
            "fetch_max_wait_ms": 100,
            "request_timeout_ms": 5000,
            "reconnect_backoff_ms": 50,
            "reconnect_backoff_max_ms": 500,
            "metadata_max_age_ms": 1000,
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
        }
        return config | dict(self.config)


def as_json(spec: Any) -> dict[str, Any]:
    """A dataclass of this module as the agent's pipe carries it."""
    return asdict(spec)


def writer_from_json(data: Mapping[str, Any]) -> Writer:
    """The `Writer` that `as_json` wrote."""
    return Writer(**{**data, "brokers": tuple(data["brokers"])})


def load_from_json(data: Mapping[str, Any]) -> Load:
    """The `Load` that `as_json` wrote."""
    return Load(**{**data, "partitions": tuple(data["partitions"])})


def reader_from_json(data: Mapping[str, Any]) -> Reader:
    """The `Reader` that `as_json` wrote."""
    parts = tuple((str(topic), int(number)) for topic, number in data["partitions"])
    return Reader(**{**data, "brokers": tuple(data["brokers"]), "partitions": parts})
