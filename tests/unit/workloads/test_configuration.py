"""librdkafka's own statement of its configuration contains every property of the user."""

from __future__ import annotations

import pytest

from harness.cluster.client_settings import PRODUCER, check_client
from harness.cluster.settings import Setting
from harness.errors import InvalidRunError
from harness.kafka.model import Endpoint
from run.clients import choose
from run.settings import check_took_effect
from workloads.agent.producers.configuration import stated_configuration
from workloads.protocol.spec import ProducerSpec

VALUES = {
    "acks": "1",
    "batch.size": "32768",
    "buffer.memory": "33554432",
    "compression.type": "gzip",
    "connections.max.idle.ms": "540000",
    "delivery.timeout.ms": "110000",
    "enable.idempotence": "false",
    "linger.ms": "7",
    "max.in.flight.requests.per.connection": "4",
    "max.request.size": "1048576",
    "metadata.max.age.ms": "200000",
    "metadata.recovery.rebootstrap.trigger.ms": "250000",
    "metadata.recovery.strategy": "none",
    "receive.buffer.bytes": "32768",
    "reconnect.backoff.max.ms": "1001",
    "reconnect.backoff.ms": "51",
    "request.timeout.ms": "29000",
    "retries": "2147483647",
    "retry.backoff.max.ms": "1002",
    "retry.backoff.ms": "101",
    "send.buffer.bytes": "131072",
    "socket.connection.setup.timeout.ms": "10000",
}


def _spec(values: dict[str, str]) -> tuple[ProducerSpec, dict[str, Setting]]:
    given = {key: Setting(key=key, value=value, place="--set") for key, value in values.items()}
    choice = choose(check_client("producer", given), {})
    spec = ProducerSpec(
        writer=0,
        name="p",
        brokers=(Endpoint("127.0.0.1", 1),),
        via="librdkafka",
        config=choice.config,
        **choice.fields,
    )
    return spec, given


def test_every_property_is_stated() -> None:
    assert set(VALUES) == set(PRODUCER)
    spec, given = _spec(VALUES)
    check_took_effect(check_client("producer", given), stated_configuration(spec), spec.librdkafka_config())


def test_idempotence_is_stated() -> None:
    spec, given = _spec({"enable.idempotence": "true", "acks": "all", "retries": "5"})
    found = stated_configuration(spec)
    check_took_effect(check_client("producer", given), found, spec.librdkafka_config())
    with pytest.raises(InvalidRunError, match="given acks as acks=1, but in the library it is -1"):
        check_took_effect(check_client("producer", {"acks": given["acks"]}), found, {"acks": 1})


def test_what_the_library_refuses() -> None:
    spec, _ = _spec({"linger.ms": "7"})
    refused = stated_configuration(
        ProducerSpec(writer=0, name="p", brokers=spec.brokers, via="librdkafka", config={"linger.ms": -5})
    )
    assert "linger.ms" in refused.refused or "queue.buffering.max.ms" in refused.refused
