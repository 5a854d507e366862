"""A producer bound to the client in which it runs, as scenarios use it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from harness.errors import InvalidRunError, WaitTimeoutError
from harness.kafka.model import BROKER_PORT
from nemesis.network.links import Connection
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

    def prepare(self, topic: str, *, connection: str = "") -> Producer:
        """Let a librdkafka producer find the leader and connect to it before the first message.

        A raw idempotent producer gets its producer id, without which it cannot send.
        """
        self.client.prepare(self.spec, topic, connection=connection)
        return self

    def send(
        self,
        topic: str,
        label: str = "",
        *,
        partition: int = 0,
        sequence: int | None = None,
        connection: str = "",
    ) -> SendResult:
        """Send one message and wait for its outcome.

        A raw idempotent producer needs the ``sequence`` number of each message, from 0 on: it keeps no count.
        A raw producer sends it over the `connection` that is named.
        """
        return self.client.send(
            topic, label, self.spec, partition=partition, sequence=sequence, connection=connection
        )

    def send_later(
        self,
        topic: str,
        label: str = "",
        *,
        partition: int = 0,
        sequence: int | None = None,
        connection: str = "",
    ) -> Future[SendResult]:
        """Send one message without waiting for its outcome.

        Messages on the same named connection are sent one after another, each when the one before is answered
        or given up. Others of a raw producer are sent at once, each over a connection of its own.
        """
        return self.client.send_later(
            topic, label, self.spec, partition=partition, sequence=sequence, connection=connection
        )

    def keep_writing(self, topic: str, *, every_s: float = 0.1, partition: int = 0) -> OngoingWrites:
        """Start writing to one broker at an interval, until it refuses a write."""
        writes = self.client.start_pinned_writes(topic, self.spec, partition=partition, every_s=every_s)
        return OngoingWrites(writes)

    def connection(self, name: str) -> Connection:
        """A raw producer's connection that is kept under this name; it is opened if it is not open.

        Requests with this name use it until `close_connection`. If it breaks, they fail and open no other
        one. Raises InvalidRunError if it has broken or cannot be opened, and for other clients.
        """
        port = self.client.open_connection(self.spec, name, self.spec.brokers[0])
        return Connection(
            client=self.client.host,
            client_port=port,
            server=self.spec.brokers[0],
            server_port=BROKER_PORT,
        )

    def close_connection(self, name: str) -> None:
        """Close a raw producer's named connection; the next request with the name opens another one."""
        self.client.close_connection(self.spec, name)

    def must_send(self, topic: str, label: str, *, partition: int = 0, connection: str = "") -> SendResult:
        """Send one message that the scenario needs to be acknowledged. Raises InvalidRunError if not."""
        result = self.send(topic, label, partition=partition, connection=connection)
        if not result.ok:
            raise InvalidRunError(
                f"The scenario needs message {label!r} to be acknowledged, but {self.spec.name} got "
                f"{result.outcome} with error {result.error}."
            )
        return result
