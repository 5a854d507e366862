"""Group members and transactions, against librdkafka's mock cluster of three brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer
from handles import transactions

from harness.errors import LabError
from harness.kafka.model import Endpoint, TopicPartition
from harness.waiting import wait_until
from run.producer import Producer as Handle
from workloads.client.client import Client
from workloads.protocol.results import TransactionEnd
from workloads.protocol.spec import ConsumerSpec, ProducerSpec

pytestmark = pytest.mark.usefixtures("no_process_left")

Rows = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[Endpoint]:
    """One broker; the cluster lives as long as the producer that made it."""
    owner = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 3, "log_level": 2})
    first = next(iter(owner.list_topics("t", timeout=10).brokers.values()))
    yield Endpoint(first.host, first.port)
    owner.purge()


def transactional(bootstrap: Endpoint, name: str) -> ProducerSpec:
    return ProducerSpec(
        writer=1,
        name=name,
        brokers=(bootstrap,),
        via="librdkafka",
        transactional_id=name,
        delivery_timeout_s=30.0,
    )


def test_transactions_are_recorded_with_their_messages(
    client: Client, bootstrap: Endpoint, rows: Rows
) -> None:
    producer = transactional(bootstrap, "first")
    Handle(client, producer).prepare("t", within_s=60)
    assert transactions(client, producer).begin() == 0
    assert Handle(client, producer).send("t", "c").ok
    assert transactions(client, producer).commit(60) == TransactionEnd("committed", 0)
    assert transactions(client, producer).begin() == 1
    assert Handle(client, producer).send("t", "d").ok
    assert transactions(client, producer).abort(60) == TransactionEnd("aborted", 0)
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
    (given,) = rows("producer_ids")
    assert (given["writer"], given["error"], given["producer_id"]) == (row["writer"], 0, None)
    assert given["asked_ns"] < given["ns"] < rows("transactions")[0]["ns"]


def test_a_transactional_producer_needs_an_open_transaction(client: Client, bootstrap: Endpoint) -> None:
    producer = transactional(bootstrap, "second")
    Handle(client, producer).prepare("t", within_s=60)
    with pytest.raises(LabError, match="no open transaction"):
        Handle(client, producer).send("t", "c")


def test_a_group_member_records_the_group_s_events(client: Client, bootstrap: Endpoint, rows: Rows) -> None:
    producer = ProducerSpec(writer=1, name="producer", brokers=(bootstrap,), via="librdkafka")
    sent = [Handle(client, producer).send("g", label) for label in "cde"]
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
    known = [row for row in rows("groups") if row["topic"] == "g"]
    assert all(
        row["asked_ns"] < row["ns"] and row["error"] == 0
        for row in known
        if row["event"] in ("assigned", "committed")
    )
    joined = [row for row in rows("groups") if row["event"] == "joined"]
    generations = [row["generation"] for row in joined]
    assert generations == sorted(set(generations)) and generations[0] >= 1, "each generation once"
    assert all(row["member_id"] and row["member"] == "member" for row in joined)
    assert joined[0]["ns"] <= min(row["ns"] for row in known if row["event"] == "assigned")
    events = [(row["event"], row["partition"], row["offset"]) for row in known]
    assert ("assigned", 0, None) in events
    assert ("committed", 0, 3) in events
    assert "revoked" in {event for event, _, _ in events}
    assert [(row["group"], row["seq"]) for row in rows("reads")] == [("group", 0), ("group", 1), ("group", 2)]


def consumer(bootstrap: Endpoint, reader: int, topic: str, *, commit: bool = True) -> ConsumerSpec:
    return ConsumerSpec(
        reader=reader,
        name=f"member-{reader}",
        brokers=(bootstrap,),
        partitions=(TopicPartition(topic, 0),),
        group=f"group-{topic}",
        commit=commit,
    )


def sends_of(client: Client, bootstrap: Endpoint, topic: str, writer: int) -> None:
    producer = ProducerSpec(writer=writer, name="feed", brokers=(bootstrap,), via="librdkafka")
    assert all(Handle(client, producer).send(topic, label).ok for label in "abc")


def test_a_transaction_commits_the_offsets_of_a_member(
    client: Client, bootstrap: Endpoint, rows: Rows
) -> None:
    sends_of(client, bootstrap, "offered", 11)
    member = client.start_consumer(consumer(bootstrap, 12, "offered", commit=False))
    wait_until(lambda: member.progress().count == 3, within_s=60, awaiting="three records")
    producer = replace(transactional(bootstrap, "offers"), writer=13)
    Handle(client, producer).prepare("offered", within_s=60)
    for commit in (False, True):
        transactions(client, producer).begin()
        sent = transactions(client, producer).send_offsets(member, "offered", 2 + commit, within_s=8)
        assert sent == 0
        transactions(client, producer).must_end(commit=commit, within_s=60)
    member.stop(within_s=60)
    told = [
        (row["event"], row["offset"], row["txn_writer"], row["txn"])
        for row in rows("groups")
        if row["topic"] == "offered" and row.get("txn") is not None
    ]
    assert told == [("sent", 2, 13, 0), ("sent", 3, 13, 1), ("committed", 3, 13, 1)]


@pytest.mark.parametrize("exactly", [True, pytest.param(False, marks=pytest.mark.long)])
def test_an_application_writes_a_message_for_each_that_it_reads(
    client: Client, bootstrap: Endpoint, rows: Rows, exactly: bool
) -> None:
    topic = f"in-{exactly}"
    base = 20 + 10 * exactly
    sends_of(client, bootstrap, topic, base)
    spec = transactional(bootstrap, f"app-{exactly}")
    if not exactly:
        spec = replace(spec, transactional_id="", idempotent=True)
    application = client.start_processor(
        consumer(bootstrap, base + 1, topic),
        replace(spec, writer=base + 2),
        output=f"out-{exactly}",
        every_s=0.2,
    )

    def committed() -> list[dict[str, Any]]:
        known = [row for row in rows("groups") if row["topic"] == topic]
        return [row for row in known if row["event"] == "committed" and row["offset"] == 3]

    wait_until(committed, within_s=60, awaiting="the commit of all three")
    assert application.progress().count == 3
    application.stop(within_s=60)
    written = [row for row in rows("sent") if row["topic"] == f"out-{exactly}"]
    assert [row["label"] for row in written] == [f"{base}/0", f"{base}/1", f"{base}/2"]
    (row,) = committed()
    assert row["asked_ns"] < row["ns"]
    read = [row for row in rows("reads") if row["topic"] == topic]
    if exactly:
        assert (row["txn_writer"], row["txn"]) == (base + 2, written[-1]["txn"])
        assert [(one["txn_writer"], one["txn"]) for one in read] == [
            (base + 2, one["txn"]) for one in written
        ]
    else:
        assert all(one["txn"] is None for one in (*written, *read))


@pytest.mark.long
def test_an_application_commits_nothing_whose_output_failed(
    client: Client, bootstrap: Endpoint, rows: Rows
) -> None:
    feed = ProducerSpec(writer=41, name="feed", brokers=(bootstrap,), via="librdkafka")
    assert all(Handle(client, feed).send("unwritten", str(seq)).ok for seq in range(150))
    application = client.start_processor(
        consumer(bootstrap, 42, "unwritten"),
        ProducerSpec(
            writer=43,
            name="app",
            brokers=(Endpoint("127.0.0.1", 1),),
            via="librdkafka",
            delivery_timeout_s=0.3,
        ),
        output="nowhere",
        every_s=0.0,
    )

    def sought() -> list[int]:
        return [row["ns"] for row in rows("groups") if row["reader"] == 42 and row["event"] == "sought"]

    # Before it goes back once more, it has read again what it went back to.
    wait_until(lambda: len(sought()) > 2, within_s=60, awaiting="it to go back three times")
    application.stop(within_s=60)
    assert not [row for row in rows("groups") if row["reader"] == 42 and row["event"] == "committed"]
    read = [(row["ns"], row["offset"]) for row in rows("reads") if row["reader"] == 42]
    for ns in sought()[:2]:
        later = [offset for at, offset in read if at > ns]
        assert later[:1] == [0], "it goes on behind what it has not written"
