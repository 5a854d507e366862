"""Spring Boot's names for properties of Kafka's clients (`spring.kafka.*`).

Source: `KafkaProperties` of Spring Boot. What has no name of its own there stands below `properties`, by
Kafka's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

PREFIX = "spring.kafka."
_ACTIVATE = "spring.config.activate"
_SHARED = {
    "bootstrapservers": "bootstrap.servers",
    "clientid": "client.id",
    "security.protocol": "security.protocol",
}
_NAMES: Mapping[str, Mapping[str, str]] = {
    "producer": {
        **_SHARED,
        "acks": "acks",
        "batchsize": "batch.size",
        "buffermemory": "buffer.memory",
        "compressiontype": "compression.type",
        "keyserializer": "key.serializer",
        "retries": "retries",
        "transactionidprefix": "transactional.id",
        "valueserializer": "value.serializer",
    },
    "consumer": {
        **_SHARED,
        "autocommitinterval": "auto.commit.interval.ms",
        "autooffsetreset": "auto.offset.reset",
        "enableautocommit": "enable.auto.commit",
        "fetchmaxwait": "fetch.max.wait.ms",
        "fetchminsize": "fetch.min.bytes",
        "groupid": "group.id",
        "heartbeatinterval": "heartbeat.interval.ms",
        "isolationlevel": "isolation.level",
        "keydeserializer": "key.deserializer",
        "maxpollinterval": "max.poll.interval.ms",
        "maxpollrecords": "max.poll.records",
        "valuedeserializer": "value.deserializer",
    },
}
"""By names in small letters without hyphens and underscores, since Spring takes all spellings for one."""
_UNITS = {
    **{"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000},
    **{"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30},
}
_DEFAULT = re.compile(r"\$\{[^{}:]+:([^{}]*)\}")


def of_a_profile(document: Mapping[Any, Any]) -> bool:
    """Whether a YAML document counts only if a profile is active (`spring.config.activate.on-profile`)."""
    settings = document.get("spring")
    settings = settings if isinstance(settings, dict) else {}
    config = settings.get("config")
    activated = isinstance(config, dict) and "activate" in config
    until_2_4 = isinstance(settings.get("profiles"), str | list)
    return activated or until_2_4 or any(str(key).startswith(f"{_ACTIVATE}.") for key in document)


def client_properties(pairs: Iterable[tuple[str, str]], kind: str) -> Iterator[tuple[str, str, str]]:
    """Spring's key, Kafka's key and the value of each property of a `producer` or `consumer`.

    Those of the kind take precedence over those of all clients. A name that Spring does not have stays as it
    is, and Kafka has none like it.
    """
    common: dict[str, tuple[str, str]] = {}
    own: dict[str, tuple[str, str]] = {}
    for source, value in pairs:
        if not source.startswith(PREFIX):
            continue
        name = re.sub(r"\[\d+\]$", "", source.removeprefix(PREFIX))  # a list's element
        name = re.sub(r"\.?\[([^]]+)\]", r".\1", name)
        first, _, rest = name.partition(".")
        if first == kind:
            own[_name_of(rest, kind) or source] = source, _value(value)
        elif key := _name_of(name, kind, common=True):
            common[key] = source, _value(value)
    for key, (source, value) in {**common, **own}.items():
        yield source, key, _in_kafkas_units(key, value) if ".properties." not in source else value


def _name_of(name: str, kind: str, *, common: bool = False) -> str:
    """Kafka's name; empty if there is none."""
    if name.startswith("properties."):
        return name.removeprefix("properties.")
    if name.startswith("ssl."):
        return name.replace("-", ".")
    names = _SHARED if common else _NAMES[kind]
    return names.get(re.sub("[-_]", "", name).lower(), "")


def _value(text: str) -> str:
    """The value with the defaults of its placeholders, `${NAME:default}`, in their place."""
    while (filled := _DEFAULT.sub(lambda match: match[1], text)) != text:
        text = filled
    return text


def _in_kafkas_units(key: str, value: str) -> str:
    """Milliseconds and bytes for Spring's durations and sizes: `5s`, `PT5S`, `16KB`, `read-committed`."""
    if key == "isolation.level":
        return value.replace("-", "_").lower()
    measured = re.fullmatch(r"(?:PT)?(\d+)\s*([A-Za-z]{1,2})", value)
    factor = _UNITS.get(measured[2].lower()) if measured else None
    return value if measured is None or factor is None else str(int(int(measured[1]) * factor))
