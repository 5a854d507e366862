"""Settings that cannot be meant, and what crosses the agent's pipe."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.errors import UsageError
from workloads.protocol.spec import (
    Load,
    Reader,
    Writer,
    as_json,
    load_from_json,
    reader_from_json,
    writer_from_json,
)

SPECS: list[tuple[Any, Any]] = [
    (Writer(1, "w", ("broker1", "broker2"), via="librdkafka", config={"linger.ms": 5}), writer_from_json),
    (Load("t", (0, 1, 2), rate=1.5), load_from_json),
    (Reader(1, "r", ("broker1",), (("t", 0), ("u", 1)), group="g"), reader_from_json),
]


@pytest.mark.parametrize(("spec", "read"), SPECS)
def test_specs_survive_the_pipe(spec: Any, read: Any) -> None:
    assert read(json.loads(json.dumps(as_json(spec)))) == spec


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"brokers": ()}, r"Writer 1 \(w\) is given the brokers \[\]; name exactly one broker\."),
        ({"brokers": ("broker1", "broker2")}, "name exactly one broker"),
        ({"brokers": (), "via": "librdkafka"}, "name at least one broker"),
        ({"idempotent": True}, "never idempotent"),
        ({"via": "librdkafka", "idempotent": True, "acks": 1}, "idempotence needs acks=-1"),
    ],
)
def test_writers_that_cannot_be_meant(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Writer(**{"number": 1, "name": "w", "brokers": ("broker1",), **settings})


def test_a_writer_s_own_configuration_wins() -> None:
    settings = Writer(1, "w", ("b:1",), via="librdkafka", config={"message.timeout.ms": 5}).settings()
    assert settings["message.timeout.ms"] == 5
    assert settings["enable.idempotence"] is False


def test_time_for_all_retries() -> None:
    writer = Writer(1, "w", ("b:1",), via="librdkafka", retries=3, request_timeout_s=2.0)
    assert writer.limit_s == pytest.approx(11.8)
    assert writer.settings()["message.timeout.ms"] == 11800
    assert writer.settings()["socket.timeout.ms"] > writer.settings()["request.timeout.ms"]


@pytest.mark.parametrize("settings", [{"rate": 0.0}, {"partitions": ()}])
def test_streams_that_send_nothing(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="sends nothing"):
        Load(**{"topic": "t", **settings})
