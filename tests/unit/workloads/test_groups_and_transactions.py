"""Group members and transactions, against librdkafka's mock cluster of three brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from harness.errors import LabError
from harness.kafka.model import TopicPartition
from harness.waiting import wait_until
from workloads.client.client import Client
from workloads.protocol.results import TransactionEnd
from workloads.protocol.spec import ConsumerSpec, ProducerSpec

pytestmark = pytest.mark.usefixtures("no_process_left")

Rows = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """One broker's address; the cluster lives as long as the producer that made it."""
    owner = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 3, "log_level": 2})
    first = next(iter(owner.list_topics("t", timeout=10).brokers.values()))
    yield f"{first.host}:{first.port}"
    owner.purge()


def transactional(bootstrap: str, name: str) -> ProducerSpec:
    return ProducerSpec(
        writer=1,
        name=name,
        brokers=(bootstrap,),
        via="librdkafka",
        transactional_id=name,
        delivery_timeout_s=30.0,
    )


def test_transactions_are_recorded_with_their_messages(client: Client, bootstrap: str, rows: Rows) -> None:
    producer = transactional(bootstrap, "first")
    client.prepare(producer, "t", within_s=60)
    assert client.begin_transaction(producer) == 0
    assert client.send("t", "c", producer).ok
    assert client.end_transaction(producer, within_s=60) == TransactionEnd("committed", 0)
    assert client.begin_transaction(producer) == 1
    assert client.send("t", "d", producer).ok
    assert client.end_transaction(producer, commit=False, within_s=60) == TransactionEnd("aborted", 0)
    assert [(row["txn"], row["event"]) for row in rows("transactions")] == [
        (0, "begin"),
        (0, "committing"),
        (0, "committed"),
        (1, "begin"),
        (1, "aborting"),
        (1, "aborted"),
    ]
    assert [(row["label"], row["txn"]) for row in rows("sent")] == [("c", 0), ("d", 1)]
    (row,) = rows("writers")
    assert row["transactional_id"] == "first"
    assert row["idempotent"] and row["acks"] == -1


def test_a_transactional_producer_needs_an_open_transaction(client: Client, bootstrap: str) -> None:
    producer = transactional(bootstrap, "second")
    client.prepare(producer, "t", within_s=60)
    with pytest.raises(LabError, match="no open transaction"):
        client.send("t", "c", producer)


def test_a_group_member_records_the_group_s_events(client: Client, bootstrap: str, rows: Rows) -> None:
    producer = ProducerSpec(writer=1, name="producer", brokers=(bootstrap,), via="librdkafka")
    sent = [client.send("g", label, producer) for label in "cde"]
    assert all(result.ok for result in sent)
    member = client.start_consumer(
        ConsumerSpec(
            reader=2,
            name="member",
            brokers=(bootstrap,),
            partitions=(TopicPartition("g", 0),),
            group="group",
        )
    )
    wait_until(lambda: member.progress().count == 3, within_s=60, awaiting="three records")
    wait_until(
        lambda: any(row["event"] == "committed" for row in rows("groups")), within_s=60, awaiting="a commit"
    )
    member.stop(within_s=60)
    events = [
        (row["event"], row["partition"], row["offset"]) for row in rows("groups") if row["topic"] == "g"
    ]
    assert ("assigned", 0, None) in events
    assert ("committed", 0, 3) in events
    assert "revoked" in {event for event, _, _ in events}
    assert [(row["group"], row["seq"]) for row in rows("reads")] == [("group", 0), ("group", 1), ("group", 2)]
