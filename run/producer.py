"""A producer bound to the client in which it runs, as scenarios use it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from harness.errors import InvalidRunError, WaitTimeoutError
from harness.kafka.model import Endpoint
from harness.waiting import wait_until
from nemesis.network.links import Connection
from workloads.client.client import Client, PinnedWrites
from workloads.protocol.commands import (
    CloseConnection,
    OpenConnection,
    Prepare,
    Send,
    StartPinnedWrites,
)
from workloads.protocol.results import PinnedWritesResult, SendResult
from workloads.protocol.spec import ProducerSpec

NOT_YET_LEADER = (3, 6)
"""Errors of a newly elected leader until the controller's LeaderAndIsr request has reached it."""


@dataclass(frozen=True)
class OngoingWrites:
    """Writes to one broker that go on in the background until one is refused or they are stopped."""

    writes: PinnedWrites

    def wait_refused(self, within_s: float) -> PinnedWritesResult:
        """Wait until the broker refuses a write; returns how many it accepted. Raises WaitTimeoutError."""
        result = self.writes.wait_end(within_s)
        if result.last_error == 0:
            self.writes.stop()
            producer = self.writes.producer
            raise WaitTimeoutError(
                f"{producer.brokers[0].label} did not refuse a write of {producer.name} "
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

    def prepare(self, topic: str, *, within_s: float = 10.0, connection: str = "") -> Producer:
        """Connect in advance, so that the first message need not wait.

        A librdkafka producer finds the leader and connects to it; a raw idempotent producer gets its producer
        id, without which it cannot send; a transactional one also fences earlier producers of its id.
        """
        self.client.call(Prepare(producer=self.spec, topic=topic, within_s=within_s, connection=connection))
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
        """Send one message and wait for its outcome. A rejected or unanswered message raises no error.

        A raw idempotent producer needs the ``sequence`` number of each message, from 0 on: it keeps no count.
        A raw producer sends it over the `connection` that is named.
        """
        return self.client.call(
            Send(
                producer=self.spec,
                topic=topic,
                partition=partition,
                label=label,
                sequence=sequence,
                connection=connection,
            )
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
        return self.client.submit(
            Send(
                producer=self.spec,
                topic=topic,
                partition=partition,
                label=label,
                sequence=sequence,
                connection=connection,
            )
        )

    def must_send(self, topic: str, label: str, *, partition: int = 0, connection: str = "") -> SendResult:
        """Send one message that the scenario needs to be acknowledged. Raises InvalidRunError if not."""
        result = self.send(topic, label, partition=partition, connection=connection)
        if not result.ok:
            raise InvalidRunError(
                f"The scenario needs message {label!r} to be acknowledged, but {self.spec.name} got "
                f"{result.outcome} with error {result.error}."
            )
        return result

    def wait_writable(
        self, topic: str, *, partition: int = 0, within_s: float = 10.0, label: str = "_"
    ) -> SendResult:
        """Send messages with a raw producer until its broker accepts one, and so knows that it leads.

        A broker that has just started may let nobody connect yet. Each attempt is recorded as a separate
        message. Raises WaitTimeoutError.
        """
        brokers = ", ".join(broker.label for broker in self.spec.brokers)
        return wait_until(
            lambda: self.send(topic, label, partition=partition),
            within_s=within_s,
            awaiting=f"{brokers} to accept a write to {topic}-{partition}",
            accept=lambda result: result.attempts != 0 and result.error not in NOT_YET_LEADER,
        )

    def keep_writing(
        self,
        topic: str,
        *,
        every_s: float = 0.1,
        partition: int = 0,
        stop_on: tuple[int, ...] | None = None,
    ) -> OngoingWrites:
        """Start writing to one broker at an interval, until it refuses a write.

        ``stop_on`` are the errors that end it (None: any; empty: none).
        """
        command = StartPinnedWrites(
            producer=self.spec, topic=topic, partition=partition, every_s=every_s, stop_on=stop_on
        )
        return OngoingWrites(self.client.start_pinned_writes(command))

    def connection(self, name: str) -> Connection:
        """A raw producer's connection that is kept under this name; it is opened if it is not open.

        Requests with this name use it until `close_connection`. If it breaks, they fail and open no other
        one. Raises InvalidRunError if it has broken or cannot be opened, and for other clients.
        """
        return opened(self.client, self.spec, name, self.spec.brokers[0])

    def close_connection(self, name: str) -> None:
        """Close a raw producer's named connection; the next request with the name opens another one."""
        self.client.call(CloseConnection(producer=self.spec, connection=name))


def opened(client: Client, spec: ProducerSpec, name: str, broker: Endpoint) -> Connection:
    """A raw producer's named connection to a broker, which is opened if it is not open."""
    port = client.call(OpenConnection(producer=spec, connection=name, broker=broker))
    return Connection(client=client.host, client_port=port, server=broker.label, server_port=broker.port)
