"""A producer bound to the client in which it runs, as scenarios use it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from harness.errors import InvalidRunError, WaitTimeoutError
from workloads.client.client import Client, PinnedWrites
from workloads.protocol.results import PinnedWritesResult, SendResult
from workloads.protocol.spec import ProducerSpec


@dataclass(frozen=True)
class OngoingWrites:
    """Writes to one broker that go on in the background until one is refused or they are stopped."""

    writes: PinnedWrites

    def wait_refused(self, within_s: float) -> PinnedWritesResult:
        """Wait until the broker refuses a write; returns how many it accepted. Raises WaitTimeoutError."""
        result = self.writes.wait_end(within_s)
        if result.last_error == 0:
            self.writes.stop()
            raise WaitTimeoutError(
                f"{self.writes.producer.brokers[0]} did not refuse a write of {self.writes.producer.name} "
                f"within {within_s:g} s; it accepted {result.ok} of {result.sent}."
            )
        return result

    def stop(self) -> PinnedWritesResult:
        """Stop after the write in progress."""
        return self.writes.stop()


@dataclass(frozen=True)
class Producer:
    """One producer in one client host."""

    client: Client
    spec: ProducerSpec

    def prepare(self, topic: str) -> Producer:
        """Let a librdkafka producer find the leader and connect to it before the first message.

        A raw idempotent producer gets its producer id, without which it cannot send.
        """
        self.client.prepare(self.spec, topic)
        return self

    def send(
        self, topic: str, label: str = "", *, partition: int = 0, sequence: int | None = None
    ) -> SendResult:
        """Send one message and wait for its outcome.

        A raw idempotent producer needs the ``sequence`` number of each message, from 0 on: it keeps no count.
        """
        return self.client.send(topic, label, self.spec, partition=partition, sequence=sequence)

    def send_later(self, topic: str, label: str = "", *, partition: int = 0) -> Future[SendResult]:
        """Send one message without waiting for its outcome."""
        return self.client.send_later(topic, label, self.spec, partition=partition)

    def keep_writing(self, topic: str, *, every_s: float = 0.1, partition: int = 0) -> OngoingWrites:
        """Start writing to one broker at an interval, until it refuses a write."""
        writes = self.client.start_pinned_writes(topic, self.spec, partition=partition, every_s=every_s)
        return OngoingWrites(writes)

    def must_send(self, topic: str, label: str, *, partition: int = 0) -> SendResult:
        """Send one message that the scenario needs to be acknowledged. Raises InvalidRunError if not."""
        result = self.send(topic, label, partition=partition)
        if not result.ok:
            raise InvalidRunError(
                f"The scenario needs message {label!r} to be acknowledged, but {self.spec.name} got "
                f"{result.outcome} with error {result.error}."
            )
        return result
