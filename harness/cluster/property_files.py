"""Files that hold properties, as people have them: Java's, YAML, JSON, variables, configurations of Spring.

A client's properties may lie in the configuration of an application, which has others besides: those of
Spring Boot, of a Connect worker, of Kafka Streams or of MirrorMaker 2. What is no such file is refused with a
sentence that says what it is, and where its properties are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import javaproperties
from javaproperties.reading import KeyValue

from harness.cluster import spring
from harness.cluster.client_settings import is_of_client, names_of
from harness.cluster.settings import nearest
from harness.cluster.variables import are_variables, broker_properties, variables_of
from harness.errors import UsageError, quoted
from harness.kafka.broker_properties import PROPERTIES
from harness.secrets import shown_text
from harness.texts import DEEPEST, parse_yaml, scalar_text

YAML = (".yml", ".yaml", ".json")
_JSON = re.compile(r"\s*\{(?![{%])")
_MOST_KEYS = 5_000
"""Of a YAML file, whose aliases may stand for more than the file is long."""


@dataclass(frozen=True, kw_only=True)
class Property:
    """A property as its file has it."""

    place: str
    key: str
    value: str


def read(path: Path, text: str, table: str) -> list[Property]:
    """The properties for a table of settings. Raises UsageError for a file of another kind.

    ``table`` is `broker`, `topic`, `producer` or `consumer`.
    """
    properties = _all(path, text, table)
    return _of_application(properties, table) if table in ("producer", "consumer") else properties


def _all(path: Path, text: str, table: str) -> list[Property]:
    if path.suffix.lower() in YAML or _JSON.match(text):
        documents = parse_yaml(text, path)
        if what := kind_of_document(documents[0] if documents else None):
            raise UsageError(f"{path}: {what}.")
        return list(_flattened(path, documents))
    if what := _kind_of_text(text):
        raise UsageError(f"{path}: {what}.")
    properties = list(_java(path, text))
    if are_variables(one.key for one in properties) and table == "broker":
        pairs = broker_properties(variables_of(text))
        return [Property(place=str(path), key=key, value=value) for key, value in pairs]
    return properties


def _java(path: Path, text: str) -> Iterator[Property]:
    line = 1
    try:
        for element in javaproperties.parse(text):
            place = f"{path}:{line}"
            line += len(element.source.splitlines())
            if not isinstance(element, KeyValue):
                continue
            if not element.key:
                raise UsageError(f"{place}: the line has no key; write key=value.")
            key, source = element.key, element.source.strip()
            if not element.value and not re.search(r"[=:]\s*$", source):
                raise UsageError(
                    f"{place}: {shown_text(source)!r} has no value; write {key}=..., or remove the line."
                )
            yield Property(place=place, key=key, value=element.value)
    except javaproperties.InvalidUEscapeError as error:
        raise UsageError(
            f"{path}:{line}: {error.escape!r} is not a Unicode escape; write \\u and four hexadecimal digits."
        ) from None


def _flattened(path: Path, documents: Iterable[Any]) -> Iterator[Property]:
    """The values of nested mappings by dotted keys, as Spring reads YAML; `[a.b]` in brackets is one key."""
    count = 0

    def leaves(value: Any, above: str, depth: int = 0) -> Iterator[Property]:
        nonlocal count
        count += 1
        if count > _MOST_KEYS or depth > DEEPEST:
            raise UsageError(
                f"{path} has more than {_MOST_KEYS} values, or nests them more than {DEEPEST} deep; name a "
                f"file of properties."
            )
        if isinstance(value, dict):
            for key, below in value.items():
                name = str(key).strip("[]")
                yield from leaves(below, f"{above}.{name}" if above else name, depth + 1)
        elif isinstance(value, list):
            yield Property(place=str(path), key=above, value=",".join(map(scalar_text, value)))
        else:
            yield Property(place=str(path), key=above, value=scalar_text(value))

    for document in documents:
        if isinstance(document, dict) and not spring.of_a_profile(document):
            yield from leaves(document, "")


_PREFIX = {
    kind: re.compile(rf"(?:(?:main|ksql\.streams|config)\.|[^.]+->[^.]+\.)?{kind}\.(?:override\.)?(.+)")
    for kind in ("producer", "consumer")
}
"""What stands before a client's properties in files of Connect, Streams, ksqlDB and MirrorMaker 2."""


def _of_application(properties: Sequence[Property], kind: str) -> list[Property]:
    """The client's properties in the configuration of an application; of a plain file, all."""
    if any(one.key.startswith(spring.PREFIX) for one in properties):
        pairs = spring.client_properties(((one.key, one.value) for one in properties), kind)
        places = {one.key: one.place for one in properties}
        return [Property(place=places[source], key=key, value=value) for source, key, value in pairs]
    prefixed = [
        Property(place=one.place, key=match[1], value=one.value)
        for one in properties
        if (match := _PREFIX[kind].fullmatch(one.key))
    ]
    # Old clients have properties such as `producer.type` themselves.
    return prefixed if any(is_of_client(one.key) for one in prefixed) else list(properties)


def refuse_foreign(path: Path, keys: Set[str], table: str) -> None:
    """Raise UsageError if a file with these properties configures something else than ``table`` says.

    Some properties have one name for brokers and clients; most of the others decide.
    """
    if not keys or table == "topic":
        return
    of_brokers = {key for key in keys if key in PROPERTIES and not key.startswith("zookeeper.")}
    of_clients = {key for key in keys if is_of_client(key) or key.startswith(spring.PREFIX)}
    if table == "broker":
        ours, others = keys & PROPERTIES.keys(), of_clients
        whose, options = "a client", "--producer-config or --consumer-config"
    else:
        ours, others = of_clients, of_brokers
        whose, options = "a broker", "--broker-config"
    foreign = others - ours
    if len(foreign) > len(ours - others):
        raise UsageError(
            f"{path}: {min(foreign)} is no property of a {table}, since this configures {whose}; name the "
            f"file with {options}."
        )
    if not ours and not _misspelt(keys, table):
        raise UsageError(
            f"{path}: Kafka's {table}s have none of its properties, such as {quoted(shown_text(min(keys)))}; "
            f"name a file with Kafka's own names, such as {_EXAMPLE[table]}."
        )


def _misspelt(keys: Set[str], table: str) -> bool:
    """Whether one of a few keys is a typing error, of which another sentence tells."""
    names = PROPERTIES if table == "broker" else names_of("producer" if table == "producer" else "consumer")
    return len(keys) <= _FEW and any(nearest(key, names) for key in keys)


_FEW = 20
_EXAMPLE = {"broker": "min.insync.replicas=2", "producer": "acks=all", "consumer": "fetch.min.bytes=1"}


def kind_of_document(document: object) -> str:
    """What a YAML or JSON file is that holds no properties, and where they are; empty if it may hold some."""
    keys = {str(key) for key in document} if isinstance(document, dict) else set()
    if not isinstance(document, dict):
        return "this holds no keys with values; name a file with Kafka's own names, such as acks=all"
    if any(key.partition(".")[0] == "spring" for key in keys):
        return ""
    return next((what for fits, what in _DOCUMENTS if fits(keys)), "")


def _any(*names: str) -> Callable[[set[str]], bool]:
    return lambda keys: not keys.isdisjoint(names)


_DOCUMENTS: tuple[tuple[Callable[[set[str]], bool], str], ...] = (
    (_any("services"), "this is a Compose file; `acked cluster from` makes a cluster file of it"),
    (
        _any("apiVersion"),
        "this is a resource of Kubernetes; `acked cluster from` makes a cluster file of those of Strimzi",
    ),
    (
        _any("redpanda"),
        "this configures Redpanda, which speaks Kafka's protocol but is not Kafka; describe a cluster of "
        "Apache Kafka in a cluster file (docs/cluster-file.md)",
    ),
    (
        _any("all", "kafka_broker", "kafka_controller", "zookeeper", "hosts"),
        "this looks like an Ansible inventory; name the server.properties that the role writes on a broker",
    ),
    (
        _any("replicaCount", "controller", "broker", "extraConfig", "global"),
        "this looks like a Helm chart's values; name the server.properties in `kubectl get configmap`",
    ),
)
"""By the keys of the first document."""
_TEXTS: tuple[tuple[str, str], ...] = (
    (r"\{%|\{\{", "this is a template; name the file that results from it"),
    (r"<[?!\w]", "this is XML; name a file of properties, key=value"),
    (r"#!/", "this is a script; name the file of properties that it writes"),
    (r"\[\[az\]\]", "this is a cluster file; name it with --cluster"),
    (
        r"\[[^=\n]*\]\s*$",
        "this is an INI file with sections; name a file that holds the lines of one section",
    ),
    (
        r"(resource|variable|locals|module)\b[^=\n]*\{\s*$",
        "this is Terraform; name a file that holds the lines of server_properties",
    ),
)
"""Beginnings of lines that no file of properties has, and what a file with such a line is."""


def _kind_of_text(text: str) -> str:
    for line in text.splitlines():
        for pattern, what in _TEXTS:
            if re.match(pattern, line.lstrip("\ufeff")):
                return what
    return ""
