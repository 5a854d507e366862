"""Connections that a scenario names: which requests of a raw producer share one, and what ends it."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from fake_broker import Act, FakeBroker
from handles import transactions

from harness.errors import InvalidRunError, LabError
from harness.kafka.model import Endpoint
from harness.waiting import wait_until
from run.group_offsets import GroupOffsets
from run.producer import Producer
from run.transactional import TransactionalProducer
from workloads.client.client import Client
from workloads.protocol.results import TransactionEnd
from workloads.protocol.spec import ProducerSpec

Rows = Callable[[str], list[dict[str, Any]]]
DELAY_S = 0.3


@pytest.fixture
def plain(client: Client, broker: FakeBroker) -> Producer:
    return Producer(
        client, ProducerSpec(writer=1, name="numbered", brokers=(broker.endpoint,), idempotent=True)
    )


@pytest.fixture
def orders(client: Client, broker: FakeBroker) -> TransactionalProducer:
    spec = ProducerSpec(writer=2, name="orders", brokers=(broker.endpoint,), transactional_id="orders")
    return transactions(client, spec, broker.address)


@pytest.fixture
def second() -> Iterator[FakeBroker]:
    with FakeBroker() as running:
        yield running


def ports(broker: FakeBroker) -> list[int]:
    return [port for port, _ in broker.arrived]


def test_all_requests_of_a_transaction_share_the_named_connection(
    client: Client, broker: FakeBroker, orders: TransactionalProducer
) -> None:
    named = orders.connection("a")
    assert (named.client, named.server) == ("client1", broker.address)
    orders.prepare(connection="a").begin()
    assert orders.add("t", connection="a") == 0
    assert orders.send("t", "one", connection="a").ok
    group = GroupOffsets(client=client, group="g", reader=3, check_alive=lambda: None)
    assert orders.send_offsets(group, "t", 5, connection="a") == 0
    assert orders.commit(connection="a") == TransactionEnd("committed", 0)
    assert broker.arrived == [
        (named.client_port, kind)
        for kind in (
            "InitProducerId", "AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"
        )
    ]  # fmt: skip
    assert orders.connection("a") == named, "it stays open"


def test_without_a_name_each_request_has_a_connection_of_its_own(
    broker: FakeBroker, orders: TransactionalProducer, plain: Producer
) -> None:
    orders.prepare().begin()
    assert orders.send("t", "one").ok and orders.commit().ok
    plain.prepare("t")
    assert plain.send("t", "first", sequence=0).ok and plain.send("t", "second", sequence=1).ok
    assert len(broker.arrived) == 7
    assert len(set(ports(broker))) == 7


def test_messages_with_one_name_arrive_in_order_and_one_at_a_time(
    broker: FakeBroker, plain: Producer, rows: Rows
) -> None:
    plain.prepare("t", connection="a")
    broker.acts.extend([Act(after_s=DELAY_S), Act(after_s=DELAY_S), Act()])
    futures = [plain.send_later("t", f"m{n}", sequence=n, connection="a") for n in range(3)]
    assert [future.result(10).outcome for future in futures] == ["ok"] * 3
    assert set(ports(broker)) == {plain.connection("a").client_port}
    assert [value.split()[4] for value in broker.values] == [b"m0", b"m1", b"m2"]
    done, sent = rows("done"), rows("sent")
    assert [row["label"] for row in sent] == ["m0", "m1", "m2"]
    for before, after in zip(done, sent[1:], strict=False):
        assert before["done_ns"] < after["sent_ns"], "it counts as sent when its turn comes"


def test_other_names_and_other_brokers_have_other_connections(
    broker: FakeBroker, second: FakeBroker, orders: TransactionalProducer
) -> None:
    orders.prepare(connection="a").begin()
    assert orders.send("t", "one", to=second.address, connection="a").ok
    assert orders.send("t", "two", to=second.address, connection="b").ok
    assert orders.send("t", "three", to=second.address, connection="a").ok
    one, two, three = ports(second)
    assert one == three != two
    assert one == orders.connection("a", to=second.address).client_port
    assert set(ports(broker)) == {orders.connection("a").client_port}


def test_a_slow_request_holds_up_its_own_name_only(broker: FakeBroker, plain: Producer) -> None:
    plain.prepare("t", connection="a")
    named = plain.connection("a")
    broker.acts.extend([Act(after_s=2.0), Act(), Act()])
    slow = plain.send_later("t", "slow", sequence=0, connection="a")
    wait_until(lambda: len(broker.arrived) == 2, within_s=5, awaiting="the slow message")
    assert plain.connection("a") == named, "the port is known while a request is under way"
    assert plain.send("t", "else", sequence=1).ok and plain.send("t", "b", sequence=2, connection="b").ok
    assert not slow.done()
    assert slow.result(10).ok


def test_a_connection_that_breaks_is_reported_and_not_replaced(
    broker: FakeBroker, plain: Producer, rows: Rows
) -> None:
    plain.prepare("t", connection="a")
    assert plain.send("t", "before", sequence=0, connection="a").ok
    broker.acts.append(Act(append=True, close=True))
    lost = plain.send("t", "lost", sequence=1, connection="a")
    assert (lost.outcome, lost.error, lost.attempts) == ("info", -195, 1), "it left, and may be written"
    assert len(broker.values) == 2, "sent once"
    for label in ("next", "after"):
        unsent = plain.send("t", label, sequence=2, connection="a")
        assert (unsent.outcome, unsent.error, unsent.attempts) == ("fail", -187, 0), "nothing left"
    assert len(broker.arrived) == 3
    with pytest.raises(InvalidRunError, match="'a' of numbered to .* has broken; close it first"):
        plain.connection("a")
    plain.close_connection("a")
    assert plain.send("t", "new", sequence=2, connection="a").ok
    first, *_, last = ports(broker)
    assert first != last
    assert [row["outcome"] for row in rows("done")] == ["ok", "info", "fail", "fail", "ok"]


@pytest.mark.parametrize("first", ["commit", "add"])
def test_a_connection_that_the_broker_closed_in_between_is_not_replaced(
    broker: FakeBroker, orders: TransactionalProducer, first: str
) -> None:
    """The first request after the close leaves all the same, so its bytes count as written."""
    orders.prepare(connection="a").begin()
    assert orders.send("t", "one", connection="a").ok
    broker.disconnect()
    arrived = len(broker.arrived)
    if first == "commit":
        assert orders.commit(within_s=1, connection="a") == TransactionEnd("unknown", -195)
    else:
        assert orders.add("other", connection="a") == -195
    assert orders.commit(within_s=1, connection="a") == TransactionEnd("unknown", -187)
    assert orders.add("other", connection="a") == -187
    begun = time.monotonic()
    assert orders.initialise(6, connection="a") == -187
    assert time.monotonic() - begun < 3, "it is not repeated either"
    refused = orders.send("t", "two", connection="a")
    assert (refused.outcome, refused.error, refused.attempts) == ("fail", -187, 0)
    assert len(broker.arrived) == arrived, "no other connection was opened"
    assert orders.commit(connection="b").ok


def test_a_request_without_an_answer_ends_the_connection(broker: FakeBroker, plain: Producer) -> None:
    plain = Producer(plain.client, replace(plain.spec, request_timeout_s=0.2))
    plain.prepare("t", connection="a")
    broker.acts.append(Act(reply=False))
    silent = plain.send_later("t", "silent", sequence=0, connection="a")
    queued = plain.send_later("t", "queued", sequence=1, connection="a")
    assert (silent.result(10).outcome, silent.result(10).error) == ("info", -185)
    assert (queued.result(10).outcome, queued.result(10).error) == ("fail", -187)


def test_a_connection_that_cannot_be_opened_is_reported(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = Endpoint(*server.getsockname())
    producer = Producer(client, ProducerSpec(writer=1, name="alone", brokers=(nobody,)))
    with pytest.raises(InvalidRunError, match="'a' of alone to .* could not be opened"):
        producer.connection("a")
    unsent = producer.send("t", "unsent", connection="a")
    assert (unsent.outcome, unsent.error) == ("fail", -187)
    with pytest.raises(LabError, match="needs a name"):
        producer.connection("")


@pytest.mark.parametrize("via", ["librdkafka", "java", "program"])
def test_only_raw_producers_take_names(client: Client, broker: FakeBroker, via: Any) -> None:
    spec = ProducerSpec(writer=1, name="whole", brokers=(broker.endpoint,), via=via)
    producer, orders = Producer(client, spec), transactions(client, spec)
    for use in (
        lambda: producer.send("t", "x", connection="a"),
        lambda: producer.prepare("t", connection="a"),
        lambda: producer.connection("a"),
        lambda: orders.commit(connection="a"),
        lambda: orders.initialise(1, connection="a"),
    ):
        with pytest.raises(InvalidRunError, match=f"whole uses {via}, which opens and chooses"):
            use()
    assert broker.arrived == []
