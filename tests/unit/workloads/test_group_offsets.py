"""Commits and fetches of offsets: what is sent to the named broker, and what is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from fake_broker import FakeBroker

from run.group_offsets import GroupOffsets
from workloads.agent.producers.outcomes import NOT_CONNECTED
from workloads.client.client import Client
from workloads.protocol.results import OffsetAnswer

Rows = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """The only broker of librdkafka's mock cluster, which lives as long as the producer that made it."""
    owner = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 2})
    (broker,) = owner.list_topics("t", timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    owner.purge()


def events(rows: Rows) -> list[tuple[Any, ...]]:
    return [(row["event"], row["offset"], row["error"]) for row in rows("groups")]


def offsets(client: Client) -> GroupOffsets:
    return GroupOffsets(client=client, group="g", reader=3, check_alive=lambda: None)


def commit(client: Client, at: str, offset: int) -> OffsetAnswer:
    return offsets(client).commit("t", offset, at=at)


def fetch(client: Client, at: str) -> OffsetAnswer:
    return offsets(client).fetch("t", at=at)


def test_commits_and_fetches_are_recorded(client: Client, broker: FakeBroker, rows: Rows) -> None:
    assert fetch(client, broker.address) == OffsetAnswer(0, None)
    assert commit(client, broker.address, 10).ok
    assert fetch(client, broker.address) == OffsetAnswer(0, 10)
    assert events(rows) == [("fetched", None, 0), ("committed", 10, 0), ("fetched", 10, 0)]
    (request,) = [request for what, request in broker.asked if what == "commit"]
    assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
    row = rows("groups")[1]
    assert (row["group"], row["reader"], row["topic"], row["partition"]) == ("g", 3, "t", 0)


def test_what_is_not_acknowledged_is_no_commit(client: Client, broker: FakeBroker, rows: Rows) -> None:
    broker.coordinates.extend((7, 16))
    assert commit(client, broker.address, 20) == OffsetAnswer(7, 20)
    assert fetch(client, broker.address) == OffsetAnswer(16, None)
    assert events(rows) == [("commit_failed", 20, 7), ("fetched", None, 16)]
    assert len(broker.asked) == 2, "nothing is repeated"


def test_a_broker_that_cannot_be_reached_is_recorded(client: Client, rows: Rows) -> None:
    nobody = "127.0.0.1:1"
    assert commit(client, nobody, 20).error == NOT_CONNECTED
    assert fetch(client, nobody).error == NOT_CONNECTED
    assert events(rows) == [("commit_failed", 20, NOT_CONNECTED), ("fetched", None, NOT_CONNECTED)]


def test_another_client_finds_what_was_committed(client: Client, bootstrap: str) -> None:
    place = TopicPartition("t", 0)
    assert commit(client, bootstrap, 41).ok
    assert fetch(client, bootstrap) == OffsetAnswer(0, 41)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    try:
        assert [part.offset for part in consumer.committed([place], timeout=30)] == [41]
        consumer.commit(offsets=[TopicPartition("t", 0, 43)], asynchronous=False)
        assert fetch(client, bootstrap) == OffsetAnswer(0, 43)
    finally:
        consumer.close()
