"""Raw and scripted producers in a real agent, against a broker that answers as the test requires."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fake_broker import NODE, Act, FakeBroker

from harness.errors import LabError
from harness.history.identity import decode
from harness.kafka.model import Endpoint
from run.producer import Producer
from workloads.client.client import Client
from workloads.protocol.results import SendResult
from workloads.protocol.spec import ProducerSpec

pytestmark = pytest.mark.usefixtures("no_process_left")

Rows = Callable[[str], list[dict[str, Any]]]


def raw(broker: FakeBroker, writer: int = 1, **settings: Any) -> ProducerSpec:
    """A raw producer with time-outs that no slow machine reaches."""
    patient = {"request_timeout_s": 60.0, "connect_timeout_s": 60.0, **settings}
    return ProducerSpec(writer=writer, name=f"raw{writer}", brokers=(broker.endpoint,), **patient)


def library(broker: FakeBroker, writer: int = 1, **settings: Any) -> ProducerSpec:
    """A librdkafka producer with time-outs that no slow machine reaches."""
    patient = {"via": "librdkafka", "request_timeout_s": 60.0, **settings}
    return ProducerSpec(writer=writer, name=f"lib{writer}", brokers=(broker.endpoint,), **patient)


def test_a_message_is_recorded_when_it_is_sent_and_when_it_has_an_outcome(
    client: Client, broker: FakeBroker, rows: Rows
) -> None:
    results = [Producer(client, raw(broker, acks=1)).send("t", label) for label in ["c", "d"]]
    assert [(r.outcome, r.offset, r.attempts, r.error) for r in results] == [("ok", 0, 1, 0), ("ok", 1, 1, 0)]
    assert [w["client"] for w in rows("writers")] == ["raw"]
    assert [(s["seq"], s["label"], s["topic"], s["partition"]) for s in rows("sent")] == [
        (0, "c", "t", 0),
        (1, "d", "t", 0),
    ]
    for sent, done, result in zip(rows("sent"), rows("done"), results, strict=True):
        assert sent["sent_ns"] == result.sent_ns < result.done_ns == done["done_ns"]
        assert (done["writer"], done["seq"], done["outcome"]) == (1, sent["seq"], "ok")


def test_messages_carry_their_identity(client: Client, broker: FakeBroker) -> None:
    Producer(client, raw(broker, 5)).send("t", "c")
    identity = decode(broker.values[0])
    assert identity is not None
    assert (identity.writer, identity.seq, identity.home, identity.label, identity.intact) == (
        5,
        0,
        "t/0",
        "c",
        True,
    )


@pytest.mark.parametrize(
    ("act", "acks", "outcome", "error", "offset"),
    [
        (Act(error=7), -1, "info", 7, 0),
        (Act(error=20), -1, "info", 20, 0),
        (Act(error=19, append=False), -1, "fail", 19, None),
        (Act(error=6, append=False), 1, "fail", 6, None),
        (Act(error=6), -1, "info", 6, 0),
        (Act(close=True), -1, "info", -195, None),
        (Act(reply=False), -1, "info", -185, None),
        (Act(), 0, "ok", 0, None),
    ],
)
def test_raw_outcomes(
    client: Client, broker: FakeBroker, act: Act, acks: int, outcome: str, error: int, offset: int | None
) -> None:
    broker.acts.append(act)
    patience = {} if act.reply else {"request_timeout_s": 0.2}
    result = Producer(client, raw(broker, acks=acks, **patience)).send("t", "c")
    assert (result.outcome, result.error, result.offset, result.attempts) == (outcome, error, offset, 1)


def test_a_raw_send_without_a_connection_definitely_failed(client: Client) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = ProducerSpec(writer=1, name="nobody", brokers=(Endpoint(*unused.getsockname()),))
        result = Producer(client, nobody).send("t", "c")
    assert (result.outcome, result.error, result.attempts) == ("fail", -187, 0)


def test_the_version_of_raw_requests_can_be_chosen(client: Client, broker: FakeBroker) -> None:
    Producer(client, raw(broker, produce_version=3)).send("t", "c")
    assert broker.produce_versions == [3]


def test_wait_writable_repeats_until_the_broker_knows_that_it_leads(
    client: Client, broker: FakeBroker, rows: Rows
) -> None:
    broker.acts.extend([Act(error=3, append=False), Act(error=6, append=False)])
    assert Producer(client, raw(broker, acks=1)).wait_writable("t").ok
    assert [done["error"] for done in rows("done")] == [3, 6, 0]
    assert {sent["label"] for sent in rows("sent")} == {"_"}


def test_wait_writable_repeats_until_the_broker_lets_it_connect(client: Client, broker: FakeBroker) -> None:
    """A message that never left says nothing of the broker."""
    accepted = Producer(client, raw(broker, acks=1)).send("t", "x")
    results = [replace(accepted, outcome="fail", error=-187, attempts=0), accepted]

    class Starting(Producer):
        def send(self, *_: object, **__: object) -> SendResult:
            return results.pop(0)

    assert Starting(client, raw(broker, acks=1)).wait_writable("t") == accepted
    assert results == []


def test_librdkafka_counts_attempts_and_names_the_broker(client: Client, broker: FakeBroker) -> None:
    producer = library(broker, retries=3)
    Producer(client, producer).prepare("t")
    broker.acts.extend([Act(error=7), Act(error=7)])
    result = Producer(client, producer).send("t", "c")
    assert (result.outcome, result.attempts, result.offset, result.broker) == ("ok", 3, 2, NODE)
    assert len(broker.values) == 3, "each attempt is a copy"


@pytest.mark.parametrize(
    ("acts", "acks", "outcome", "error", "attempts"),
    [
        ([Act(error=7)] * 2, -1, "info", 7, 2),
        ([Act(error=19, append=False)] * 2, -1, "fail", 19, 2),
        # The first attempt was appended although the last one was refused.
        ([Act(error=7), Act(error=19, append=False)], -1, "info", 19, 2),
        ([Act(close=True), Act(error=19, append=False)], 1, "info", 19, 2),
    ],
)
def test_librdkafka_outcomes(
    client: Client, broker: FakeBroker, acts: list[Act], acks: int, outcome: str, error: int, attempts: int
) -> None:
    producer = library(broker, retries=1, acks=acks)
    Producer(client, producer).prepare("t")
    broker.acts.extend(acts)
    result = Producer(client, producer).send("t", "c")
    assert (result.outcome, result.error, result.attempts) == (outcome, error, attempts)


def test_librdkafka_repeats_error_6_until_it_times_out(client: Client, broker: FakeBroker) -> None:
    # With acks=1 each of these answers is definite; with acks=all any of them may follow an append.
    for number, acks, outcome in ((1, 1, "fail"), (2, -1, "info")):
        producer = library(broker, number, acks=acks, delivery_timeout_s=1.5)
        Producer(client, producer).prepare("t")
        broker.acts.extend([Act(error=6, append=False)] * 50)
        result = Producer(client, producer).send("t", "c")
        broker.acts.clear()
        assert (result.outcome, result.error) == (outcome, -192)
        assert (result.attempts or 0) > 1


def test_librdkafka_that_never_connected_definitely_failed(client: Client) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        producer = ProducerSpec(
            writer=1,
            name="nobody",
            brokers=(Endpoint(*unused.getsockname()),),
            via="librdkafka",
            delivery_timeout_s=0.5,
        )
        result = Producer(client, producer).send("t", "c")
    assert (result.outcome, result.error, result.attempts) == ("fail", -192, 0)


def test_messages_in_flight_together_keep_their_order(client: Client, broker: FakeBroker, rows: Rows) -> None:
    producer = library(broker)
    Producer(client, producer).prepare("t")
    futures = [Producer(client, producer).send_later("t", label) for label in "cdefgh"]
    assert [future.result(60).label for future in futures] == list("cdefgh")
    labels = [identity.label for value in broker.values if (identity := decode(value))]
    assert labels == list("cdefgh")
    assert [sent["seq"] for sent in rows("sent")] == list(range(6))


def test_idempotent_producers_are_recorded_with_their_effective_settings(
    client: Client, broker: FakeBroker, rows: Rows
) -> None:
    producer = library(broker, idempotent=True, retries=3)
    Producer(client, producer).prepare("t")
    assert Producer(client, producer).send("t", "c").ok
    (row,) = rows("writers")
    assert (row["idempotent"], row["acks"], row["retries"]) == (True, -1, 3)


def test_attempts_of_idempotent_producers_are_counted(client: Client, broker: FakeBroker) -> None:
    producer = library(broker, idempotent=True, retries=3)
    Producer(client, producer).prepare("t")
    broker.acts.extend([Act(error=7), Act(error=46)])
    result = Producer(client, producer).send("t", "c")
    # The second attempt gets DUPLICATE_SEQUENCE_NUMBER: the first one was written.
    assert (result.outcome, result.attempts) == ("ok", 2)


def test_a_number_cannot_stand_for_two_producers(client: Client, broker: FakeBroker) -> None:
    Producer(client, raw(broker, 1)).send("t", "c")
    with pytest.raises(LabError, match="Writer 1 was used with other settings before"):
        Producer(client, raw(broker, 1, acks=1)).send("t", "d")
