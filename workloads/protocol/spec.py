"""Specifications of what a client runs: a producer, the load of a background stream, or a consumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from harness.clock import Anchor
from harness.errors import UsageError
from harness.history.identity import SEQ_DIGITS
from harness.kafka.model import Endpoint, Generation, TopicPartition
from workloads.protocol.lines import HELLO_S

Isolation = Literal["read_committed", "read_uncommitted"]
"""isolation.level of a consumer."""
Via = Literal["raw", "librdkafka", "java", "program"]
"""The client library: ``raw`` is one ProduceRequest per message, without metadata and without retries.

``java`` is the official Java client, and ``program`` one that the user names. Both run in processes of their
own that speak the client protocol (`workloads.protocol.lines`)."""
LIBRARIES = ("librdkafka", "java", "program")
"""The libraries that run complete clients."""
ShareAnswer = Literal["accept", "release", "reject", "renew"]
"""How a share consumer acknowledges a record (KIP-932; `renew`: KIP-1222)."""
Guarantee = Literal["exactly_once_v2", "at_least_once"]
"""processing.guarantee of an application of Kafka Streams."""
PROGRAMS = ("java", "program")
"""The libraries that speak the client protocol."""
ConfigValue: TypeAlias = str | int | float | bool
Config: TypeAlias = Mapping[str, ConfigValue]


def _reaching(brokers: tuple[Endpoint, ...]) -> dict[str, ConfigValue]:
    """The properties with which a librdkafka client reaches brokers, secrets included."""
    security = brokers[0].security
    return {
        "bootstrap.servers": ",".join(map(str, brokers)),
        # librdkafka's time for the connection includes the handshake.
        "socket.connection.setup.timeout.ms": int((1 + security.handshake_s) * 1000),
        **security.librdkafka(),
    }


@dataclass(frozen=True, kw_only=True)
class ClientProgram:
    """A program that speaks the client protocol; an agent starts it once, for all its producers."""

    via: Via
    argv: tuple[str, ...]
    """Its command line, as seen inside a client host."""
    name: str
    """How the user names it: `java` or a path."""
    version: str = ""
    """Version of its library, if the harness chose it."""


DEFAULT_RETRIES = 2_147_483_647
"""Kafka's default of `retries`: only the delivery time-out ends them."""


@dataclass(frozen=True, kw_only=True)
class ProducerSpec:
    """A producer and its settings, which never change after its first message."""

    writer: int
    """The producer's number in the history, unique in the run (see `workloads.protocol`)."""
    name: str
    brokers: tuple[Endpoint, ...]
    """The bootstrap servers, except for ``raw``.

    A ``raw`` producer has exactly one, and sends every message there, whether or not that broker leads the
    partition. With a raw transactional producer each request names its broker.
    """
    via: Via = "raw"
    acks: int = -1
    """0, 1 or -1 (all)."""
    role: Literal["scripted", "stream"] = "scripted"
    interval_ns: int | None = None
    """Time between two messages that its stream is asked to send; None: it has none."""
    idempotent: bool = False
    """enable.idempotence"""
    retries: int = 0
    request_timeout_s: float = 2.0
    """Time the broker has to answer (`timeout_ms` of the ProduceRequest)."""
    delivery_timeout_s: float | None = None
    """librdkafka's delivery.timeout.ms (message.timeout.ms); None: the time of all retries plus 3 s."""
    transactional_id: str = ""
    transaction_timeout_s: float | None = None
    """transaction.timeout.ms; None: as long as a message may take."""
    transaction_protocol: Generation = "v1"
    """The transaction protocol that a ``raw`` producer speaks."""
    produce_version: int = 7
    """Version of raw ProduceRequests: 2 for brokers before 0.11, 3 or higher for later ones."""
    connect_timeout_s: float = 1.0
    event_age_s: float = 0.0
    """By how much the timestamps of its records are older than the time of sending; below 0: newer."""
    config: Config = field(default_factory=dict)
    """More settings, by librdkafka's names (`workloads.protocol.java_names` renames them for other clients).
    They override all others."""

    def __post_init__(self) -> None:
        who = f"Producer {self.writer} ({self.name})"
        pinned = self.via == "raw" and not self.transactional_id
        if not self.brokers or (pinned and len(self.brokers) != 1):
            count = "exactly one broker" if pinned else "at least one broker"
            labels = [broker.label for broker in self.brokers]
            raise UsageError(f"{who} has the brokers {labels}; name {count}.")
        if (self.idempotent or self.transactional_id) and self.acks != -1:
            raise UsageError(f"{who} is idempotent and has acks={self.acks}; idempotence needs acks=-1.")

    @property
    def event_age_ms(self) -> int | None:
        """`event_age_s` in ms; None: the client chooses the timestamps."""
        return round(self.event_age_s * 1000) or None

    def timestamp_ms(self) -> int | None:
        """Timestamp of a record that is sent now, by the wall clock; None: the client chooses it."""
        age_ms = self.event_age_ms
        return None if age_ms is None else Anchor.take().wall_ns // 1_000_000 - age_ms

    @property
    def creation_s(self) -> float:
        """Time that the producer's creation may take: a client program may start a process for it."""
        return HELLO_S if self.via in PROGRAMS else 0.0

    @property
    def names_sequences(self) -> bool:
        """Whether the scenario gives each message its sequence number."""
        return self.via == "raw" and self.idempotent and not self.transactional_id

    @property
    def effective_delivery_timeout_s(self) -> float:
        """Longest time from giving the client a message to its outcome: Kafka's delivery.timeout.ms."""
        if self.via == "raw":
            connect_s = self.connect_timeout_s + self.brokers[0].security.handshake_s
            return connect_s + self.request_timeout_s + 1.0
        if self.delivery_timeout_s is not None:
            return self.delivery_timeout_s
        all_retries_s = (self.retries + 1) * (self.request_timeout_s + 0.2) + 3.0
        limit_s = self.transaction_timeout_s if self.transactional_id else None
        return all_retries_s if limit_s is None else min(all_retries_s, limit_s)

    @property
    def transaction_timeout_ms(self) -> int:
        """transaction.timeout.ms: when the coordinator aborts a transaction that nobody has ended."""
        if self.transaction_timeout_s is not None:
            return int(self.transaction_timeout_s * 1000)
        return max(int(self.effective_delivery_timeout_s * 1000), int(self.request_timeout_s * 1000) + 5000)

    def librdkafka_config(self) -> dict[str, ConfigValue]:
        """The producer's complete librdkafka configuration."""
        request_timeout_ms = int(self.request_timeout_s * 1000)
        delivery_timeout_ms = int(self.effective_delivery_timeout_s * 1000)
        socket_timeout_ms = request_timeout_ms + 5000
        config: dict[str, ConfigValue] = {
            **_reaching(self.brokers),
            "client.id": self.name,
            "acks": self.acks,
            "enable.idempotence": self.idempotent,
            "retries": self.retries,
            "retry.backoff.ms": 100,
            "request.timeout.ms": request_timeout_ms,
            "message.timeout.ms": delivery_timeout_ms,
            "socket.timeout.ms": socket_timeout_ms,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 1000,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "linger.ms": 0,
            "log_level": 2,
        }
        if self.transactional_id:
            # librdkafka rejects messages and requests that may outlast the transaction.
            config["transactional.id"] = self.transactional_id
            config["transaction.timeout.ms"] = self.transaction_timeout_ms
            config["socket.timeout.ms"] = min(socket_timeout_ms, self.transaction_timeout_ms)
        if self.idempotent or self.transactional_id:
            # librdkafka rejects idempotence without acks=all and retries. While the markers of a transaction
            # are written, brokers answer messages of the next one with CONCURRENT_TRANSACTIONS (KIP-890), and
            # a transactional producer repeats them until delivery.timeout.ms, as by default.
            least = DEFAULT_RETRIES if self.transactional_id else 1
            config |= {"enable.idempotence": True, "acks": -1, "retries": max(self.retries, least)}
        return config | dict(self.config)


@dataclass(frozen=True, kw_only=True)
class Route:
    """The brokers that the requests for one message of a raw transactional producer go to."""

    leader: Endpoint
    """The broker to write to."""
    coordinator: Endpoint
    """The coordinator of the producer's transactions."""


@dataclass(frozen=True, kw_only=True)
class StreamLoad:
    """What a background stream sends. It ends by itself after ``max_count`` messages or ``max_s`` seconds."""

    topic: str
    """The topic to send to."""
    partitions: tuple[int, ...] = (0,)
    """The partitions to send to, in turn."""
    rate: float = 50.0
    """Messages per second. After a pause the stream catches up on the messages of at most one second."""
    size_bytes: int = 100
    """Size of a message's value."""
    sizes: tuple[int, ...] = ()
    """Sizes of values instead, each of them as likely."""
    keys: int = 0
    """How many keys messages have; each key has one partition. 0: none, and partitions come in turn."""
    skew: float = 0.0
    """Exponent of Zipf's law, by which the first keys are more frequent; 0: all are as likely."""
    max_count: int = 10**SEQ_DIGITS
    """Number of messages after which it ends."""
    max_s: float = 7 * 86_400.0
    """Time after which it ends."""
    max_in_flight: int = 20_000
    """The stream pauses while this many messages have no outcome, which bounds its memory."""
    transaction: int = 0
    """Messages of each transaction; 0: they are in none."""
    abort_every: int = 0
    """The last of so many transactions is aborted; 0: all are committed."""
    renewed: bool = False
    """After a fatal error of librdkafka, whose producer then sends nothing any more, another one goes on."""
    yields: bool = False
    """Its client runs after the cluster and the harness: on a busy machine, the rate falls first."""

    def __post_init__(self) -> None:
        if self.rate <= 0 or not self.partitions:
            raise UsageError(
                f"A stream to {self.topic} with {self.rate:g} messages per second and the partitions "
                f"{list(self.partitions)} sends nothing; set a rate above 0 and at least one partition."
            )
        if self.max_count > 10**SEQ_DIGITS:
            raise UsageError(
                f"A stream to {self.topic} of {self.max_count} messages is longer than streams can be; set a "
                f"max_count of at most {10**SEQ_DIGITS}."
            )

    @property
    def interval_ns(self) -> int:
        """Time from one message to the next."""
        return max(1, round(1e9 / self.rate))

    @property
    def shaped(self) -> bool:
        """Whether messages differ in size or have keys."""
        return bool(self.sizes or self.keys)

    @property
    def targets(self) -> tuple[tuple[str, int], ...]:
        """Topic and partition of the messages; without keys, in turn."""
        return tuple((self.topic, partition) for partition in self.partitions)


@dataclass(frozen=True, kw_only=True)
class ConsumerSpec:
    """A consumer: a member of a consumer group if ``group`` is set, otherwise with assigned partitions."""

    reader: int
    """The consumer's number in the history, unique in the run."""
    name: str
    brokers: tuple[Endpoint, ...]
    via: Via = "librdkafka"
    """The library of a consumer that reads until it is stopped; one that reads to the end uses librdkafka."""
    partitions: tuple[TopicPartition, ...]
    """The partitions to assign; a group member subscribes to their topics."""
    group: str = ""
    answers: tuple[ShareAnswer, ...] = ()
    """Of a share consumer: how it acknowledges a record that is delivered for the first time, by its offset
    in turn. It accepts all others. Empty: no share consumer, and ``group`` is a consumer group."""
    commit: bool = True
    """A group member commits its offsets after each poll that returned records."""
    commit_every_s: float = 0.0
    """A librdkafka member commits at most this often."""
    isolation_level: Isolation = "read_committed"
    check_crcs: bool = True
    pinned: bool = False
    """Fetch from the one broker in ``brokers``, whether or not it leads.

    This shows what a client sees that can reach only this broker.
    """
    config: Config = field(default_factory=dict)
    """More settings, by librdkafka's names; they override all others."""

    def librdkafka_config(self) -> dict[str, ConfigValue]:
        """The complete librdkafka configuration, which always names a group."""
        config: dict[str, ConfigValue] = {
            **_reaching(self.brokers),
            "client.id": self.name,
            "group.id": self.group or self.name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": self.isolation_level,
            "check.crcs": self.check_crcs,
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 100,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 1000,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "session.timeout.ms": 6000,
            "log_level": 2,
        }
        if self.config.get("group.protocol") == "consumer":
            del config["session.timeout.ms"]  # KIP-848: the brokers set it.
        return config | dict(self.config)

    @property
    def incremental(self) -> bool:
        """Whether a librdkafka member keeps partitions during a rebalance (cooperative, or KIP-848)."""
        config = self.librdkafka_config()
        strategy = str(config.get("partition.assignment.strategy", ""))
        return "cooperative" in strategy or config.get("group.protocol") == "consumer"

    @property
    def joined_columns(self) -> dict[str, object]:
        """The columns of `groups` that say with which settings a member joins."""
        config = self.librdkafka_config()
        return {
            "protocol": str(config.get("group.protocol", "classic")),
            "session_ms": config.get("session.timeout.ms"),
        }


@dataclass(frozen=True, kw_only=True)
class ApplicationSpec:
    """An instance of an application of Kafka Streams that counts the words of each partition of ``source``.

    The word of a message is its writer, and its number modulo ``words``.
    """

    reader: int
    """The instance's number in the history, unique in the run, also among consumers."""
    name: str
    """client.id."""
    brokers: tuple[Endpoint, ...]
    via: Via = "java"
    application: str
    """application.id: the group, and the first part of the name of the changelog."""
    source: str
    output: str
    """The topic that gets each message once more, with its word as the key."""
    guarantee: Guarantee = "exactly_once_v2"
    state_dir: str
    """The folder of its stores, as the client's host names it; what it holds is used."""
    standbys: int = 0
    """num.standby.replicas"""
    commit_every_s: float = 1.0
    """commit.interval.ms"""
    words: int = 5
    config: Config = field(default_factory=dict)
    """More settings, by the names of Kafka Streams; they override all others."""

    def __post_init__(self) -> None:
        if (begin := self.config.get("auto.offset.reset", "earliest")) != "earliest":
            raise UsageError(
                f"{self.name} of the application {self.application} has auto.offset.reset={begin}, so "
                "that what it leaves out could not be judged; an application reads its source from the start."
            )

    @property
    def changelog(self) -> str:
        """The topic with the changes of the store."""
        return f"{self.application}-counts-changelog"
