"""Reads the effective configuration back from the brokers: an override without effect ends the run."""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import InvalidRunError
from harness.history.journal import Journal
from harness.kafka.model import Address, Topic, broker_name
from harness.kafka.wire.admin import describe_configs
from harness.kafka.wire.dialect import Dialect
from harness.lab.model import Topology
from harness.waiting import wait_until

ANSWER_WITHIN_S = 15.0
"""A broker that has just started takes long to answer its first request."""

_NOT_COMPARED = frozenset(
    {"listeners", "advertised.listeners", "log.dirs", "zookeeper.connect", "broker.rack"}
)
"""Keys that hold addresses and paths: recorded but not compared, because Kafka may rewrite them."""


def record_broker_configs(
    topology: Topology, asked: Mapping[str, Mapping[str, str]], journal: Journal, dialect: Dialect
) -> None:
    """Record each broker's effective configuration and compare it with what was asked for.

    Raises InvalidRunError naming the first key that had no effect.
    """
    if dialect.describe_configs is None:
        _record_unread(asked, journal)
        return
    for host, wanted in asked.items():
        node = topology.host(host)
        effective = describe_configs(
            node.broker_address, "broker", str(node.node_id), dialect=dialect, timeout_s=ANSWER_WITHIN_S
        )
        _write(journal, "broker", host, effective, wanted)
        _compare(host, effective, wanted)


def record_topic_configs(
    topology: Topology, topics: tuple[Topic, ...], journal: Journal, dialect: Dialect
) -> None:
    """Record each topic's effective configuration and compare it with what was asked for."""
    if dialect.describe_configs is None:
        _record_unread({topic.name: topic.config for topic in topics}, journal, "topic")
        return
    for topic in topics:
        leader = topology.host(broker_name(topic.replicas[0]))
        effective = _when_known(leader.broker_address, topic, dialect)
        _write(journal, "topic", topic.name, effective, topic.config)
        _compare(f"topic {topic.name}", effective, topic.config)


def _when_known(leader: Address, topic: Topic, dialect: Dialect) -> dict[str, str | None]:
    """The leader of a new topic knows it a moment later than the metadata store."""
    return wait_until(
        lambda: describe_configs(leader, "topic", topic.name, dialect=dialect),
        within_s=15,
        awaiting=f"{leader[0]} to know topic {topic.name}",
        ignoring=(LookupError,),
    )


def _record_unread(asked: Mapping[str, Mapping[str, str]], journal: Journal, scope: str = "broker") -> None:
    for name, wanted in asked.items():
        rows: list[dict[str, object]] = [
            {"scope": scope, "name": name, "key": key, "asked": value} for key, value in wanted.items()
        ]
        journal.write_many("configs", rows)


def _write(
    journal: Journal, scope: str, name: str, effective: Mapping[str, str | None], asked: Mapping[str, str]
) -> None:
    rows: list[dict[str, object]] = [
        {"scope": scope, "name": name, "key": key, "value": value, "asked": asked.get(key)}
        for key, value in sorted(effective.items())
    ]
    journal.write_many("configs", rows)


def _compare(name: str, effective: Mapping[str, str | None], asked: Mapping[str, str]) -> None:
    for key, wanted in asked.items():
        if key in _NOT_COMPARED:
            continue
        if key not in effective:
            raise InvalidRunError(
                f"{name} was given {key}={wanted}, but this Kafka version has no such key; correct or remove "
                f"it, since an unknown key has no effect."
            )
        if effective[key] != wanted:
            raise InvalidRunError(
                f"{name} was given {key}={wanted}, but {key}={effective[key]} is in effect; the run would "
                f"test another configuration."
            )
