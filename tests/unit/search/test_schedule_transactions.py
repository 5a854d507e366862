"""A transactional producer of a schedule: what it asks for, what it counts, and who succeeds it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import LabError
from harness.kafka.model import TopicPartition
from harness.waiting import wait_until
from studies.search import transactions
from studies.search.transactions import TransactionLoad
from workloads.protocol.results import SendResult, TransactionEnd

PARTITIONS = (TopicPartition("t1-3", 0), TopicPartition("t1-3", 1), TopicPartition("t2-3", 0))


class Broker:
    """Answers every producer; ``said`` has what was asked for, after the name of who asked."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.ends: Callable[[int], str] = lambda number: ""
        self.results: Callable[[int], str] = lambda number: "ok"
        self.refused = 0
        self.enough = threading.Event()
        self.ended = 0
        self.limit = 4

    def transactional(self, az: str, transactional_id: str, *, name: str, **more: Any) -> Any:
        self.ids = transactional_id
        self.config = more["config"]
        return Producer(self, name)


class Producer:
    def __init__(self, broker: Broker, name: str) -> None:
        self.broker, self.name = broker, name

    def initialise(self, within_s: float) -> int:
        if self.broker.refused:
            self.broker.refused -= 1
            return 51
        self.broker.said.append(f"{self.name} init")
        return 0

    def begin(self) -> int:
        if self.broker.ended >= self.broker.limit:
            self.broker.enough.set()
            raise LabError("the agent has ended")
        return 0

    def send_later(self, topic: str, label: str, *, partition: int) -> Future[SendResult]:
        outcome: Any = self.broker.results(self.broker.ended)
        future: Future[SendResult] = Future()
        self.broker.said.append(f"{self.name} {topic}/{partition}")
        if not outcome:
            return future
        future.set_result(
            SendResult(
                writer=1,
                seq=0,
                topic=topic,
                partition=partition,
                label=label,
                outcome=outcome,
                error=0,
                offset=0,
                attempts=1,
                broker=1,
                sent_ns=0,
                done_ns=0,
            )
        )
        return future

    def commit(self, within_s: float) -> TransactionEnd:
        return self.end("committed")

    def abort(self, within_s: float) -> TransactionEnd:
        return self.end("aborted")

    def end(self, usual: Any) -> TransactionEnd:
        number, self.broker.ended = self.broker.ended, self.broker.ended + 1
        outcome: Any = self.broker.ends(number) or usual
        self.broker.said.append(f"{self.name} {usual}")
        return TransactionEnd(outcome, 0)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    for name in ("_SPREAD_S", "_READY_S", "_PAUSE_S"):
        monkeypatch.setattr(transactions, name, 0.001)
    yield Broker()


def worked(broker: Broker, library: str = "librdkafka") -> TransactionLoad:
    stage: Any = SimpleNamespace(library=library, transactional=broker.transactional)
    load = TransactionLoad(stage, "az1", "producer-2", PARTITIONS, 5)
    wait_until(broker.enough.is_set, within_s=20.0, awaiting="the transactions to end", poll_s=0.005)
    load.stop(5.0)
    return load


def ends(broker: Broker) -> list[str]:
    return [line for line in broker.said if line.endswith("ed")]


def test_transactions_are_committed_and_aborted_in_turn(broker: Broker) -> None:
    counts = worked(broker).counts()
    turns = ["producer-2-1 committed", "producer-2-1 aborted"]
    assert ends(broker) == turns * 2
    assert broker.said[1:4] == [f"producer-2-1 {key}" for key in PARTITIONS]
    assert (counts.sent, counts.ok, counts.fail, counts.info) == (12, 12, 0, 0)
    assert broker.ids == "t1-3-producer-2"
    assert broker.config["socket.timeout.ms"] == 2000


def test_a_transaction_without_an_answer_is_left_to_a_successor(broker: Broker) -> None:
    broker.ends = lambda number: "unknown" if number == 1 else ""
    broker.refused = 2
    counts = worked(broker).counts()
    assert ends(broker) == [
        "producer-2-1 committed",
        "producer-2-1 aborted",
        "producer-2-2 committed",
        "producer-2-2 aborted",
    ]
    assert broker.said.index("producer-2-2 init") > broker.said.index("producer-2-1 aborted")
    assert (counts.ok, counts.info) == (9, 3)


def test_what_was_not_acknowledged_is_not_committed(broker: Broker) -> None:
    broker.results = lambda number: "fail" if number == 0 else "ok"
    counts = worked(broker).counts()
    assert ends(broker)[:2] == ["producer-2-1 aborted", "producer-2-1 aborted"]
    assert (counts.ok, counts.fail) == (9, 3)


def test_a_message_without_an_outcome_does_not_stop_the_producer(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_DELIVERY_S", 0.01)
    monkeypatch.setattr(transactions, "_MARGIN_S", 0.01)
    broker.results = lambda number: "" if number == 0 else "ok"
    broker.ends = lambda number: "unknown" if number == 0 else ""
    counts = worked(broker).counts()
    assert ends(broker)[:3] == ["producer-2-1 aborted", "producer-2-2 aborted", "producer-2-2 committed"]
    assert (counts.ok, counts.fail, counts.info) == (9, 0, 3)


def test_a_java_client_is_not_given_what_librdkafka_knows(broker: Broker) -> None:
    worked(broker, "java")
    assert "socket.timeout.ms" not in broker.config
    assert broker.config["max.block.ms"] == 60_000


def test_a_successor_takes_over_the_transactional_id(broker: Broker) -> None:
    stage: Any = SimpleNamespace(library="librdkafka", transactional=broker.transactional)
    load = TransactionLoad(stage, "az1", "producer-3", PARTITIONS, 5, succeeds="producer-2")
    wait_until(broker.enough.is_set, within_s=20.0, awaiting="the transactions to end", poll_s=0.005)
    load.stop(5.0)
    assert broker.ids == "t1-3-producer-2"
    assert broker.said[0] == "producer-3-1 init"


def test_a_producer_that_concedes_goes_on_until_it_is_fenced(broker: Broker) -> None:
    """It fences nobody afterwards: it does not initialise again."""
    broker.limit = 10**9
    broker.ends = lambda number: "unknown" if number >= 3 else ""
    stage: Any = SimpleNamespace(library="librdkafka", transactional=broker.transactional)
    load = TransactionLoad(stage, "az1", "producer-2", PARTITIONS, 5)
    load.concede()
    wait_until(
        lambda: broker.ended,
        accept=lambda ended: ended >= 4,
        within_s=60.0,
        awaiting="the fence",
        poll_s=0.005,
    )
    load._thread.join(30.0)
    assert not load._thread.is_alive()
    assert [line for line in broker.said if line.endswith("init")] == ["producer-2-1 init"]
    assert broker.ended == 4
