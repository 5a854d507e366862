"""A running cluster, asked through the Admin API for metadata and configurations; nothing is written."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from harness.cluster.inventory.model import Inventory, TopicDescription
from harness.cluster.inventory.properties import NodeProperties, inventory
from harness.cluster.settings import Setting
from harness.errors import UsageError

_TIMEOUT_S = 10.0
_NO_ANSWER = f"nothing came within {_TIMEOUT_S:.0f} s"
_MOST_SHAPES = 20
_OF_BROKER = ("STATIC_BROKER_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG")
_OF_TOPIC = ("DYNAMIC_TOPIC_CONFIG",)
"""Sources of values that somebody chose for a broker or a topic itself (KIP-226)."""
_SILENT = logging.getLogger(f"{__name__}.librdkafka")
_SILENT.disabled = True


def read(bootstrap: str) -> Inventory:
    """The cluster behind `host:port,...`, addresses of a listener without security. Raises UsageError."""
    try:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": "0"}, logger=_SILENT)
        description = admin.describe_cluster(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S)
        brokers = {
            str(node.id): _settings(
                admin, ConfigResource(ResourceType.BROKER, str(node.id)), f"broker {node.id}", node.rack
            )
            for node in description.nodes
        }
        topics = tuple(_topics(admin))
    except (KafkaException, TimeoutError, ValueError) as error:
        raise UsageError(
            f"--bootstrap {bootstrap}: no cluster answered: {str(error) or _NO_ANSWER}; name host:port of a "
            f"listener without TLS and SASL that this machine reaches."
        ) from None
    nodes = [NodeProperties(source=f"broker {name}", settings=settings) for name, settings in brokers.items()]
    return replace(inventory(nodes, alone="The cluster has one broker"), topics=topics)


def _settings(
    admin: AdminClient, resource: ConfigResource, place: str, rack: str | None
) -> dict[str, Setting]:
    """The broker's properties that somebody chose. Without the right to describe them, its rack alone."""
    chosen = {"broker.rack": rack} if rack else {}
    with suppress(KafkaException):  # DESCRIBE_CONFIGS on the cluster is not an ordinary user's right
        chosen = {**dict(_chosen(admin, resource, _OF_BROKER)), **chosen}
    return {key: Setting.given(key, value, place) for key, value in chosen.items()}


def _chosen(
    admin: AdminClient, resource: ConfigResource, sources: Collection[str]
) -> Iterator[tuple[str, str]]:
    (answer,) = admin.describe_configs([resource], request_timeout=_TIMEOUT_S).values()
    for key, entry in answer.result(_TIMEOUT_S).items():
        source = getattr(entry.source, "name", str(entry.source))
        if source in sources and entry.value is not None and not entry.is_sensitive:
            yield key, entry.value


def _topics(admin: AdminClient) -> Iterator[TopicDescription]:
    """The shapes of the topics, those of most topics first, each under the name of its first topic."""
    described = {
        name: topic.partitions
        for name, topic in admin.list_topics(timeout=_TIMEOUT_S).topics.items()
        if not name.startswith("__") and topic.partitions
    }
    names_by_shape: dict[tuple[int, int, tuple[tuple[str, str], ...]], list[str]] = {}
    for name, partitions in sorted(described.items()):
        config: tuple[tuple[str, str], ...] = ()
        with suppress(KafkaException):  # DESCRIBE_CONFIGS on the topic
            config = tuple(sorted(_chosen(admin, ConfigResource(ResourceType.TOPIC, name), _OF_TOPIC)))
        factor = max(len(partition.replicas) for partition in partitions.values())
        names_by_shape.setdefault((len(partitions), factor, config), []).append(name)
    shapes = sorted(names_by_shape.items(), key=lambda entry: -len(entry[1]))
    for (partitions, factor, config), names in shapes[:_MOST_SHAPES]:
        yield TopicDescription(
            name=names[0],
            partitions=partitions,
            replication_factor=factor,
            config=dict(config),
            stands_for=len(names),
        )
