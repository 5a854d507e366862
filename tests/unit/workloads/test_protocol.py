"""Specifications that make no sense, and what crosses the agent's pipe."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest

from harness.errors import UsageError
from harness.kafka.model import Endpoint, TopicPartition
from harness.kafka.security import HANDSHAKE_S, PLAINTEXT, ClientSecurity
from harness.secrets import Secret
from workloads.protocol.codec import from_json, to_json
from workloads.protocol.commands import (
    COMMANDS,
    AgentAnswer,
    Command,
    OpenConnection,
    Read,
    Request,
    Send,
    StartPinnedWrites,
    StartStream,
)
from workloads.protocol.java_names import consumer_properties, producer_properties
from workloads.protocol.results import PartitionRead, ReadResult, SendResult
from workloads.protocol.spec import DEFAULT_RETRIES, ConsumerSpec, ProducerSpec, StreamLoad, Via

SECURED = ClientSecurity(
    protocol="SASL_SSL", mechanism="PLAIN", username="u", password=Secret("p"), ca="ca", verifies_names=False
)
PRODUCER = ProducerSpec(
    writer=1,
    name="p",
    brokers=(Endpoint("broker1", 9092), Endpoint("broker2", 9092)),
    via="librdkafka",
    config={"linger.ms": 5, "a": True},
)
RAW = ProducerSpec(writer=2, name="raw", brokers=(Endpoint("b", 1),), delivery_timeout_s=120)
CONSUMER = ConsumerSpec(
    reader=1,
    name="c",
    brokers=(Endpoint("broker1", 9092),),
    partitions=(TopicPartition("t", 0), TopicPartition("u", 1)),
    group="g",
)
SENT = [
    Send(producer=PRODUCER, topic="t", partition=0, label="c"),
    StartStream(producer=PRODUCER, load=StreamLoad(topic="t", partitions=(0, 1, 2), rate=1.5)),
    StartPinnedWrites(producer=RAW, topic="t", partition=0, every_s=1, max_count=3, stop_on=None),
    StartPinnedWrites(producer=RAW, topic="t", partition=0, every_s=1, max_count=3, stop_on=(6, 7)),
    Read(CONSUMER, 5.0),
    OpenConnection(producer=RAW, connection="a", broker=Endpoint("b", 1, security=SECURED, node_id=70)),
]


@pytest.mark.parametrize("command", SENT, ids=lambda command: type(command).__name__)
def test_commands_survive_the_pipe(command: Command[object]) -> None:
    assert Request.parse(Request.of(1, command).line()).command() == command


def test_results_survive_the_pipe() -> None:
    part = PartitionRead(
        partition=TopicPartition("t", 0), start=0, end=None, position=3, count=3, complete=False
    )
    result = ReadResult(partitions=(part,), count=3, errors=((-1, "broken"),))
    answer = AgentAnswer.parse(AgentAnswer(1, to_json(result)).line())
    assert Read.result_from_json(answer.result) == result
    assert isinstance(Read.result_from_json(answer.result).partitions[0].partition, TopicPartition)


def test_every_command_has_a_result_type() -> None:
    assert {"Ping", "Quit", "Send", "Read"} <= COMMANDS.keys()
    sent = {"writer": 1, "seq": 0, "topic": "t", "partition": 0, "label": "", "outcome": "ok", "error": 0}
    unknown = {"offset": None, "attempts": None, "broker": None, "sent_ns": 1, "done_ns": 2}
    assert isinstance(Send.result_from_json({**sent, **unknown}), SendResult)
    assert COMMANDS["Ping"].result_from_json(None) is None
    assert COMMANDS["BeginTransaction"].result_from_json(4) == 4


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"topic": "t", "rate": "fast"}, r"StreamLoad: Expected `float`, got `str` - at `\$.rate`"),
        ({"topic": "t", "max_count": True}, r"StreamLoad: Expected `int`, got `bool` - at `\$.max_count`"),
        ({"topic": "t", "partitions": [0, "1"]}, r"Expected `int`, got `str` - at `\$.partitions\[1\]`"),
        ({}, r"StreamLoad: Object missing required field `topic`"),
        ([], r"StreamLoad: Expected `object`, got `array`"),
    ],
)
def test_malformed_data_is_named(data: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        from_json(StreamLoad, data)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"acks": None}, r"ProducerSpec: Expected `int`, got `null` - at `\$.acks`"),
        ({"via": "kcat"}, r"Invalid enum value 'kcat' - at `\$.via`"),
        ({"delivery_timeout_s": "1"}, r"Expected `float \| null`, got `str` - at `\$.delivery_timeout_s`"),
        ({"config": {"a": None}}, r"Expected `bool \| int \| float \| str`, got `null` - at `\$.config"),
    ],
)
def test_a_malformed_field_is_named(data: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        from_json(ProducerSpec, {"writer": 1, "name": "p", "brokers": [{"host": "b", "port": 1}], **data})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"brokers": ()}, r"Producer 1 \(p\) has the brokers \[\]; name exactly one broker\."),
        ({"brokers": (Endpoint("broker1", 9092), Endpoint("broker2", 9092))}, "name exactly one broker"),
        ({"brokers": (), "via": "librdkafka"}, "name at least one broker"),
        ({"idempotent": True, "acks": 1}, "idempotence needs acks=-1"),
        ({"via": "librdkafka", "idempotent": True, "acks": 1}, "idempotence needs acks=-1"),
    ],
)
def test_producers_that_cannot_work(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        ProducerSpec(**{"writer": 1, "name": "p", "brokers": (Endpoint("broker1", 9092),), **settings})


def test_a_producer_s_own_configuration_overrides_the_rest() -> None:
    producer = ProducerSpec(
        writer=1, name="p", brokers=(Endpoint("b", 1),), via="librdkafka", config={"message.timeout.ms": 5}
    )
    assert producer.librdkafka_config()["message.timeout.ms"] == 5
    assert producer.librdkafka_config()["enable.idempotence"] is False


def test_the_delivery_timeout_leaves_time_for_all_retries() -> None:
    producer = ProducerSpec(
        writer=1, name="p", brokers=(Endpoint("b", 1),), via="librdkafka", retries=3, request_timeout_s=2.0
    )
    assert producer.effective_delivery_timeout_s == pytest.approx(11.8)
    config = producer.librdkafka_config()
    assert config["message.timeout.ms"] == 11800
    assert (config["request.timeout.ms"], config["socket.timeout.ms"]) == (2000, 7000)


@pytest.mark.parametrize("via", ["librdkafka", "java"])
@pytest.mark.parametrize(
    ("settings", "retries"),
    [
        ({"idempotent": True}, 1),
        ({"transactional_id": "x"}, DEFAULT_RETRIES),
        ({"transactional_id": "x", "config": {"retries": 3}}, 3),
    ],
)
def test_a_transactional_producer_repeats_messages_until_its_delivery_timeout(
    via: Via, settings: dict[str, Any], retries: int
) -> None:
    """One repetition is too few while the markers of the transaction before are written (KIP-890)."""
    spec = ProducerSpec(
        writer=1, name="p", brokers=(Endpoint("b", 1),), via=via, delivery_timeout_s=30.0, **settings
    )
    assert int(producer_properties(spec)["retries"]) == retries
    assert int(spec.librdkafka_config()["retries"]) == retries


@pytest.mark.parametrize("settings", [{"rate": 0.0}, {"partitions": ()}])
def test_streams_that_send_nothing(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="sends nothing"):
        StreamLoad(**{"topic": "t", **settings})


@pytest.mark.parametrize("timeout_s", [1.0, 5.0, 60.0])
def test_librdkafka_accepts_a_short_transaction(timeout_s: float) -> None:
    """It refuses a producer whose messages or requests may outlast transaction.timeout.ms."""
    spec = ProducerSpec(
        writer=1,
        name="p",
        brokers=(Endpoint("127.0.0.1", 1),),
        via="librdkafka",
        transactional_id="t",
        transaction_timeout_s=timeout_s,
    )
    config = spec.librdkafka_config()
    confluent_kafka.Producer(config)
    assert config["transaction.timeout.ms"] == int(timeout_s * 1000)
    assert spec.effective_delivery_timeout_s <= timeout_s


@pytest.mark.parametrize(("security", "stated"), [(PLAINTEXT, None), (SECURED, "SASL_SSL")])
def test_clients_speak_what_their_brokers_listeners_speak(
    security: ClientSecurity, stated: str | None
) -> None:
    brokers = (Endpoint("b", 9094, security=security),)
    producer = ProducerSpec(writer=1, name="p", brokers=brokers, via="librdkafka")
    consumer = ConsumerSpec(reader=1, name="c", brokers=brokers, partitions=(TopicPartition("t", 0),))
    assert producer.librdkafka_config().get("security.protocol") == stated
    assert consumer.librdkafka_config().get("security.protocol") == stated
    assert producer_properties(producer).get("security.protocol") == stated
    assert consumer_properties(consumer).get("security.protocol") == stated


def test_a_program_gets_the_security_of_java_alone() -> None:
    """librdkafka's names for it stay out: a Java client would warn of them, with their values."""
    producer = ProducerSpec(writer=1, name="p", brokers=(Endpoint("b", 1, security=SECURED),), via="java")
    own = {key for key in producer_properties(producer) if key.startswith(("ssl.", "sasl.", "enable.ssl"))}
    assert own == {key for key in SECURED.java() if key != "security.protocol"}


def test_the_time_for_a_connection_includes_the_handshake() -> None:
    def spec(security: ClientSecurity, via: Any) -> ProducerSpec:
        return ProducerSpec(writer=1, name="p", brokers=(Endpoint("b", 1, security=security),), via=via)

    setup = "socket.connection.setup.timeout.ms"
    assert spec(PLAINTEXT, "raw").librdkafka_config()[setup] == 1000
    assert spec(SECURED, "raw").librdkafka_config()[setup] == 1000 + 1000 * HANDSHAKE_S
    assert producer_properties(spec(SECURED, "java"))[setup] == "1000", "Java's ends with TCP"
    longer = spec(SECURED, "raw").effective_delivery_timeout_s
    assert longer == spec(PLAINTEXT, "raw").effective_delivery_timeout_s + HANDSHAKE_S
