"""A stream whose messages are in transactions: what it says when they cannot be recorded."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

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
