"""Resources of Kubernetes: Strimzi's `Kafka`, `KafkaNodePool` and `KafkaTopic`, and a chart's `ConfigMap`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.cluster.inventory.model import Inventory, Node, NodeRole, TopicDescription
from harness.cluster.settings import Setting
from harness.errors import UsageError
from harness.texts import scalar_text

GROUP = "kafka.strimzi.io/"
KINDS = ("Kafka", "KafkaNodePool", "KafkaTopic")


def flattened(documents: Iterable[Any]) -> Iterator[Any]:
    """The documents, with the items of lists (`kubectl get -o yaml`) in place of the lists."""
    for document in documents:
        items = document.get("items") if isinstance(document, dict) else None
        yield from items if isinstance(items, list) and document.get("kind") == "List" else [document]


def is_resource(document: object) -> bool:
    """Whether this is one of the resources that are read here."""
    return (
        isinstance(document, dict)
        and document.get("kind") in KINDS
        and str(document.get("apiVersion", "")).startswith(GROUP)
    )


def property_texts(document: object) -> Iterator[tuple[str, str]]:
    """Name and text of each properties file in a `ConfigMap`, as charts make them for the nodes."""
    if isinstance(document, dict) and document.get("kind") == "ConfigMap":
        for name, text in _mapping(document.get("data")).items():
            if str(name).endswith(".properties") and isinstance(text, str):
                yield f"{_at(document, 'metadata', 'name')}/{name}", text


def read(path: Path, documents: Sequence[Mapping[str, Any]]) -> Inventory:
    """The cluster that the resources describe. Raises UsageError."""
    by_kind = {kind: [one for one in documents if one.get("kind") == kind] for kind in KINDS}
    if len(by_kind["Kafka"]) > 1:
        names = ", ".join(str(_at(one, "metadata", "name")) for one in by_kind["Kafka"])
        raise UsageError(f"{path} describes several clusters: {names}; leave one Kafka resource in the file.")
    nodes: list[Node] = []
    settings: list[Mapping[str, Setting]] = []
    notes: list[str] = []
    version = ""
    for pool in by_kind["KafkaNodePool"]:
        roles = _roles(path, pool)
        name = str(_at(pool, "metadata", "name") or "pool")
        nodes += _replicas(path, name, roles, _at(pool, "spec", "replicas"))
    for resource in by_kind["Kafka"]:
        kafka = _mapping(_at(resource, "spec", "kafka"))
        version = str(kafka.get("version") or "")
        place = f"{path}: spec.kafka.config"
        settings.append(
            {
                str(key): Setting.given(str(key), text, place)
                for key, value in _mapping(kafka.get("config")).items()
                if "\n" not in (text := scalar_text(value).strip())  # a property is one line
            }
        )
        if not by_kind["KafkaNodePool"]:
            nodes += _replicas(path, "kafka", frozenset({"broker"}), kafka.get("replicas"))
        zookeepers = _at(resource, "spec", "zookeeper", "replicas")
        with_kraft = any("controller" in node.roles for node in nodes)
        if zookeepers and not with_kraft:
            nodes += _replicas(path, "zookeeper", frozenset({"zookeeper"}), zookeepers)
        if kafka.get("rack"):
            notes.append(
                "Strimzi spreads the nodes over the zones of Kubernetes; the file does not name them."
            )
    topics = tuple(_topic(one) for one in by_kind["KafkaTopic"])
    return Inventory(
        nodes=tuple(nodes), settings=tuple(settings), topics=topics, version=version, notes=tuple(notes)
    )


def _roles(path: Path, pool: Mapping[str, Any]) -> frozenset[NodeRole]:
    stated = _at(pool, "spec", "roles")
    names: Iterable[object] = stated if isinstance(stated, list) else ()
    roles: frozenset[NodeRole] = frozenset(role for role in ("broker", "controller") if role in names)
    if not roles:
        raise UsageError(
            f"{path}: the KafkaNodePool {_at(pool, 'metadata', 'name')!r} has no role; write roles: "
            f"[broker], [controller] or both."
        )
    return roles


def _replicas(path: Path, name: str, roles: frozenset[NodeRole], count: object) -> list[Node]:
    if not isinstance(count, int) or not 0 <= count < 1000:
        raise UsageError(f"{path}: the replicas of {name!r} are {count!r}; write a number of nodes.")
    return [Node(name=f"{name}-{number}", roles=roles) for number in range(count)]


def _topic(resource: Mapping[str, Any]) -> TopicDescription:
    spec = _mapping(resource.get("spec"))
    return TopicDescription(
        name=str(spec.get("topicName") or _at(resource, "metadata", "name") or "topic"),
        partitions=_count(spec.get("partitions"), 1),
        replication_factor=_count(spec.get("replicas"), 0),
        config={str(key): scalar_text(value) for key, value in _mapping(spec.get("config")).items()},
    )


def _count(value: object, default: int) -> int:
    return value if isinstance(value, int) and value > 0 else default


def _at(resource: Mapping[str, Any], *path: str) -> Any:
    value: Any = resource
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
