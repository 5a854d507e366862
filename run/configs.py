"""Reads the effective configuration back from the brokers: an override without effect ends the run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from harness.errors import InvalidRunError, UnfitError, WaitTimeoutError, some
from harness.history.journal import Journal
from harness.host_files import FilesOf, text_of_file
from harness.kafka.model import Endpoint, Topic, broker_name
from harness.kafka.wire.admin import describe_configs
from harness.kafka.wire.dialect import Dialect
from harness.kafka.wire.metadata import finalized_features
from harness.lab.model import SERVER_LOG, Host, Topology
from harness.secrets import holds_secret, shown, shown_properties
from harness.waiting import wait_until

ANSWER_WITHIN_S = 15.0
"""A broker that has just started takes long to answer its first request."""

_Scope = Literal["broker", "topic"]
_NOT_COMPARED = frozenset(
    {"listeners", "advertised.listeners", "log.dirs", "zookeeper.connect", "broker.rack"}
)
"""Keys that hold addresses and paths: recorded but not compared, because Kafka may rewrite them."""


def record_broker_configs(
    topology: Topology,
    asked: Mapping[str, Mapping[str, str]],
    journal: Journal,
    dialect: Dialect,
    files: FilesOf,
) -> None:
    """Record each broker's effective configuration and compare it with what was asked for.

    Versions without DescribeConfigs log it when they start; ``files`` are those of the hosts. Raises
    InvalidRunError naming the first key that had no effect.
    """
    if dialect.describe_configs is None:
        for host, requested in asked.items():
            logged = logged_broker_config(text_of_file(files(host), SERVER_LOG))
            _write(journal, "broker", host, {key: logged.get(key) for key in requested}, requested)
            _compare(host, logged, requested)
        return
    for host, requested in asked.items():
        node = topology.host(host)
        effective = describe_configs(
            node.broker_endpoint, "broker", str(node.node_id), dialect=dialect, timeout_s=ANSWER_WITHIN_S
        )
        _write(journal, "broker", host, effective, requested)
        _compare(host, effective, requested)


def record_topic_configs(
    topology: Topology,
    topics: tuple[Topic, ...],
    journal: Journal,
    dialect: Dialect,
    files: FilesOf,
) -> None:
    """Record each topic's effective configuration and compare it with what was asked for."""
    if dialect.describe_configs is None:
        for topic in topics:
            log = text_of_file(files(broker_name(topic.replicas[0])), SERVER_LOG)
            logged = logged_topic_config(log, topic.name)
            from_log = {key: logged.get(key) for key in topic.config}
            _write(journal, "topic", topic.name, from_log, topic.config)
            _compare(f"topic {topic.name}", logged, topic.config)
        return
    for topic in topics:
        leader = topology.host(broker_name(topic.replicas[0]))
        effective = _when_known(leader.broker_endpoint, topic, dialect)
        _write(journal, "topic", topic.name, effective, topic.config)
        _compare(f"topic {topic.name}", effective, topic.config)


def record_features(topology: Topology, asked: Mapping[str, str], journal: Journal, dialect: Dialect) -> None:
    """Record the cluster's finalized features and compare them with the levels that were asked for."""
    if dialect.describe_quorum is None:
        return
    levels = finalized_features(topology.role("broker")[0].broker_endpoint, timeout_s=ANSWER_WITHIN_S)
    effective: dict[str, str | None] = {name: str(level) for name, level in levels.items()}
    # A feature at level 0 is not finalized, so the broker leaves it out.
    effective |= {name: "0" for name, level in asked.items() if level == "0" and name not in effective}
    _write(journal, "cluster", "features", effective, asked)
    _compare("the cluster", effective, asked)


def record_configs_of_others(
    brokers: Iterable[Host],
    topics: Iterable[Topic],
    levels: Mapping[str, int],
    journal: Journal,
    dialect: Dialect,
) -> tuple[dict[str, Mapping[str, str | None]], list[str]]:
    """Record what somebody else's cluster tells of its configuration.

    Returns the configuration of each topic that is told, and a clause for each that is not.
    """
    told: dict[str, Mapping[str, str | None]] = {}
    untold: dict[str, list[str]] = {}
    hosts = list(brokers)
    asked: list[tuple[str, _Scope, str, Iterable[Host]]] = [
        (host.name, "broker", str(host.node_id), [host]) for host in hosts
    ]
    for topic in topics:
        leader, name = topic.replicas[0], f"the topic {topic.name}"
        leader_first = [one for leads in (True, False) for one in hosts if (one.node_id == leader) is leads]
        asked.append((name, "topic", topic.name, leader_first))
    for what, scope, resource, answering in asked:
        try:
            effective = _told(scope, resource, answering, dialect)
        except UnfitError as error:
            untold.setdefault(error.message, []).append(what)
            continue
        _write(journal, scope, what if scope == "broker" else resource, effective, {})
        if scope == "topic":
            told[resource] = effective
    if levels:
        _write(journal, "cluster", "features", {name: str(level) for name, level in levels.items()}, {})
    return told, [f"the configuration of {some(names)}: {why}" for why, names in untold.items()]


def write_topic_config(journal: Journal, topic: str, effective: Mapping[str, str | None]) -> None:
    """Record values of a topic that have changed. The former ones stay, so that neither counts as known."""
    _write(journal, "topic", topic, effective, {})


def _told(scope: _Scope, resource: str, hosts: Iterable[Host], dialect: Dialect) -> dict[str, str | None]:
    """A configuration, from the first broker that tells it. Raises UnfitError if none does."""
    why = "no broker could be asked"
    for host in hosts:
        try:
            return describe_configs(
                host.broker_endpoint, scope, resource, dialect=dialect, timeout_s=ANSWER_WITHIN_S
            )
        except (LookupError, OSError, UnfitError) as error:
            why = str(error).removeprefix(f"{scope} {resource!r}: ")
    raise UnfitError(why)


def _when_known(leader: Endpoint, topic: Topic, dialect: Dialect) -> dict[str, str | None]:
    """Wait until the leader of a new topic knows it, a moment later than the metadata store.

    The leader never shows a topic if its znode has values that the leader cannot read.
    """
    try:
        return wait_until(
            lambda: describe_configs(leader, "topic", topic.name, dialect=dialect),
            within_s=15,
            awaiting=f"{leader.label} to know topic {topic.name}",
            ignoring=(LookupError,),
        )
    except WaitTimeoutError as error:
        if not topic.config:
            raise
        given = ", ".join(f"{key}={shown(key, value)}" for key, value in topic.config.items())
        raise InvalidRunError(
            f"topic {topic.name} was given {given}, and its leader cannot read that; correct the values."
        ) from error


def logged_broker_config(log: str) -> dict[str, str | None]:
    """The values that a broker logs when it starts (`KafkaConfig values:`)."""
    lines = iter(log.splitlines())
    config: dict[str, str | None] = {}
    for line in lines:
        if "KafkaConfig values:" in line:
            config = dict(_logged(lines))
    return config


def _logged(lines: Iterator[str]) -> Iterator[tuple[str, str | None]]:
    for line in lines:
        key, equals, value = line.strip().partition(" =")
        if not equals or not line.startswith("\t"):
            return
        yield key, None if value.strip() == "null" else value.strip().strip("[]")


def logged_topic_config(log: str, topic: str) -> dict[str, str | None]:
    """The values that a broker logs when it creates a partition's log."""
    line = re.search(rf"Created log for partition \[{re.escape(topic)},\d+\].* properties {{(.*)}}", log)
    if line is None:
        return {}
    pairs = (entry.split(" -> ", 1) for entry in re.split(r", (?=[a-z.]+ -> )", line[1]))
    return {key: value.strip("[]") for key, value in pairs}


def _write(
    journal: Journal, scope: str, name: str, effective: Mapping[str, str | None], asked: Mapping[str, str]
) -> None:
    values, asked = shown_properties(effective), shown_properties(asked)
    rows: list[dict[str, object]] = [
        {"scope": scope, "name": name, "key": key, "value": value, "asked": asked.get(key)}
        for key, value in sorted(values.items())
    ]
    journal.write_many("configs", rows)


def same_value(asked: str, effective: str) -> bool:
    """Whether two texts are the same value of a property: Kafka may write numbers and lists differently."""
    try:
        return float(asked) == float(effective)
    except ValueError:
        one, other = ([item.strip() for item in text.split(",")] for text in (asked, effective))
        return one == other or {asked.lower(), effective.lower()} in ({"true"}, {"false"})


def _compare(name: str, effective: Mapping[str, str | None], asked: Mapping[str, str]) -> None:
    for key, requested in asked.items():
        if key in _NOT_COMPARED or holds_secret(key, requested):  # brokers do not tell the value of a secret
            continue
        # Brokers list properties that they do not know as well, without their values.
        if effective.get(key) is None:
            raise InvalidRunError(
                f"{name} was given {key}={requested}, but this Kafka version has no such key; correct or "
                f"remove it, since an unknown key has no effect."
            )
        if not same_value(requested, effective[key] or ""):
            raise InvalidRunError(
                f"{name} was given {key}={requested}, but {key}={effective[key]} is in effect; the run would "
                f"test another configuration."
            )
