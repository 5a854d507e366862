"""A running cluster, asked through the Admin API for metadata and configurations; nothing is written."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ConfigSource, ResourceType

from harness.cluster.attached import attach, bootstrap_endpoints
from harness.cluster.inventory.model import Inventory, TopicDescription
from harness.cluster.inventory.properties import NodeProperties, inventory
from harness.cluster.settings import Setting
from harness.errors import UsageError
from harness.kafka.broker_properties import likeliest_version
from harness.kafka.security import PLAINTEXT, ClientSecurity

_TIMEOUT_S = 10.0
_NO_ANSWER = f"nothing came within {_TIMEOUT_S:.0f} s"
_MOST_SHAPES = 20
_TOPICS_OF_A_REQUEST = 200
_OF_BROKER = (
    ConfigSource.STATIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
)
_OF_TOPIC = (ConfigSource.DYNAMIC_TOPIC_CONFIG,)
"""Sources of values that somebody chose for a broker or a topic itself (KIP-226)."""
_SILENT = logging.getLogger(f"{__name__}.librdkafka")
_SILENT.disabled = True


def read(bootstrap: str, security: ClientSecurity = PLAINTEXT) -> Inventory:
    """The cluster behind `host:port,...`, addresses of a listener with this security. Raises UsageError."""
    attach(bootstrap_endpoints(bootstrap, security))  # says what a cluster refuses, which librdkafka does not
    try:
        reaching = {"bootstrap.servers": bootstrap, **security.librdkafka()}
        admin = AdminClient({**reaching, "log_level": "0"}, logger=_SILENT)
        description = admin.describe_cluster(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S)
        brokers = [ConfigResource(ResourceType.BROKER, str(node.id)) for node in description.nodes]
        described = _described(admin, [[broker] for broker in brokers])  # each answers for itself alone
        topics, notes = _topics(admin)
    except (KafkaException, TimeoutError, ValueError) as error:
        raise UsageError(
            f"--bootstrap {bootstrap}: no cluster answered: {str(error) or _NO_ANSWER}; name host:port of a "
            f"listener that this machine reaches, and in --client-config how clients prove who they are."
        ) from None
    nodes = [
        NodeProperties(
            source=f"broker {node.id}",
            settings={
                key: Setting.given(key, value, f"broker {node.id}")
                for key, value in (
                    *_chosen(described.get(broker.name, {}), _OF_BROKER),
                    *([("broker.rack", node.rack)] if node.rack else []),
                )
            },
        )
        for node, broker in zip(description.nodes, brokers, strict=True)
    ]
    cluster = inventory(nodes, alone="")
    names = {name for config in described.values() for name in config}
    if names and not cluster.version:
        version = likeliest_version(names)
        cluster = replace(cluster, version=version)
        notes = (
            *notes,
            f"Its brokers have the properties of Kafka {version}; --kafka names another version.",
        )
    if not security.plaintext:
        table = f'protocol = "{security.protocol}"'
        table += f' and mechanism = "{security.mechanism}"' if security.mechanism else ""
        notes = (
            *notes,
            f"Runs have no TLS and SASL; to have what its clients speak, add [security] with {table}.",
        )
    return replace(cluster, topics=topics, notes=(*cluster.notes, *notes))


def _described(
    admin: AdminClient, requests: Sequence[Sequence[ConfigResource]]
) -> dict[str, dict[str, ConfigEntry]]:
    """The configurations of the resources by name; what may not be described is missing.

    All requests are sent before the first answer is awaited.
    """
    futures = {
        resource.name: future
        for resources in requests
        for resource, future in admin.describe_configs(list(resources), request_timeout=_TIMEOUT_S).items()
    }
    described = {}
    for name, future in futures.items():
        with suppress(KafkaException):  # DESCRIBE_CONFIGS is not an ordinary user's right
            described[name] = future.result(_TIMEOUT_S)
    return described


def _chosen(
    config: Mapping[str, ConfigEntry], sources: Collection[ConfigSource]
) -> Iterator[tuple[str, str]]:
    """The properties that somebody chose. The library tells sources by their numbers."""
    numbers = {source.value for source in sources}
    for key, entry in config.items():
        if entry.source in numbers and entry.value is not None and not entry.is_sensitive:
            yield key, entry.value


def _topics(admin: AdminClient) -> tuple[tuple[TopicDescription, ...], tuple[str, ...]]:
    """The shapes of the topics, those of most topics first, each under the name of its first topic; notes."""
    partitions_of = {
        name: topic.partitions
        for name, topic in sorted(admin.list_topics(timeout=_TIMEOUT_S).topics.items())
        if not name.startswith("__") and topic.partitions
    }
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in partitions_of]
    at_once = [
        resources[start : start + _TOPICS_OF_A_REQUEST]
        for start in range(0, len(resources), _TOPICS_OF_A_REQUEST)
    ]
    described = _described(admin, at_once)
    names_by_shape: dict[tuple[int, int, tuple[tuple[str, str], ...]], list[str]] = {}
    for name, partitions in partitions_of.items():
        config = tuple(sorted(_chosen(described.get(name, {}), _OF_TOPIC)))
        factor = max(len(partition.replicas) for partition in partitions.values())
        names_by_shape.setdefault((len(partitions), factor, config), []).append(name)
    shapes = sorted(names_by_shape.items(), key=lambda entry: -len(entry[1]))
    topics = tuple(
        TopicDescription(
            name=names[0],
            partitions=partitions,
            replication_factor=factor,
            config=dict(config),
            stands_for=len(names),
        )
        for (partitions, factor, config), names in shapes[:_MOST_SHAPES]
    )
    rest = sum(len(names) for _, names in shapes[_MOST_SHAPES:])
    note = (
        f"The topics have {len(shapes)} shapes and configurations; {rest} topics of the rarest are left out."
    )
    return topics, (note,) if rest else ()
