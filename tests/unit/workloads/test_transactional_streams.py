"""A stream whose messages are in transactions: what it says when they cannot be recorded."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from harness.errors import InvalidRunError
from harness.history.journal import Journal
from harness.kafka.model import Endpoint
from harness.waiting import wait_until
from workloads.agent.producers.recorder import Recorder
from workloads.agent.producers.transactional_stream import TransactionalStream
from workloads.protocol.spec import ProducerSpec, StreamLoad

SPEC = ProducerSpec(
    writer=1,
    name="orders",
    brokers=(Endpoint("127.0.0.1", 1),),
    transactional_id="orders",
    role="stream",
    request_timeout_s=1.0,
    connect_timeout_s=1.0,
)


class NoCoordinator:
    """What librdkafka is for a stream whose coordinator never answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def _never(self, name: str, within_s: float) -> None:
        self.asked.append(name)
        raise KafkaException(
            KafkaError(KafkaError._TIMED_OUT, "none", retriable=True, txn_requires_abort=True)
        )

    def commit_transaction(self, within_s: float) -> None:
        self._never("commit", within_s)

    def abort_transaction(self, within_s: float) -> None:
        self._never("abort", within_s)

    def flush(self, within_s: float) -> int:
        self.asked.append(f"flush {within_s:.0f}")
        return 0

    def poll(self, within_s: float) -> int:
        return 0

    def purge(self) -> None: ...

    def __len__(self) -> int:
        return 0


class FullDisk(Recorder):
    """Cannot record an event of a transaction."""

    def transaction(self, writer: int, txn: int | None, event: str, error: int = 0) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_the_end_of_a_transaction_that_cannot_be_recorded_is_told(tmp_path: Path) -> None:
    """At the end of the stream, when its last transaction is still open."""
    stream = TransactionalStream(FullDisk(Journal(tmp_path / "journal.jsonl"), "client1", "az1"), SPEC)
    stream._open = 0
    stream._stop.set()
    stream.start(StreamLoad(topic="t", rate=10, transaction=5))
    wait_until(lambda: not stream._thread.is_alive(), within_s=20, awaiting="the stream to end")
    with pytest.raises(InvalidRunError, match="of the stream orders cannot be recorded: No space left"):
        stream.stop(0.0)


def test_a_stream_that_is_stopped_ends_in_time_whatever_its_coordinator_does(tmp_path: Path) -> None:
    """Commit, abort and outcomes of messages share the time that `stop` allows."""
    stream = TransactionalStream(Recorder(Journal(tmp_path / "journal.jsonl"), "client1", "az1"), SPEC)
    library = stream._producer = NoCoordinator()  # type: ignore[assignment]
    stream._open = 0
    stream._ends_s = 0.0
    stream._stop.set()
    stream.start(StreamLoad(topic="t", rate=10, transaction=5))
    wait_until(lambda: not stream._thread.is_alive(), within_s=20, awaiting="the stream to end")
    assert library.asked[:2] == ["commit", "abort"] and library.asked.count("commit") == 1
    assert not stream.stop(0.0).running
