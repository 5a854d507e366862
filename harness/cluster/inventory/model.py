"""The nodes and settings of somebody's cluster, and the cluster file that describes it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from textwrap import wrap
from typing import Literal

from harness.cluster.owned import is_left_out
from harness.cluster.possible import MIN_INSYNC
from harness.cluster.settings import MOST_DESCRIBED, Setting, nearest, whole
from harness.errors import UsageError, quoted
from harness.kafka.broker_properties import PROPERTIES
from harness.kafka.versions import VERSIONS, version_key
from harness.lab.layout import MAX_AZS, MOST

NodeRole = Literal["broker", "controller", "zookeeper"]
_SPREAD = 3
"""Over how many AZs nodes are spread if nothing says where they are."""
_BARE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


@dataclass(frozen=True, kw_only=True)
class Node:
    """A process of the cluster. A combined KRaft node has two roles."""

    name: str
    """As its source calls it: a file, a service, a node id."""
    roles: frozenset[NodeRole]
    az: str = ""
    """Its rack; empty if the source names none."""


@dataclass(frozen=True, kw_only=True)
class TopicDescription:
    """A topic, and how many others have the same shape and configuration."""

    name: str
    partitions: int
    replication_factor: int
    """0: the brokers' default."""
    config: Mapping[str, str] = field(default_factory=dict)
    stands_for: int = 1


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What sources say about one cluster. ``version`` is empty if none names it."""

    nodes: tuple[Node, ...]
    settings: tuple[Mapping[str, Setting], ...] = ()
    """Broker settings, one mapping for each broker, or one for all."""
    topics: tuple[TopicDescription, ...] = ()
    version: str = ""
    notes: tuple[str, ...] = ()
    """What had to be assumed, as sentences."""
    rack_of_one: str = ""
    """The rack of the only broker that is described, which does not say where the others are."""

    def and_also(self, other: Inventory) -> Inventory:
        """Both, as parts of one cluster. Raises UsageError if they name different Kafka versions."""
        if self.version and other.version and self.version != other.version:
            raise UsageError(
                f"The sources name Kafka {self.version} and Kafka {other.version}; name those of one "
                f"cluster, or choose with --kafka."
            )
        return Inventory(
            nodes=(*self.nodes, *other.nodes),
            settings=(*self.settings, *other.settings),
            topics=(*self.topics, *other.topics),
            version=self.version or other.version,
            notes=(*self.notes, *(note for note in other.notes if note not in self.notes)),
            rack_of_one=self.rack_of_one or other.rack_of_one,
        )


def together(parts: Iterable[Inventory]) -> Inventory:
    """What all parts, at least one, say of one cluster. Raises UsageError."""
    return reduce(Inventory.and_also, parts)


@dataclass(frozen=True)
class _Zone:
    name: str
    counts: Mapping[NodeRole, int]


def cluster_file(inventory: Inventory, sources: Sequence[str]) -> str:
    """The text of a cluster file: TOML with comments that say what was assumed and what was left out.

    Raises UsageError for a cluster that acked cannot build.
    """
    mode, mode_notes = _mode(inventory.nodes)
    version, version_notes = _version(inventory.version, mode)
    zones, zone_notes = _zones(inventory, mode)
    notes = [*inventory.notes, *version_notes, *mode_notes, *zone_notes]
    command = f"Written by `acked cluster from {' '.join(sources)}`; docs/cluster-file.md describes the keys."
    lines = _comment([command, *notes])
    lines += ["", *([f'kafka = "{version}"'] if version else []), f'mode = "{mode}"']
    coordinators: NodeRole = "zookeeper" if mode == "zookeeper" else "controller"
    for zone in zones:
        lines += ["", "[[az]]", f"name = {_text(zone.name)}", f"brokers = {zone.counts['broker']}"]
        if mode != "kraft-combined":
            lines.append(f"{coordinators}s = {zone.counts[coordinators]}")
        if not zone.counts["broker"]:
            lines.append("clients = 0")
    lines += _settings(inventory.settings)
    for topic in inventory.topics:
        lines += ["", *_topic(topic, inventory.settings)]
    return "\n".join(lines) + "\n"


def _mode(nodes: Sequence[Node]) -> tuple[str, list[str]]:
    roles = Counter(role for node in nodes for role in node.roles)
    if not roles["broker"]:
        raise UsageError(
            "None of the sources describes a broker; name the brokers' server.properties, a Compose file, a "
            "Strimzi resource, or a cluster with --bootstrap."
        )
    combined = [node for node in nodes if node.roles >= {"broker", "controller"}]
    if roles["zookeeper"] and roles["controller"]:
        raise UsageError(
            "The sources name ZooKeeper nodes and KRaft controllers; acked describes a cluster before or "
            "after its migration: leave the files of one of the two out."
        )
    if roles["zookeeper"]:
        return "zookeeper", []
    if combined and len(combined) == roles["broker"] == roles["controller"]:
        return "kraft-combined", []
    if not roles["controller"]:
        return "kraft", [
            "No source names a controller or a ZooKeeper node; one controller in each AZ is assumed."
        ]
    if combined:
        return "kraft", [
            f"{len(combined)} of {roles['broker']} brokers are controllers as well; acked gives those "
            f"controllers hosts of their own."
        ]
    return "kraft", []


def _version(version: str, mode: str) -> tuple[str, list[str]]:
    """The known version that is nearest in the mode, and what to say about it."""
    fitting = [name for name, entry in VERSIONS.items() if mode in entry.modes]
    if not version:
        newest = max(fitting, key=version_key)
        note = f"No source names the Kafka version, so {newest} is assumed; --kafka names another one."
        return newest, [note]
    if version in fitting:
        return version, []
    release = version_key(version)[:2]
    same_release = [name for name in fitting if version_key(name)[:2] == release]
    older = [name for name in fitting if version_key(name) <= (*release, 99)]
    nearest = max(same_release or older or fitting[:1], key=version_key)
    return nearest, [f"The cluster runs Kafka {version}; {nearest} is the nearest version that acked knows."]


def _zones(inventory: Inventory, mode: str) -> tuple[list[_Zone], list[str]]:
    nodes = inventory.nodes
    notes = []
    coordinator: NodeRole = "zookeeper" if mode == "zookeeper" else "controller"
    brokers = [node for node in nodes if "broker" in node.roles]
    coordinators = [node for node in nodes if coordinator in node.roles]
    members_by_role: dict[NodeRole, list[Node]] = {"broker": brokers, coordinator: coordinators}
    for role, members in members_by_role.items():
        if len(members) > MOST[role]:
            raise UsageError(
                f"The cluster has {len(members)} {role}s, and acked builds at most {MOST[role]}; describe a "
                f"smaller cluster of the same shape in a cluster file (docs/cluster-file.md)."
            )
    racks = sorted({node.az for node in (*brokers, *coordinators) if node.az})
    if len(racks) > MAX_AZS:
        raise UsageError(
            f"The nodes are in {len(racks)} racks, and a cluster file has at most {MAX_AZS} AZs; group the "
            f"racks into AZs in a cluster file (docs/cluster-file.md)."
        )
    everywhere = all(
        {rack} <= {node.az for node in brokers} & {node.az for node in coordinators} for rack in racks
    )
    names = {rack: _az_name(rack, number if everywhere else 0) for number, rack in enumerate(racks, start=1)}
    if not racks:
        names = {f"az{n}": f"az{n}" for n in range(1, min(_SPREAD, len(brokers)) + 1)}
        if len(names) > 1:
            unplaced = "No source says where the brokers are (broker.rack)"
            if inventory.rack_of_one:
                unplaced = f"Only one broker's rack is known ({quoted(inventory.rack_of_one, 40)})"
            notes.append(f"{unplaced}; they are spread over {len(names)} AZs.")
    elif any(not node.az for node in brokers):
        notes.append("Some brokers have no broker.rack; they are spread over the AZs of the others.")
    renamed = [f"{rack!r} is called {name!r}" for rack, name in names.items() if rack != name]
    if renamed:
        notes.append(f"Names of AZs are made to fit: {', '.join(renamed)}.")
    counts: dict[str, Counter[NodeRole]] = {az: Counter() for az in names}
    _place(counts, brokers, "broker")
    if mode == "kraft" and not coordinators:
        for count in counts.values():
            count[coordinator] = 1
    elif mode != "kraft-combined":
        if any(not node.az for node in coordinators) and len(names) > 1:
            kind = "ZooKeeper nodes" if coordinator == "zookeeper" else "controllers"
            notes.append(f"No source says where the {kind} are; they are spread over the AZs.")
        _place(counts, coordinators, coordinator)
    return [_Zone(names[az], counts[az]) for az in names], notes


def _place(counts: Mapping[str, Counter[NodeRole]], nodes: Iterable[Node], role: NodeRole) -> None:
    """Count the nodes in their AZs, and those of unknown place where the fewest are."""
    homeless = 0
    for node in nodes:
        if node.az in counts:
            counts[node.az][role] += 1
        else:
            homeless += 1
    for _ in range(homeless):
        min(counts.values(), key=lambda count: (count[role], -count["broker"]))[role] += 1


def _az_name(rack: str, number: int) -> str:
    """A name that a cluster file accepts; ``number`` is the AZ's place, 0 if faults may call it otherwise."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", rack)[:40]
    if re.fullmatch(r"az\d+|(zookeeper|controller|broker|client)(s|\d+)", name, re.IGNORECASE):
        return name if name == f"az{number}" else f"rack-{name}"[:40]
    return name if name[:1].isalpha() else f"az-{name}"[:40]


def _settings(settings: Sequence[Mapping[str, Setting]]) -> Iterator[str]:
    values: dict[str, Counter[str]] = {}
    left_out = set()
    for of_broker in settings:
        for key, setting in of_broker.items():
            if key not in PROPERTIES and (meant := nearest(key, PROPERTIES)):
                raise UsageError(f"{setting}: Kafka has no such broker property; did you mean {meant}?")
            if is_left_out(setting) or key not in PROPERTIES:
                left_out.add(key)
            else:
                values.setdefault(key, Counter())[setting.value] += 1
    if values or left_out:
        yield from ("", "[broker]")
    if left_out:
        names = ", ".join(sorted(left_out))
        yield from _comment(
            [f"Left out, because acked sets these itself, or Kafka has none of this name: {names}."]
        )
    for key, counted in sorted(values.items()):
        value, count = counted.most_common(1)[0]
        others = sorted(other for other in counted if other != value)
        remark = (
            f"  # {count} of {counted.total()} brokers; others have {', '.join(others)}" if others else ""
        )
        yield f"{_key(key, values)} = {_toml(value)}{remark}"


def _topic(topic: TopicDescription, settings: Sequence[Mapping[str, Setting]]) -> Iterator[str]:
    of_brokers = (setting.value for one in settings if (setting := one.get(MIN_INSYNC)))
    least = whole(topic.config.get(MIN_INSYNC) or next(of_brokers, ""))
    if least is not None and 0 < topic.replication_factor < least:
        others = f" and {topic.stands_for - 1} like it" if topic.stands_for > 1 else ""
        yield from _comment(
            [
                f"Left out: topic {topic.name}{others}. With replication factor {topic.replication_factor} "
                f"and {MIN_INSYNC}={least}, no write with acks=all succeeds."
            ]
        )
        return
    name = topic.name if _BARE.fullmatch(topic.name) and "." not in topic.name else _text(topic.name)
    if topic.stands_for > 1:
        yield f"# Stands for {topic.stands_for} topics of this shape and configuration."
    yield f"[topic.{name}]"
    more = f"  # {topic.partitions} in the cluster" if topic.partitions > MOST_DESCRIBED else ""
    yield f"partitions = {min(topic.partitions, MOST_DESCRIBED)}{more}"
    if topic.replication_factor:
        yield f"replication-factor = {topic.replication_factor}"
    for key, value in sorted(topic.config.items()):
        yield f"{_key(key, topic.config)} = {_toml(value)}"


def _key(key: str, keys: Iterable[str]) -> str:
    """The key as TOML has it: quoted if another key is its beginning and would be a table and a value."""
    bare = _BARE.fullmatch(key) and not any(key.startswith(f"{other}.") for other in keys)
    return key if bare else _text(key)


def _toml(value: str) -> str:
    """A value of Kafka's: numbers and booleans bare, all else as text."""
    if value in ("true", "false") or re.fullmatch(r"-?(0|[1-9]\d{0,17})", value):
        return value
    return _text(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(sentences: Iterable[str]) -> list[str]:
    return [f"# {line}" for sentence in sentences for line in wrap(sentence, 100, break_on_hyphens=False)]
