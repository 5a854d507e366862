"""Which combinations of settings can never succeed, and which decide what an assessment finds.

Two tables of rules: `BOUNDS` compares two settings, `EXCLUSIONS` names a setting that another one excludes.
`refuse_impossible` applies them, before anything starts. `docs/settings.md` shows the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.cluster.settings import Setting, whole
from harness.errors import UsageError
from harness.kafka.model import Topic

BROKERS = "brokers"
"""The number of brokers, as a bound."""
MIN_INSYNC, DEFAULT_FACTOR = "min.insync.replicas", "default.replication.factor"
OFFSETS_FACTOR = "offsets.topic.replication.factor"
TRANSACTION_FACTOR, TRANSACTION_MIN_ISR = (
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
)
LONGEST_VALUE = 40


@dataclass(frozen=True, kw_only=True)
class Arrangement:
    """The settings of a run, by table. What nobody has set has Kafka's default, or is absent."""

    brokers: int = 0
    """0: not known."""
    broker: Mapping[str, Setting] = field(default_factory=dict)
    producer: Mapping[str, Setting] = field(default_factory=dict)
    consumer: Mapping[str, Setting] = field(default_factory=dict)
    topics: Sequence[Topic] = ()
    least_in_sync: Mapping[str, Setting] = field(default_factory=dict)
    """By topic, the user's `min.insync.replicas`."""

    def setting(self, name: str) -> Setting | None:
        """The setting that `table.key` names."""
        table, _, key = name.partition(".")
        tables = {"broker": self.broker, "producer": self.producer, "consumer": self.consumer}
        return tables.get(table, {}).get(key)


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A setting, or the sum of several, must not be above another one. Applied if at least one is set.

    ``left`` and ``right`` are `table.key`; ``right`` may be `BROKERS`.
    """

    name: str
    left: tuple[str, ...]
    right: str
    because: str
    """What never works otherwise, as the end of a sentence."""
    source: str
    strictly: bool = False
    """The left one must be below."""


@dataclass(frozen=True, kw_only=True)
class Exclusion:
    """Where ``given`` has the value ``equal`` (None: any value), ``other`` must be as ``needs`` says."""

    name: str
    given: str
    equal: str | None
    other: str
    allowed: tuple[str, ...] = ()
    """Values of ``other``; empty: whole numbers from ``least`` to ``most``."""
    least: int = 0
    most: int = 2**31 - 1
    needs: str
    source: str


_DEFAULTS: Mapping[str, str] = {
    f"broker.{OFFSETS_FACTOR}": "3",
    f"broker.{TRANSACTION_FACTOR}": "3",
    f"broker.{TRANSACTION_MIN_ISR}": "2",
    f"broker.{MIN_INSYNC}": "1",
    "broker.message.max.bytes": "1048588",
    "broker.group.min.session.timeout.ms": "6000",
    "broker.group.max.session.timeout.ms": "1800000",
    "broker.offsets.commit.required.acks": "-1",
    "broker.replica.fetch.wait.max.ms": "500",
    "broker.replica.lag.time.max.ms": "30000",
    "broker.replica.socket.timeout.ms": "30000",
    "consumer.session.timeout.ms": "45000",
    "consumer.heartbeat.interval.ms": "3000",
    "consumer.max.poll.interval.ms": "300000",
    "consumer.fetch.max.wait.ms": "100",
    "consumer.request.timeout.ms": "5000",
    "producer.linger.ms": "0",
}
"""Kafka's defaults of the properties that the rules compare; of fetches, those of the harness's consumers."""

BOUNDS: tuple[Bound, ...] = (
    Bound(
        name="default-factor",
        left=(f"broker.{DEFAULT_FACTOR}",),
        right=BROKERS,
        because="no topic could be created",
        source="AdminUtils.assignReplicasToBrokers; InvalidReplicationFactorException",
    ),
    Bound(
        name="min-insync-brokers",
        left=(f"broker.{MIN_INSYNC}",),
        right=BROKERS,
        because="no write with acks=all could succeed",
        source="Kafka's documentation, min.insync.replicas",
    ),
    Bound(
        name="offsets-factor",
        left=(f"broker.{OFFSETS_FACTOR}",),
        right=BROKERS,
        because="brokers could not create __consumer_offsets, so no consumer group could work",
        source="Kafka's documentation, offsets.topic.replication.factor",
    ),
    Bound(
        name="offsets-min-insync",
        left=(f"broker.{MIN_INSYNC}",),
        right=f"broker.{OFFSETS_FACTOR}",
        because="no consumer group could commit an offset",
        source="Kafka's documentation, offsets.commit.required.acks (-1) and min.insync.replicas",
    ),
    Bound(
        name="offsets-acks",
        left=("broker.offsets.commit.required.acks",),
        right=f"broker.{OFFSETS_FACTOR}",
        because="brokers would not start",
        source="KafkaConfig.validateValues",
    ),
    Bound(
        name="transactions-factor",
        left=(f"broker.{TRANSACTION_FACTOR}",),
        right=BROKERS,
        because="brokers could not create __transaction_state, so no transaction could begin",
        source="Kafka's documentation, transaction.state.log.replication.factor",
    ),
    Bound(
        name="transactions-min-isr",
        left=(f"broker.{TRANSACTION_MIN_ISR}",),
        right=f"broker.{TRANSACTION_FACTOR}",
        because="no transaction could begin",
        source="KIP-98; Kafka's documentation, transaction.state.log.min.isr",
    ),
    Bound(
        name="group-sessions",
        left=("broker.group.min.session.timeout.ms",),
        right="broker.group.max.session.timeout.ms",
        because="no consumer could join a group",
        source="GroupCoordinator.handleJoinGroup: INVALID_SESSION_TIMEOUT",
    ),
    Bound(
        name="session-least",
        left=("broker.group.min.session.timeout.ms",),
        right="consumer.session.timeout.ms",
        because="no consumer could join a group",
        source="GroupCoordinator.handleJoinGroup: INVALID_SESSION_TIMEOUT",
    ),
    Bound(
        name="session-most",
        left=("consumer.session.timeout.ms",),
        right="broker.group.max.session.timeout.ms",
        because="no consumer could join a group",
        source="GroupCoordinator.handleJoinGroup: INVALID_SESSION_TIMEOUT",
    ),
    Bound(
        name="heartbeat",
        left=("consumer.heartbeat.interval.ms",),
        right="consumer.session.timeout.ms",
        because="consumers would not start",
        source="org.apache.kafka.clients.consumer.internals.Heartbeat",
        strictly=True,
    ),
    Bound(
        name="poll-interval",
        left=("consumer.session.timeout.ms",),
        right="consumer.max.poll.interval.ms",
        because="consumers would not start",
        source="librdkafka's CONFIGURATION.md, max.poll.interval.ms",
    ),
    Bound(
        name="fetch-wait",
        left=("consumer.fetch.max.wait.ms",),
        right="consumer.request.timeout.ms",
        because="a fetch of a quiet partition would always time out",
        source="librdkafka's rd_kafka_conf_warn, fetch.wait.max.ms",
        strictly=True,
    ),
    Bound(
        name="replica-fetch-lag",
        left=("broker.replica.fetch.wait.max.ms",),
        right="broker.replica.lag.time.max.ms",
        because="brokers would not start",
        source="KafkaConfig.validateValues",
    ),
    Bound(
        name="replica-fetch-socket",
        left=("broker.replica.fetch.wait.max.ms",),
        right="broker.replica.socket.timeout.ms",
        because="brokers would not start",
        source="KafkaConfig.validateValues",
    ),
    Bound(
        name="delivery-timeout",
        left=("producer.linger.ms", "producer.request.timeout.ms"),
        right="producer.delivery.timeout.ms",
        because="producers would not start",
        source="KIP-91; KafkaProducer.configureDeliveryTimeout",
    ),
)

_ALL = ("all", "-1")
_IDEMPOTENCE = "producer.enable.idempotence"
EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion(
        name="idempotence-acks",
        given=_IDEMPOTENCE,
        equal="true",
        other="producer.acks",
        allowed=_ALL,
        needs="acks=all",
        source="KIP-98; ProducerConfig.postProcessAndValidateIdempotenceConfigs",
    ),
    Exclusion(
        name="idempotence-retries",
        given=_IDEMPOTENCE,
        equal="true",
        other="producer.retries",
        least=1,
        needs="retries above 0",
        source="KIP-98; ProducerConfig.postProcessAndValidateIdempotenceConfigs",
    ),
    Exclusion(
        name="idempotence-in-flight",
        given=_IDEMPOTENCE,
        equal="true",
        other="producer.max.in.flight.requests.per.connection",
        least=1,
        most=5,
        needs="5 at most",
        source="KAFKA-5494; ProducerConfig.postProcessAndValidateIdempotenceConfigs",
    ),
    Exclusion(
        name="transactions-acks",
        given="producer.transactional.id",
        equal=None,
        other="producer.acks",
        allowed=_ALL,
        needs="acks=all",
        source="KIP-98; ProducerConfig",
    ),
    Exclusion(
        name="transactions-idempotence",
        given="producer.transactional.id",
        equal=None,
        other=_IDEMPOTENCE,
        allowed=("true",),
        needs="enable.idempotence=true",
        source="KIP-98; ProducerConfig: transactional.id needs idempotence",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Consequence:
    """A setting that is possible, but decides what a fault costs: `key` with one of these values."""

    key: str
    values: tuple[str, ...]
    because: str
    source: str


CONSEQUENCES: tuple[Consequence, ...] = (
    Consequence(
        key=OFFSETS_FACTOR,
        values=("1",),
        because="consumer groups stop while the broker with their partition of __consumer_offsets is lost",
        source="Kafka's documentation, offsets.topic.replication.factor",
    ),
    Consequence(
        key=TRANSACTION_FACTOR,
        values=("1",),
        because="transactions stop while the broker with their partition of __transaction_state is lost",
        source="Kafka's documentation, transaction.state.log.replication.factor",
    ),
    Consequence(
        key=DEFAULT_FACTOR,
        values=("1",),
        because="a partition of such a topic is offline while its broker is lost",
        source="Kafka's documentation, default.replication.factor",
    ),
)


def consequences(arrangement: Arrangement) -> Iterator[str]:
    """A sentence for each setting that is possible, but decides what a fault costs."""
    for rule in CONSEQUENCES:
        setting = arrangement.broker.get(rule.key)
        if setting is not None and setting.value in rule.values and arrangement.brokers > 1:
            yield f"{_short(setting)}: {rule.because}"
    largest = arrangement.setting("producer.max.request.size")
    limit = _number("broker.message.max.bytes", arrangement)
    asked = None if largest is None else whole(largest.value)
    if largest is not None and asked is not None and limit is not None and asked > limit:
        yield f"{_short(largest)}: brokers refuse batches above message.max.bytes ({limit}): RECORD_TOO_LARGE"


def refuse_impossible(arrangement: Arrangement) -> None:
    """Raise UsageError for the first combination that can never succeed."""
    problem = next(problems(arrangement), None)
    if problem is not None:
        raise UsageError(problem)


def problems(arrangement: Arrangement) -> Iterator[str]:
    """A sentence for each combination that can never succeed."""
    for exclusion in EXCLUSIONS:
        yield from _excluded(exclusion, arrangement)
    for bound in BOUNDS:
        yield from _exceeded(bound, arrangement)
    for topic in arrangement.topics:
        yield from _never_written(topic, arrangement)


def _excluded(rule: Exclusion, arrangement: Arrangement) -> Iterator[str]:
    given, other = arrangement.setting(rule.given), arrangement.setting(rule.other)
    if given is None or other is None or rule.equal not in (None, given.value.lower()):
        return
    if rule.allowed:
        fits = other.value.lower() in rule.allowed
    else:
        number = whole(other.value)
        fits = number is None or rule.least <= number <= rule.most
    if not fits:
        yield (
            f"{_short(other)}: {given.key}={given.value[:LONGEST_VALUE]} ({given.place}) needs "
            f"{rule.needs}; change one of the two."
        )


def _exceeded(rule: Bound, arrangement: Arrangement) -> Iterator[str]:
    left = [_number(name, arrangement) for name in rule.left]
    right = _number(rule.right, arrangement)
    names = (*rule.left, rule.right)
    given = [one for one in (arrangement.setting(name) for name in names) if one is not None]
    if right is None or None in left or not given:
        return
    total = sum(number for number in left if number is not None)
    if total < right or (total == right and not rule.strictly):
        return
    left_keys = " + ".join(_key(name) for name in rule.left)
    yield (
        f"{_short(given[0])}: {left_keys} ({total}) must be {'below' if rule.strictly else 'at most'} "
        f"{_key(rule.right)} ({right}), or {rule.because}; change one of the two."
    )


def _never_written(topic: Topic, arrangement: Arrangement) -> Iterator[str]:
    """`acks=all` waits for `min.insync.replicas` replicas (Kafka's documentation of that property)."""
    described = topic.config.get(MIN_INSYNC)
    least = _number(f"broker.{MIN_INSYNC}", arrangement) if described is None else whole(described)
    fewest = min(map(len, topic.assignment), default=0)
    if least is not None and 0 < fewest < least:
        setting = arrangement.least_in_sync.get(topic.name)
        setting = arrangement.setting(f"broker.{MIN_INSYNC}") if described is None else setting
        place = f"{setting.place}: " if setting is not None else ""
        yield (
            f"{place}topic {topic.name!r}: {MIN_INSYNC}={least}, but the replication factor is {fewest}, so "
            f"no write with acks=all could succeed; use {fewest} at most, or more replicas."
        )


def _number(name: str, arrangement: Arrangement) -> int | None:
    """The value of a setting, or of a default; None if there is neither, or if it is no number."""
    if name == BROKERS:
        return arrangement.brokers or None
    setting = arrangement.setting(name)
    return whole(setting.value if setting else _DEFAULTS.get(name, ""))


def _key(name: str) -> str:
    return "the number of brokers" if name == BROKERS else name.partition(".")[2]


def _short(setting: Setting) -> str:
    value = setting.value
    if len(value) > LONGEST_VALUE:
        value = f"{value[:LONGEST_VALUE]}…"
    return f"{setting.place}: {setting.key}={value}"
