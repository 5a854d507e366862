"""Which kind of file somebody names, and what all the named files together say about one cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.cluster.inventory import compose, kubernetes
from harness.cluster.inventory.model import Inventory, together
from harness.cluster.inventory.properties import NodeProperties, inventory
from harness.cluster.property_files import kind_of_document
from harness.cluster.settings_files import properties_of, read_properties
from harness.errors import UsageError
from harness.texts import parse_yaml, text_file

_REMEDY = "name a server.properties, a Compose file or a Strimzi resource"
_YAML = (".yml", ".yaml")
_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")


def read(paths: Sequence[Path]) -> Inventory:
    """What the files say about one cluster. Of a folder, its Compose file, the properties files of its nodes
    or its resources of Kubernetes are read.

    Raises UsageError for a file of another kind, or that cannot be read.
    """
    files = [file for path in paths for file in _files(path)]
    nodes: list[NodeProperties] = []
    resources: list[Mapping[str, Any]] = []
    parts: list[Inventory] = []
    others: list[tuple[Path, list[Any]]] = []
    for file in files:
        if file.suffix not in _YAML:
            settings = read_properties(file, "broker", place=str(file)).broker
            nodes.append(NodeProperties(source=str(file), settings=settings))
            continue
        documents = [*kubernetes.flattened(parse_yaml(text_file(file, file, _REMEDY), file))]
        strimzi = [document for document in documents if kubernetes.is_resource(document)]
        texts = {name: text for document in documents for name, text in kubernetes.property_texts(document)}
        resources += strimzi
        nodes += [
            NodeProperties(
                source=f"{file}: {name}",
                settings=properties_of(Path(f"{file}: {name}"), text, "broker").broker,
            )
            for name, text in texts.items()
            if _OF_A_NODE.search(text)
        ]
        if not strimzi and not texts:
            others.append((file, documents))
    if nodes:
        parts.append(inventory(nodes))
    if resources:
        parts.append(kubernetes.read(files[0] if len(files) == 1 else paths[0], resources))
    for file, contents in others:
        if not parts or not any(isinstance(one, dict) and "apiVersion" in one for one in contents):
            parts.append(_compose(file, contents))
    return together(parts)


_OF_A_NODE = re.compile(r"^\s*(broker\.id|node\.id|process\.roles|log\.dirs?)\s*[=:]", re.MULTILINE)
"""What the properties of a node have, and those of clients, tools and loggers in the same folder do not."""


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    for name in _COMPOSE:
        if (path / name).is_file():
            return [path / name]
    properties = [file for file in sorted(path.glob("*.properties")) if file.is_file()]
    of_nodes = [
        file for file in properties if _OF_A_NODE.search(text_file(file, file, _REMEDY, or_latin_1=True))
    ]
    if properties:
        return of_nodes or properties
    resources = [
        file
        for file in sorted(path.iterdir())
        if file.suffix in _YAML and kubernetes.GROUP in text_file(file, file, _REMEDY)
    ]
    if resources:
        return resources
    raise UsageError(f"{path} holds no properties file, Compose file or Strimzi resource; {_REMEDY}.")


def _compose(file: Path, documents: Sequence[Any]) -> Inventory:
    document = documents[0] if documents else None
    if isinstance(document, dict) and isinstance(document.get("services"), dict) and "spring" not in document:
        variables = file.parent / ".env"
        return compose.read(
            file, document["services"], compose.environment_file(variables) if variables.is_file() else {}
        )
    raise UsageError(f"{file}: {_kind(document)}.")


def _kind(document: object) -> str:
    """What a YAML file of another kind is, as far as its keys tell, and what to do with it."""
    keys = {str(key) for key in document} if isinstance(document, dict) else set()
    if any(key.split(".")[0] == "spring" for key in keys):
        return (
            "this configures a Spring application, which is a client and not a cluster; name it with "
            "--producer-config or --consumer-config of `acked run` and `acked assess`"
        )
    if "apiVersion" in keys:
        return f"this resource of Kubernetes is none of Strimzi's; {_REMEDY}"
    kind = kind_of_document(document) if keys else ""
    return kind or f"this YAML file describes no Kafka cluster; {_REMEDY}"
