"""Translates properties of Java producers and consumers for the libraries of the harness's clients.

Users write Java names (`[producer]`, `producer.properties`); the clients are librdkafka's, or the Java client
itself. `docs/settings.md` shows the table with its sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from harness.cluster.followed import IgnoredSetting
from harness.cluster.librdkafka_names import ALONE, JAVA_NAMES, WHY_ALONE, in_java_names
from harness.cluster.possible import Arrangement, refuse_impossible
from harness.cluster.settings import Setting, refuse_typing_error, wrong_value

Value = str | int | float | bool
Kind = Literal["producer", "consumer"]


def _text(*allowed: str) -> Callable[[str], Value]:
    def parse(text: str) -> Value:
        if allowed and text.lower() not in allowed:
            raise ValueError(f"use {', '.join(allowed)}")
        return text.lower() if allowed else text

    return parse


def _whole(least: int, most: int = 2**31 - 1) -> Callable[[str], Value]:
    def parse(text: str) -> Value:
        number = int(text)
        if not least <= number <= most:
            raise ValueError
        return number

    def parse_or_explain(text: str) -> Value:
        try:
            return parse(text)
        except ValueError:
            raise ValueError(f"give a whole number from {least} to {most}") from None

    return parse_or_explain


def _flag(text: str) -> Value:
    if text.lower() not in ("true", "false"):
        raise ValueError("use true or false")
    return text.lower() == "true"


def _acks(text: str) -> Value:
    if text.lower() == "all":
        return -1
    if text not in ("-1", "0", "1"):
        raise ValueError("use all, -1, 0 or 1")
    return int(text)


def _buffer(text: str) -> Value:
    """Java's -1 is the operating system's default, which is 0 in librdkafka."""
    return max(0, int(_whole(-1)(text)))


def _kilobytes(text: str) -> Value:
    return max(1, int(_whole(1024, 2**31 - 1)(text)) // 1024)


@dataclass(frozen=True)
class Equivalent:
    """A Java property that the harness's clients have as well."""

    parse: Callable[[str], Value]
    librdkafka: str
    """Its name there."""


_MS = _whole(0)
_SHARED = {
    "connections.max.idle.ms": Equivalent(_MS, "connections.max.idle.ms"),
    "metadata.max.age.ms": Equivalent(_whole(1, 3_600_000), "topic.metadata.refresh.interval.ms"),
    "metadata.recovery.rebootstrap.trigger.ms": Equivalent(_MS, "metadata.recovery.rebootstrap.trigger.ms"),
    "metadata.recovery.strategy": Equivalent(_text("none", "rebootstrap"), "metadata.recovery.strategy"),
    "receive.buffer.bytes": Equivalent(_buffer, "socket.receive.buffer.bytes"),
    "reconnect.backoff.max.ms": Equivalent(_MS, "reconnect.backoff.max.ms"),
    "reconnect.backoff.ms": Equivalent(_MS, "reconnect.backoff.ms"),
    "retry.backoff.max.ms": Equivalent(_whole(1, 300_000), "retry.backoff.max.ms"),
    "retry.backoff.ms": Equivalent(_whole(1, 300_000), "retry.backoff.ms"),
    "send.buffer.bytes": Equivalent(_buffer, "socket.send.buffer.bytes"),
    "socket.connection.setup.timeout.ms": Equivalent(_whole(1000), "socket.connection.setup.timeout.ms"),
}
PRODUCER: Mapping[str, Equivalent] = {
    **_SHARED,
    "acks": Equivalent(_acks, "acks"),
    "batch.size": Equivalent(_whole(1), "batch.size"),
    "buffer.memory": Equivalent(_kilobytes, "queue.buffering.max.kbytes"),
    "compression.type": Equivalent(_text("none", "gzip", "snappy", "lz4", "zstd"), "compression.type"),
    "delivery.timeout.ms": Equivalent(_whole(1), "message.timeout.ms"),
    "enable.idempotence": Equivalent(_flag, "enable.idempotence"),
    "linger.ms": Equivalent(_whole(0, 900_000), "linger.ms"),
    "max.in.flight.requests.per.connection": Equivalent(
        _whole(1, 1_000_000), "max.in.flight.requests.per.connection"
    ),
    "max.request.size": Equivalent(_whole(1000, 1_000_000_000), "message.max.bytes"),
    "request.timeout.ms": Equivalent(_whole(1, 900_000), "request.timeout.ms"),
    "retries": Equivalent(_whole(0), "retries"),
}
CANONICAL: Mapping[str, str] = {
    "acks": "request.required.acks",
    "linger.ms": "queue.buffering.max.ms",
    "compression.type": "compression.codec",
    "max.in.flight.requests.per.connection": "max.in.flight.requests.per.connection",
    "retries": "message.send.max.retries",
}
"""The names that librdkafka shows for properties with several names."""
CONSUMER: Mapping[str, Equivalent] = {
    **_SHARED,
    "check.crcs": Equivalent(_flag, "check.crcs"),
    "fetch.max.bytes": Equivalent(_whole(1024), "fetch.max.bytes"),
    "fetch.max.wait.ms": Equivalent(_whole(0, 300_000), "fetch.wait.max.ms"),
    "fetch.min.bytes": Equivalent(_whole(1, 100_000_000), "fetch.min.bytes"),
    "heartbeat.interval.ms": Equivalent(_whole(1, 3_600_000), "heartbeat.interval.ms"),
    "isolation.level": Equivalent(_text("read_committed", "read_uncommitted"), "isolation.level"),
    "max.partition.fetch.bytes": Equivalent(_whole(1024, 1_000_000_000), "max.partition.fetch.bytes"),
    "max.poll.interval.ms": Equivalent(_whole(1, 86_400_000), "max.poll.interval.ms"),
    "request.timeout.ms": Equivalent(_whole(10, 300_000), "socket.timeout.ms"),
    "session.timeout.ms": Equivalent(_whole(1, 3_600_000), "session.timeout.ms"),
}

_LIBRARY = "the clients here have no such setting"
_SHARED_WITHOUT = {
    "auto.include.jmx.reporter": _LIBRARY,
    "client.dns.lookup": "every address here is numeric",
    "enable.metrics.push": _LIBRARY,
    "interceptor.classes": "it names a Java class",
    "metric.reporters": "it names a Java class",
    "metrics.num.samples": _LIBRARY,
    "metrics.recording.level": _LIBRARY,
    "metrics.sample.window.ms": _LIBRARY,
    "socket.connection.setup.timeout.max.ms": "librdkafka's time-out for connecting does not grow",
}
WITHOUT: Mapping[Kind, Mapping[str, str]] = {
    "producer": {
        **_SHARED_WITHOUT,
        "compression.gzip.level": "the levels are the library's",
        "compression.lz4.level": "the levels are the library's",
        "compression.zstd.level": "the levels are the library's",
        "key.serializer": "messages are made of bytes",
        "max.block.ms": "a message that finds the queue full fails at once",
        "metadata.max.idle.ms": _LIBRARY,
        "partitioner.adaptive.partitioning.enable": "every message names its partition",
        "partitioner.availability.timeout.ms": "every message names its partition",
        "partitioner.class": "every message names its partition",
        "partitioner.ignore.keys": "every message names its partition",
        "transaction.timeout.ms": "no producer here is transactional",
        "value.serializer": "messages are made of bytes",
    },
    "consumer": {
        **_SHARED_WITHOUT,
        "allow.auto.create.topics": "every topic exists",
        "auto.commit.interval.ms": "the harness records what it has read itself",
        "default.api.timeout.ms": _LIBRARY,
        "exclude.internal.topics": "partitions are assigned",
        "group.instance.id": "every reader here is alone",
        "group.protocol": _LIBRARY,
        "group.remote.assignor": _LIBRARY,
        "key.deserializer": "messages are made of bytes",
        "max.poll.records": _LIBRARY,
        "partition.assignment.strategy": "partitions are assigned",
        "value.deserializer": "messages are made of bytes",
    },
}
"""Properties of Java clients that have no effect here, and why: named, then ignored."""
OWNED: Mapping[Kind, Mapping[str, str | None]] = {
    "producer": {
        "bootstrap.servers": None,
        "metadata.broker.list": None,
        "client.id": None,
        "security.protocol": "PLAINTEXT",
        "security.providers": None,
        "transactional.id": None,
    },
    "consumer": {
        "auto.offset.reset": "earliest",
        "bootstrap.servers": None,
        "metadata.broker.list": None,
        "client.id": None,
        "client.rack": None,
        "enable.auto.commit": "false",
        "group.id": None,
        "security.protocol": "PLAINTEXT",
        "security.providers": None,
    },
}
"""What the harness sets itself, with its value where every client has the same."""
_OWNED_PREFIXES = ("sasl.", "ssl.")
_OF_MEMBERS = ("heartbeat.interval.ms", "session.timeout.ms")
_GROUPS_ONLY = "consumers with assigned partitions do not have it"
_BECAUSE = "acked sets these properties of its clients"
_NONE: Mapping[Kind, str] = {
    "producer": "Kafka's producers have no such property",
    "consumer": "Kafka's consumers have no such property",
}
_OF_ANY_CLIENT = frozenset().union(PRODUCER, CONSUMER, *WITHOUT.values(), *OWNED.values())


def names_of(kind: Kind) -> tuple[str, ...]:
    """The properties of a client, by Java's and librdkafka's names."""
    table = PRODUCER if kind == "producer" else CONSUMER
    return (*table, *WITHOUT[kind], *OWNED[kind], *JAVA_NAMES)


def is_of_client(key: str) -> bool:
    """Whether some client has the property, by Java's or by librdkafka's name."""
    return key in _OF_ANY_CLIENT or key in JAVA_NAMES or key in ALONE or key.startswith(_OWNED_PREFIXES)


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """The user's settings of one kind of client, checked."""

    given: Mapping[str, Value]
    """Values by their Java names."""
    not_followed: tuple[IgnoredSetting, ...] = ()
    """Properties that the harness sets itself, and those without an equivalent."""

    def librdkafka(self, kind: Kind) -> dict[str, Value]:
        """The settings by librdkafka's names."""
        table = PRODUCER if kind == "producer" else CONSUMER
        return {table[key].librdkafka: value for key, value in self.given.items()}


NONE = ClientSettings(given={})


def check_client(kind: Kind, settings: Mapping[str, Setting]) -> ClientSettings:
    """Check every property, and what Java clients require of several. Raises UsageError."""
    settings = in_java_names(settings)
    table, owned, without = (PRODUCER if kind == "producer" else CONSUMER), OWNED[kind], WITHOUT[kind]
    given: dict[str, Value] = {}
    left_out: list[IgnoredSetting] = []
    for key, setting in settings.items():
        if key in owned or key.startswith(_OWNED_PREFIXES):
            if owned.get(key) is None or setting.value.lower() != str(owned[key]).lower():
                left_out.append(IgnoredSetting(table=kind, setting=setting, because=_BECAUSE, owned=True))
        elif key in ALONE:
            left_out.append(IgnoredSetting(table=kind, setting=setting, because=WHY_ALONE))
        elif key in without:
            left_out.append(IgnoredSetting(table=kind, setting=setting, because=without[key]))
        elif key in table:
            try:
                given[key] = table[key].parse(setting.value)
            except ValueError as error:
                raise wrong_value(setting, str(error)) from None
            if key in _OF_MEMBERS:
                left_out.append(IgnoredSetting(table=kind, setting=setting, because=_GROUPS_ONLY))
        else:
            if key not in _OF_ANY_CLIENT:
                refuse_typing_error(setting, kind, names_of(kind))
            left_out.append(IgnoredSetting(table=kind, setting=setting, because=_NONE[kind], owned=True))
    arrangement = Arrangement(producer=settings) if kind == "producer" else Arrangement(consumer=settings)
    refuse_impossible(arrangement)
    return ClientSettings(given=given, not_followed=tuple(left_out))
