"""The user's settings as data: Kafka properties by table, and topics to create in addition to a scenario's.

`harness.cluster.settings_files` reads them; `run.settings` applies them. `docs/settings.md` is the
reference.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.errors import UsageError
from harness.kafka.model import Topic
from harness.kafka.security import NO_LISTENER_SECURITY, ListenerSecurity
from harness.lab.model import Topology
from harness.secrets import holds_secret, shown

TABLES = ("broker", "topic", "producer", "consumer", "load")
PARTITIONS, REPLICATION_FACTOR, ASSIGNMENT = "partitions", "replication-factor", "assignment"
SHAPE_KEYS = (PARTITIONS, REPLICATION_FACTOR, ASSIGNMENT)
"""Keys of `[topic.NAME]` that are not Kafka properties: how many partitions and replicas, and where."""

TOPIC_PROPERTIES = (
    *("cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type"),
    *("compression.zstd.level", "delete.retention.ms", "errors.deadletterqueue.group.enable"),
    *("file.delete.delay.ms", "flush.messages", "flush.ms", "follower.replication.throttled.replicas"),
    *("index.interval.bytes", "leader.replication.throttled.replicas", "local.retention.bytes"),
    *("local.retention.ms", "max.compaction.lag.ms", "max.message.bytes", "message.downconversion.enable"),
    *("message.format.version", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"),
    *("message.timestamp.difference.max.ms", "message.timestamp.type", "min.cleanable.dirty.ratio"),
    *("min.compaction.lag.ms", "min.insync.replicas", "preallocate", "remote.copy.lag.bytes"),
    *("remote.copy.lag.ms", "remote.log.copy.disable", "remote.log.delete.on.disable"),
    *("remote.storage.enable", "retention.bytes", "retention.ms", "segment.bytes", "segment.index.bytes"),
    *("segment.jitter.ms", "segment.ms", "unclean.leader.election.enable"),
)
"""Topic properties of every known Kafka version (`LogConfig.main` of its jars prints them)."""
_TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
MOST_PARTITIONS = 100
"""Partitions that a run creates of a topic."""
MOST_DESCRIBED = 10_000
"""Partitions that a file may describe: an assessment creates some of them."""
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_PLACEHOLDER = re.compile(r"\$\{|\{\{")
_OF_VENDORS = ("confluent.", "kafka.")
"""Beginnings of names that are somebody's on purpose."""
_TYPING_ERROR = 0.85
"""Likeness of two names (`difflib`) from which on one of them is a typing error."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One property as the user gave it."""

    key: str
    value: str
    """As it may be shown; a secret was replaced when it was read."""
    place: str
    """Where it was given: `server.properties:3`, `cluster.toml:12`, `--set`."""
    secret: bool = False
    """Whether the value that was given holds a secret."""

    @classmethod
    def given(cls, key: str, value: str, place: str) -> Setting:
        """A property whose ``value`` was just read from outside; a secret is replaced here."""
        return cls(key=key, value=shown(key, value), place=place, secret=holds_secret(key, value))

    def __str__(self) -> str:
        return f"{self.place}: {self.key}={self.value}"


@dataclass(frozen=True, kw_only=True)
class TopicShape:
    """Partitions and replicas of one of the user's own topics; each in the order of the partitions."""

    partitions: int = 0
    """0: as many as the assignment has, else the brokers' `num.partitions`, else 1."""
    replication_factor: int = 0
    """0: the brokers' `default.replication.factor`, else three, or as many as there are brokers."""
    assignment: tuple[tuple[int, ...], ...] = ()
    """Broker ids of each partition's replicas, preferred leader first; empty: assigned by rack."""
    place: str = ""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that the user has set. The keys of the mappings are Kafka's property names."""

    broker: Mapping[str, Setting] = field(default_factory=dict)
    topic: Mapping[str, Setting] = field(default_factory=dict)
    """For every topic."""
    topics: Mapping[str, Mapping[str, Setting]] = field(default_factory=dict)
    """For single topics, by name."""
    shapes: Mapping[str, TopicShape] = field(default_factory=dict)
    """By topic name, for those of which `partitions`, `replication-factor` or `assignment` is given."""
    producer: Mapping[str, Setting] = field(default_factory=dict)
    consumer: Mapping[str, Setting] = field(default_factory=dict)
    load: Mapping[str, Setting] = field(default_factory=dict)
    """What the messages of streams are like (`harness.cluster.load`); no properties of Kafka."""
    compress_time: float = 1.0
    """The factor by which the time settings are divided."""
    rate: float = 0.0
    """Messages per second that each producer of an assessment or a search writes to each partition; 0: the
    usual rate."""
    security: ListenerSecurity = NO_LISTENER_SECURITY
    """Of the listeners of brokers and controllers."""

    def __bool__(self) -> bool:
        return self != NO_SETTINGS

    def over(self, other: Settings) -> Settings:
        """Both settings together; where both set a property, this one's value counts."""
        return Settings(
            broker={**other.broker, **self.broker},
            topic={**other.topic, **self.topic},
            topics={
                name: {**other.topics.get(name, {}), **self.topics.get(name, {})}
                for name in dict.fromkeys((*other.topics, *self.topics))
            },
            shapes={**other.shapes, **self.shapes},
            producer={**other.producer, **self.producer},
            consumer={**other.consumer, **self.consumer},
            load={**other.load, **self.load},
            compress_time=other.compress_time if self.compress_time == 1 else self.compress_time,
            rate=self.rate or other.rate,
            security=self.security if self.security.place else other.security,
        )

    def as_json(self) -> dict[str, Any]:
        """As data for another process."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Settings:
        """The inverse of `as_json`."""

        def table(entries: Mapping[str, Any]) -> dict[str, Setting]:
            return {key: Setting(**entry) for key, entry in entries.items()}

        shapes = {
            name: TopicShape(
                **{**shape, "assignment": tuple(tuple(replicas) for replicas in shape["assignment"])}
            )
            for name, shape in data["shapes"].items()
        }
        return cls(
            broker=table(data["broker"]),
            topic=table(data["topic"]),
            topics={name: table(entries) for name, entries in data["topics"].items()},
            shapes=shapes,
            producer=table(data["producer"]),
            consumer=table(data["consumer"]),
            load=table(data.get("load", {})),
            compress_time=data["compress_time"],
            rate=data.get("rate", 0.0),
            security=ListenerSecurity(**data.get("security", {})),
        )


NO_SETTINGS = Settings()


def values(settings: Mapping[str, Setting]) -> dict[str, str]:
    """The bare properties."""
    return {key: setting.value for key, setting in settings.items()}


def refuse_typing_error(setting: Setting, whose: str, names: Collection[str]) -> None:
    """Raise UsageError for a name that is none of ``names``, those of ``whose``, but close to one of them.

    The value is not shown: that of a name which `harness.secrets` does not know may be a secret as well.
    """
    near = "" if setting.key in names else nearest(setting.key, names)
    if near:
        raise UsageError(
            f"{setting.place}: {setting.key}: Kafka has no such {whose} property; did you mean {near}?"
        )


def nearest(key: str, names: Iterable[str]) -> str:
    """The name of which ``key`` is probably a typing error; empty if there is none."""
    near = difflib.get_close_matches(key, list(names), n=1, cutoff=_TYPING_ERROR)
    return near[0] if near and not key.startswith(_OF_VENDORS) else ""


def wrong_value(setting: Setting, remedy: str) -> UsageError:
    """The error for a value that Kafka does not take; ``remedy`` says what it takes instead."""
    if is_placeholder(setting.value):
        remedy = "this is a placeholder; write its value, or name the file that results from the template"
    return UsageError(f"{setting}: {remedy}.")


def is_placeholder(text: str) -> bool:
    """Whether a value is, or has inside, what another program fills in: `${NAME}`, `{{ name }}`."""
    return bool(_PLACEHOLDER.search(text))


def split_topic(path: Sequence[str], place: str) -> tuple[str, str]:
    """Topic name (empty: every topic) and key of a dotted path below `topic`, which is split at its dots.

    A topic's name ends where one of Kafka's topic properties or a key of `SHAPE_KEYS` begins. Raises
    UsageError where none begins.
    """
    words = ".".join(path).split(".")
    for start in range(len(words)):
        key = ".".join(words[start:])
        if key in TOPIC_PROPERTIES or key in SHAPE_KEYS:
            name = ".".join(words[:start])
            if key in SHAPE_KEYS and not name:
                raise UsageError(f"{place}: {key} belongs to one topic; write it under [topic.NAME].")
            if name and not _TOPIC_NAME.fullmatch(name):
                raise UsageError(
                    f"{place}: {name!r} is not a topic name; use up to 249 letters, digits, '.', '_' and '-'."
                )
            return name, key
    topic_keys = (*TOPIC_PROPERTIES, *SHAPE_KEYS)
    tails = [".".join(words[start:]) for start in range(len(words))]
    near = [
        match for tail in tails for match in difflib.get_close_matches(tail, topic_keys, n=1, cutoff=0.75)
    ]
    hint = f"did you mean {near[0]}?" if near else "docs/settings.md lists them."
    raise UsageError(f"{place}: {'.'.join(words)!r} does not end in a topic property of Kafka; {hint}")


def own_topics(
    settings: Settings, scenario_topics: Iterable[str], topology: Topology, brokers: Sequence[int]
) -> tuple[Topic, ...]:
    """The topics that the user describes and the scenario does not have, with their assignments.

    Raises UsageError for a shape of a scenario's topic, and for one that the brokers cannot hold.
    """
    theirs = set(scenario_topics)
    for name in theirs & set(settings.shapes):
        raise UsageError(
            f"{settings.shapes[name].place}: the scenario assigns the replicas of its topic {name!r} itself; "
            f"set properties of it, or choose another name."
        )
    topics = []
    for name in dict.fromkeys((*settings.shapes, *settings.topics)):
        if name in theirs:
            continue
        config = {**values(settings.topic), **values(settings.topics.get(name, {}))}
        assignment = _assignment(name, settings, topology, brokers)
        topics.append(
            Topic(name, assignment[0], partitions=len(assignment), config=config, placed=assignment)
        )
    return tuple(topics)


def replication_factor(name: str, settings: Settings, brokers: int) -> int:
    """The replicas of a described topic: its own number, that of its assignment, or the brokers' default.

    Without any, three or as many as there are brokers. Raises UsageError for more than that.
    """
    shape = settings.shapes.get(name, TopicShape())
    if shape.assignment:
        return len(shape.assignment[0])
    factor = shape.replication_factor or broker_default(settings, "default.replication.factor")
    if factor > brokers and shape.replication_factor:
        raise UsageError(
            f"{shape.place or '[topic]'}: topic {name!r}: replication-factor = {factor}, but the cluster has "
            f"{brokers} brokers; use that many at most."
        )
    return min(factor or 3, brokers)


def whole(text: str) -> int | None:
    """The whole number that a value of Kafka is (at most a `long`); None for anything else."""
    return int(text) if _WHOLE.fullmatch(text) else None


def broker_default(settings: Settings, key: str) -> int:
    """A number that brokers have as a default of topics; 0 if the user has not set it, or not to a number."""
    setting = settings.broker.get(key)
    return max(0, whole(setting.value) or 0) if setting is not None else 0


def _assignment(
    name: str, settings: Settings, topology: Topology, brokers: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    shape = settings.shapes.get(name, TopicShape())
    if shape.assignment:
        return own_assignment(name, shape, brokers)
    if shape.partitions > MOST_PARTITIONS:
        raise UsageError(
            f"{_place(name, shape)}: partitions = {shape.partitions}: a run creates {MOST_PARTITIONS} at "
            "most; describe fewer, or leave them to `acked assess`, which takes some of them."
        )
    factor = replication_factor(name, settings, len(brokers))
    partitions = shape.partitions or broker_default(settings, "num.partitions") or 1
    racks = {host.node_id: host.az for host in topology.role("broker") if host.node_id in brokers}
    return rack_aware(racks, partitions, factor)


def own_assignment(name: str, shape: TopicShape, brokers: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The assignment that the user gives. Raises UsageError if brokers or other keys do not fit it."""
    place = _place(name, shape)
    for number, replicas in enumerate(shape.assignment):
        strange = [replica for replica in replicas if replica not in brokers]
        if strange:
            raise UsageError(
                f"{place}: partition {number} is assigned to broker {strange[0]}; the cluster has the "
                f"brokers {', '.join(map(str, sorted(brokers)))}."
            )
    if shape.partitions not in (0, len(shape.assignment)):
        raise UsageError(
            f"{place}: partitions = {shape.partitions}, but the assignment has {len(shape.assignment)}; "
            f"leave one of them out."
        )
    wrong = [len(replicas) for replicas in shape.assignment]
    if shape.replication_factor and set(wrong) != {shape.replication_factor}:
        raise UsageError(
            f"{place}: replication-factor = {shape.replication_factor}, but the assignment has "
            f"{', '.join(map(str, sorted(set(wrong))))} replicas; leave one of them out."
        )
    return shape.assignment


def _place(name: str, shape: TopicShape) -> str:
    return f"{shape.place or '[topic]'}: topic {name!r}"


def checked_shape(name: str, given: Mapping[str, Any], place: str) -> TopicShape:
    """The shape from values of TOML or text. Raises UsageError."""

    def number(key: str, most: int) -> int:
        value = given.get(key, 0)
        if isinstance(value, str):
            value = whole(value)
        counts = isinstance(value, int) and not isinstance(value, bool)
        if not counts or not (1 if key in given else 0) <= value <= most:
            raise UsageError(
                f"{place}: topic {name!r}: {key} = {given[key]!r}: give a number from 1 to {most}."
            )
        return int(value)

    assignment = given.get(ASSIGNMENT, [])
    correct = isinstance(assignment, list) and all(
        isinstance(replicas, list)
        and replicas
        and all(isinstance(one, int) and not isinstance(one, bool) for one in replicas)
        and len(set(replicas)) == len(replicas)
        for replicas in assignment
    )
    if not correct or (ASSIGNMENT in given and not 1 <= len(assignment) <= MOST_PARTITIONS):
        raise UsageError(
            f"{place}: topic {name!r}: assignment = {assignment!r}: give the different broker ids of each "
            f"partition's replicas, such as [[1, 2, 3], [2, 3, 1]]."
        )
    return TopicShape(
        partitions=number(PARTITIONS, MOST_DESCRIBED),
        replication_factor=number(REPLICATION_FACTOR, 48),
        assignment=tuple(tuple(replicas) for replicas in assignment),
        place=place,
    )


def rack_aware(racks: Mapping[int, str], partitions: int, factor: int) -> tuple[tuple[int, ...], ...]:
    """Replicas of each partition, as Kafka spreads them over racks, but without its random start.

    ``racks`` has the rack of each broker. As in `AdminUtils.assignReplicasToBrokersRackAware`, brokers are
    listed alternating between racks; each partition begins at the next one, and takes a second broker of a
    rack only after every rack has one.
    """
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    turns = max(map(len, by_rack.values()))
    arranged = [rack[turn] for turn in range(turns) for rack in by_rack.values() if turn < len(rack)]
    assignments = []
    for partition in range(partitions):
        start = partition % len(arranged)
        order = arranged[start:] + arranged[:start]
        replicas: list[int] = []
        used: dict[str, int] = {}
        while len(replicas) < factor:
            least = min(used.get(racks[one], 0) for one in order if one not in replicas)
            chosen = next(one for one in order if one not in replicas and used.get(racks[one], 0) == least)
            replicas.append(chosen)
            used[racks[chosen]] = used.get(racks[chosen], 0) + 1
        assignments.append(tuple(replicas))
    return tuple(assignments)
