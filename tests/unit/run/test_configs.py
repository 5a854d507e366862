"""A configuration override without effect is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import InvalidRunError
from harness.history.journal import Journal
from harness.kafka.model import Topic
from harness.kafka.wire.dialect import MODERN
from harness.lab.model import Host
from run.configs import (
    _compare,
    logged_broker_config,
    logged_topic_config,
    record_configs_of_others,
)


def test_a_misspelt_key_has_no_effect_and_is_named() -> None:
    """In another harness, the broker silently ignored a misspelt key."""
    with pytest.raises(InvalidRunError, match=r"unclean\.leader\.election\.enabled"):
        _compare(
            "broker1",
            {"unclean.leader.election.enable": "false"},
            {"unclean.leader.election.enabled": "true"},
        )


def test_another_value_in_effect_is_named() -> None:
    """Both values are shown."""
    with pytest.raises(InvalidRunError, match=r"=2, but .*=1 is in effect"):
        _compare("topic t", {"min.insync.replicas": "1"}, {"min.insync.replicas": "2"})


def test_what_took_passes() -> None:
    """Addresses and paths are recorded, but not compared."""
    _compare("broker1", {"request.timeout.ms": "3000"}, {"request.timeout.ms": "3000", "log.dirs": "/x"})


def test_the_same_value_written_another_way_passes() -> None:
    """Kafka states numbers, flags and lists in a form of its own."""
    effective: dict[str, str | None] = {"a": "0.5", "b": "true", "c": "compact,delete"}
    _compare("broker1", effective, {"a": ".50", "b": "TRUE", "c": "compact, delete"})
    with pytest.raises(InvalidRunError, match="c=delete,compact, but c=compact,delete is in effect"):
        _compare("broker1", effective, {"c": "delete,compact"})


def test_a_key_without_a_value_is_one_that_the_broker_does_not_know() -> None:
    with pytest.raises(InvalidRunError, match="given no.such.name=1, but this Kafka version has no such key"):
        _compare("broker1", {"no.such.name": None}, {"no.such.name": "1"})


def test_old_brokers_log_their_configuration() -> None:
    """Those before 0.11 do not answer DescribeConfigs."""
    log = (
        "2026-11-22 09:28:19,838 INFO KafkaConfig values: \n\tnum.io.threads = 4\n\tlog.dir = null\n"
        "\tcleanup.policy = [delete, compact]\n\tsuper.users = \n (kafka.server.KafkaConfig)\n\tother = 1\n"
        "2026 INFO Created log for partition [t,0] in /x with properties {min.insync.replicas -> 2, "
        "cleanup.policy -> [delete, compact], message.format.version -> 0.10.2-IV0}. (kafka.log.LogManager)\n"
    )
    assert logged_broker_config(log) == {
        "num.io.threads": "4",
        "log.dir": None,
        "cleanup.policy": "delete, compact",
        "super.users": "",
    }
    assert logged_topic_config(log, "t") == {
        "min.insync.replicas": "2",
        "cleanup.policy": "delete, compact",
        "message.format.version": "0.10.2-IV0",
    }
    assert logged_topic_config(log, "u") == {}


def test_brokers_that_tell_nothing_for_one_reason_are_named_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Six of them in one line; the topic's reason is another one."""

    def refuse(_target: object, scope: str, name: str, **_: object) -> dict[str, str | None]:
        raise LookupError(f"{scope} {name!r}: {'Denied.' if scope == 'broker' else 'Unknown.'}")

    monkeypatch.setattr("run.configs.describe_configs", refuse)
    hosts = [
        Host(name=f"broker{one}", role="broker", az="az1", address=f"198.18.0.{one}", node_id=one)
        for one in range(1, 7)
    ]
    with Journal(tmp_path / "journal.jsonl") as journal:
        told, untold = record_configs_of_others(hosts, [Topic("t", (1, 2))], {}, journal, MODERN)
    assert told == {}
    assert untold == [
        "the configuration of broker1, broker2, broker3, broker4 and 2 more: Denied.",
        "the configuration of the topic t: Unknown.",
    ]
