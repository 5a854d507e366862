"""A Compose file whose services run Kafka, in the images that people use.

Images name a broker's properties as environment variables (`harness.cluster.variables`). Nothing is run, and
no variable is taken from this machine's environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.cluster.inventory.model import Inventory, Node
from harness.cluster.inventory.properties import NodeProperties, inventory
from harness.cluster.settings import Setting
from harness.cluster.variables import broker_properties, configure_broker, variables_of
from harness.errors import UsageError
from harness.texts import scalar_text, text_file

_COMPATIBLE = ("redpanda", "warpstream", "bufstream", "automq")
_TOOLS = re.compile(
    r"kafka-?(ui|connect|rest|exporter|manager|drop|bridge|hq|topics)|connect|exporter|schema-registry|ksql|"
    r"akhq|kafdrop|cruise|kcat|mirror|cmak|control-center|enterprise-control|jmx|init",
)
_KAFKA = re.compile(r"(^|/)(cp-)?(kafka|server|kafka-native|local)\b|kafka:")
_STARTS = re.compile(r"server-start|start-kafka|\brun\b|run\.sh|entrypoint")
"""In a command that starts a broker."""
_CONFLUENT = {"5.5": "2.5", "6.0": "2.6", "6.1": "2.7", "6.2": "2.8"}
"""Confluent Platform's releases before 7.0, and Kafka's. After them 7.x has Kafka 3.x, and 8.x has 4.x."""


def read(path: Path, services: Mapping[str, Any], variables: Mapping[str, str]) -> Inventory:
    """The cluster that the services of a Compose file form. Raises UsageError."""
    brokers: list[NodeProperties] = []
    zookeepers: list[Node] = []
    versions: set[str] = set()
    for name, service in services.items():
        if not isinstance(service, dict):
            continue
        image, environment = "", dict[str, str]()
        for part in _with_bases(service, services):
            image = _interpolated(str(part.get("image", "")), variables) or image
            environment |= {**_files(path, part), **_environment(part, variables)}
        kind = _kind(path, str(name), image, environment)
        if kind == "kafka" and _is_tool(service, environment):
            continue
        if kind == "zookeeper":
            zookeepers += [
                Node(name=f"{name}-{n}", roles=frozenset({"zookeeper"})) for n in range(_copies(service))
            ]
        elif kind == "kafka":
            settings = {
                key: Setting.given(key, value, f"{path}: {name}")
                for key, value in broker_properties(environment)
            }
            brokers.append(NodeProperties(source=str(name), settings=settings, copies=_copies(service)))
            versions |= {version for version in (version_of(image),) if version}
    if not brokers:
        raise UsageError(
            f"{path}: no service of this Compose file runs a broker that acked recognizes by image or "
            f"KAFKA_ variables; name the brokers' server.properties instead."
        )
    cluster = inventory(brokers, servers_known=bool(zookeepers), alone="One service describes one broker")
    version = versions.pop() if len(versions) == 1 else cluster.version
    return replace(cluster, nodes=(*cluster.nodes, *zookeepers), version=version)


def version_of(image: str) -> str:
    """The Kafka version that an image's tag states; empty if it states none."""
    name, _, tag = image.rpartition(":")
    if "/" in tag or not name or "debezium" in name:  # whose tags are its own versions
        return ""
    if stated := re.search(r"kafka-(\d+\.\d+\.\d+)", tag):  # Strimzi: 0.45.0-kafka-3.9.0
        return stated[1]
    if "confluentinc" in name or "/cp-" in name or name.startswith("cp-"):
        release = re.match(r"(\d+)\.(\d+)(\.\d+)?", tag)
        if release is None:
            return ""
        major, minor = int(release[1]), int(release[2])
        kafka = f"{major - 4}.{minor}" if major >= 7 else _CONFLUENT.get(f"{major}.{minor}", "")
        return kafka and kafka + (release[3] or "")
    stated = re.match(r"(?:2\.1[0-3]-)?v?(\d+\.\d+(?:\.\d+)?)", tag)  # wurstmeister: 2.13-2.8.1
    return stated[1] if stated else ""


def _kind(path: Path, name: str, image: str, environment: Mapping[str, str]) -> str:
    repository = image.rpartition(":")[0] or image
    if any(word in repository for word in _COMPATIBLE):
        raise UsageError(
            f"{path}: {name} runs {image}, which speaks Kafka's protocol but is not Kafka; acked builds "
            f"clusters of Apache Kafka alone: describe one in a cluster file (docs/cluster-file.md)."
        )
    if "zookeeper" in repository or (not image and "ZOOKEEPER_CLIENT_PORT" in environment):
        return "zookeeper"
    configured = configure_broker(environment)
    if _TOOLS.search(repository.rpartition("/")[2]) and not configured:
        return ""
    return "kafka" if configured or _KAFKA.search(image) else ""


def _is_tool(service: Mapping[str, Any], environment: Iterable[str]) -> bool:
    """Whether a service runs another command of a broker's image, such as one that creates topics."""
    command = f"{service.get('entrypoint') or ''} {service.get('command') or ''}".strip()
    return bool(command) and not configure_broker(environment) and not _STARTS.search(command)


def _with_bases(service: Mapping[str, Any], services: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A service after those of the same file that it extends."""
    chain = [service]
    while len(chain) <= len(services):
        extended = chain[0].get("extends")
        if isinstance(extended, dict):
            extended = None if "file" in extended else extended.get("service")
        base = services.get(extended) if isinstance(extended, str) else None
        if not isinstance(base, dict):
            break
        chain.insert(0, base)
    return chain


def _copies(service: Mapping[str, Any]) -> int:
    deploy = service.get("deploy")
    replicas = deploy.get("replicas", 1) if isinstance(deploy, dict) else 1
    copies = service.get("scale", replicas)
    return copies if isinstance(copies, int) and 0 < copies < 1000 else 1


def environment_file(file: Path) -> dict[str, str]:
    """The variables of a file. Raises UsageError if it cannot be read."""
    return variables_of(text_file(file, file, "name a file of variables"))


def _environment(service: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, str]:
    """A service's environment, which Compose accepts as a mapping and as a list of `NAME=value`."""
    stated = service.get("environment")
    if isinstance(stated, list):
        pairs = [scalar_text(entry).partition("=")[::2] for entry in stated]
    elif isinstance(stated, dict):
        pairs = [(str(name), scalar_text(value)) for name, value in stated.items()]
    else:
        pairs = []
    return {name.strip(): _interpolated(value, variables).strip() for name, value in pairs}


def _files(path: Path, service: Mapping[str, Any]) -> dict[str, str]:
    """What a service's `env_file` sets, from the files that are there."""
    stated = service.get("env_file")
    names = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
    variables: dict[str, str] = {}
    for name in names:
        file = path.parent / str(name.get("path", "") if isinstance(name, dict) else name)
        if file.is_file():
            variables |= environment_file(file)
    return variables


_VARIABLE = re.compile(r"\$(?:\$|(\w+)|\{(\w+)(?:(:?[-?+])((?:[^{}]|\{[^{}]*\})*))?\})")


def _interpolated(text: str, variables: Mapping[str, str]) -> str:
    """Compose's `${NAME:-default}` and `${NAME:+other}`, with the variables of the `.env` file beside it."""

    def value(match: re.Match[str]) -> str:
        name, operator = match[1] or match[2], match[3] or ""
        if name is None:
            return "$"
        stated = variables.get(name)
        present = bool(stated) if operator.startswith(":") else stated is not None
        if operator.endswith("+") if present else operator.endswith("-"):
            return _interpolated(match[4], variables)
        return "" if operator.endswith("+") else stated or ""

    return _VARIABLE.sub(value, text)
