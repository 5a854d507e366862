"""Combinations of settings that can never succeed: each rule with a value that passes and one that fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.cluster.followed import DECIDERS
from harness.cluster.possible import (
    BOUNDS,
    EXCLUSIONS,
    Arrangement,
    consequences,
    problems,
)
from harness.cluster.settings import Setting
from harness.kafka.model import Topic

TABLES = ("broker", "producer", "consumer")
LONGEST = 300

CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "default-factor": (
        {"broker.default.replication.factor": "3"},
        {"broker.default.replication.factor": "4"},
    ),
    "min-insync-brokers": (
        {"broker.min.insync.replicas": "3", "broker.offsets.topic.replication.factor": "3"},
        {"broker.min.insync.replicas": "4"},
    ),
    "offsets-factor": (
        {"broker.offsets.topic.replication.factor": "3"},
        {"broker.offsets.topic.replication.factor": "4"},
    ),
    "offsets-min-insync": (
        {"broker.min.insync.replicas": "2", "broker.offsets.topic.replication.factor": "2"},
        {"broker.min.insync.replicas": "2", "broker.offsets.topic.replication.factor": "1"},
    ),
    "offsets-acks": (
        {"broker.offsets.commit.required.acks": "2", "broker.offsets.topic.replication.factor": "2"},
        {"broker.offsets.commit.required.acks": "3", "broker.offsets.topic.replication.factor": "2"},
    ),
    "transactions-factor": (
        {"broker.transaction.state.log.replication.factor": "3"},
        {"broker.transaction.state.log.replication.factor": "4"},
    ),
    "transactions-min-isr": (
        {
            "broker.transaction.state.log.min.isr": "1",
            "broker.transaction.state.log.replication.factor": "1",
        },
        {"broker.transaction.state.log.replication.factor": "1"},
    ),
    "group-sessions": (
        {"broker.group.min.session.timeout.ms": "6000", "broker.group.max.session.timeout.ms": "60000"},
        {"broker.group.min.session.timeout.ms": "6000", "broker.group.max.session.timeout.ms": "5000"},
    ),
    "session-least": (
        {"consumer.session.timeout.ms": "4000", "broker.group.min.session.timeout.ms": "1000"},
        {"consumer.session.timeout.ms": "5999"},
    ),
    "session-most": (
        {"consumer.session.timeout.ms": "60000", "broker.group.max.session.timeout.ms": "60000"},
        {"consumer.session.timeout.ms": "60001", "broker.group.max.session.timeout.ms": "60000"},
    ),
    "heartbeat": (
        {"consumer.session.timeout.ms": "6000", "consumer.heartbeat.interval.ms": "5999"},
        {"consumer.session.timeout.ms": "6000", "consumer.heartbeat.interval.ms": "6000"},
    ),
    "poll-interval": (
        {"consumer.session.timeout.ms": "6000", "consumer.max.poll.interval.ms": "6000"},
        {"consumer.session.timeout.ms": "6000", "consumer.max.poll.interval.ms": "5999"},
    ),
    "fetch-wait": (
        {"consumer.fetch.max.wait.ms": "4999"},
        {"consumer.fetch.max.wait.ms": "5000"},
    ),
    "replica-fetch-lag": (
        {"broker.replica.lag.time.max.ms": "500"},
        {"broker.replica.lag.time.max.ms": "499"},
    ),
    "replica-fetch-socket": (
        {"broker.replica.fetch.wait.max.ms": "3000", "broker.replica.socket.timeout.ms": "3000"},
        {"broker.replica.fetch.wait.max.ms": "3001", "broker.replica.socket.timeout.ms": "3000"},
    ),
    "delivery-timeout": (
        {"producer.delivery.timeout.ms": "3000", "producer.request.timeout.ms": "3000"},
        {
            "producer.delivery.timeout.ms": "3000",
            "producer.request.timeout.ms": "3000",
            "producer.linger.ms": "1",
        },
    ),
    "idempotence-acks": (
        {"producer.enable.idempotence": "true", "producer.acks": "all"},
        {"producer.enable.idempotence": "true", "producer.acks": "0"},
    ),
    "idempotence-retries": (
        {"producer.enable.idempotence": "true", "producer.retries": "1"},
        {"producer.enable.idempotence": "true", "producer.retries": "0"},
    ),
    "idempotence-in-flight": (
        {"producer.enable.idempotence": "true", "producer.max.in.flight.requests.per.connection": "5"},
        {"producer.enable.idempotence": "true", "producer.max.in.flight.requests.per.connection": "6"},
    ),
    "transactions-acks": (
        {"producer.transactional.id": "t", "producer.acks": "-1"},
        {"producer.transactional.id": "t", "producer.acks": "1"},
    ),
    "transactions-idempotence": (
        {"producer.transactional.id": "t"},
        {"producer.transactional.id": "t", "producer.enable.idempotence": "false"},
    ),
}
"""By rule: properties of a cluster of three brokers that pass, and some that fail."""


def arrangement(properties: dict[str, str], **others: Any) -> Arrangement:
    tables: dict[str, Any] = {table: {} for table in TABLES}
    for name, value in properties.items():
        table, _, key = name.partition(".")
        tables[table][key] = Setting(key=key, value=value, place="FILE:1")
    return Arrangement(**{"brokers": 3, **tables, **others})


def test_every_rule_has_a_case_and_a_source() -> None:
    rules = (*BOUNDS, *EXCLUSIONS)
    assert {rule.name for rule in rules} == set(CASES)
    assert len({rule.name for rule in rules}) == len(rules)
    assert all(rule.source for rule in rules)


def test_the_documentation_has_every_rule() -> None:
    text = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()
    for bound in BOUNDS:
        keys = " + ".join(f"`{name.partition('.')[2]}`" for name in bound.left)
        assert any(line.startswith(f"| {keys} |") and bound.because in line for line in text.splitlines())
    for exclusion in EXCLUSIONS:
        value = f"={exclusion.equal}" if exclusion.equal else ""
        assert f"| `{exclusion.given.partition('.')[2]}{value}` | {exclusion.needs} |" in text
    for key in (name for decider in DECIDERS for name in decider.keys):
        assert f"`{key}`" in text


@pytest.mark.parametrize("name", CASES)
def test_a_rule(name: str) -> None:
    passes, fails = CASES[name]
    assert list(problems(arrangement(passes))) == []
    (sentence, *_) = problems(arrangement(fails))
    assert sentence.startswith("FILE:1: ")
    assert sentence.endswith("change one of the two.")
    assert len(sentence) <= LONGEST


@pytest.mark.parametrize(
    ("config", "broker", "replicas", "refused"),
    [
        ({"min.insync.replicas": "2"}, {}, (1, 2), False),
        ({"min.insync.replicas": "2"}, {}, (1,), True),
        ({}, {"broker.min.insync.replicas": "2"}, (1,), True),
        ({"min.insync.replicas": "1"}, {"broker.min.insync.replicas": "2"}, (1,), False),
        ({}, {}, (1,), False),
    ],
)
def test_a_topic_that_nobody_could_write(
    config: dict[str, str], broker: dict[str, str], replicas: tuple[int, ...], refused: bool
) -> None:
    topic = Topic("orders", replicas, config=config)
    sentences = list(problems(arrangement(broker, topics=(topic,))))
    assert len(sentences) == refused
    for sentence in sentences:
        assert "topic 'orders': min.insync.replicas=2, but the replication factor is 1" in sentence


def test_values_that_are_no_numbers_are_left_to_the_brokers() -> None:
    for value in ("two", "x" * 999, "9" * 5000, "\u00b2", ""):
        odd = dict.fromkeys(("broker.min.insync.replicas", "broker.offsets.topic.replication.factor"), value)
        assert list(problems(arrangement(odd, topics=(Topic("t", (1,)),)))) == []
        retries = {"producer.enable.idempotence": "true", "producer.retries": value}
        assert list(problems(arrangement(retries))) == []


def test_defaults_alone_are_never_refused() -> None:
    """Kafka's default of three replicas for internal topics on one broker concerns only who uses them."""
    assert list(problems(arrangement({}, brokers=1))) == []


def test_what_is_possible_but_decides_is_said() -> None:
    given = {
        "broker.offsets.topic.replication.factor": "1",
        "broker.transaction.state.log.replication.factor": "3",
        "producer.max.request.size": "2000000",
    }
    first, second = consequences(arrangement(given))
    assert first.startswith("FILE:1: offsets.topic.replication.factor=1: consumer groups stop")
    assert "above message.max.bytes (1048588)" in second
    assert list(consequences(arrangement({"producer.max.request.size": "1000000"}))) == []
