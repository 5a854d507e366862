"""Environment variables of containers that run Kafka, as broker properties.

Images name a property `KAFKA_LOG_RETENTION_MS` (apache/kafka, cp-kafka, wurstmeister's) or
`KAFKA_CFG_LOG_RETENTION_MS` (Bitnami's); `_` stands for a dot, `__` for an underscore and `___` for a hyphen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from harness.kafka.broker_properties import PROPERTIES

PREFIX = "KAFKA_"
_BITNAMI = "KAFKA_CFG_"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMES_A_BROKER = frozenset(
    {"ZOOKEEPER_CONNECT", "PROCESS_ROLES", "ADVERTISED_LISTENERS", "BROKER_ID", "NODE_ID", "LISTENERS"}
)


def variables_of(text: str) -> dict[str, str]:
    """The variables of an environment file, `NAME=value` a line."""
    pairs = (
        line.removeprefix("export ").partition("=")
        for line in text.splitlines()
        if not line.lstrip().startswith("#")
    )
    return {name.strip(): _unquoted(value.strip()) for name, equals, value in pairs if equals}


def are_variables(names: Iterable[str]) -> bool:
    """Whether these are names of variables, some of them of a container that runs Kafka."""
    names = list(names)
    return all(map(_NAME.fullmatch, names)) and any(name.startswith(PREFIX) for name in names)


def configure_broker(names: Iterable[str]) -> bool:
    """Whether one of these variables is one that every broker needs."""
    return any(_property_part(name) in _NAMES_A_BROKER for name in names if name.startswith(PREFIX))


def broker_properties(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The properties of Kafka that the variables stand for; the images take others besides."""
    for name, value in variables.items():
        if not name.startswith(PREFIX):
            continue
        words = _property_part(name).lower()
        key = words.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
        value = value.strip("\"'")
        if key in PROPERTIES and value and "\n" not in value:
            yield key, value


def _property_part(name: str) -> str:
    return name.removeprefix(_BITNAMI).removeprefix(PREFIX)


def _unquoted(value: str) -> str:
    """A value of an environment file without its quotes, or without the comment behind it."""
    if quoted := re.match(r"""(["'])(.*?)\1""", value):
        return quoted[2]
    return re.split(r"(?:^|\s+)#", value)[0]
