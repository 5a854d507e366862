"""A client of the lab, as scenarios use it: one agent in one client host."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from harness.errors import InvalidRunError
from harness.kafka.model import BROKER_PORT
from harness.lab.model import Lab
from harness.waiting import wait_until
from workloads.client.agent_process import ANSWER_S, AgentProcess
from workloads.client.background import BackgroundConsumer, PinnedWrites, Stream
from workloads.protocol.commands import (
    AddPartition,
    BeginTransaction,
    CloseConnection,
    CommitOffset,
    Deliver,
    DescribeProgram,
    EndTransaction,
    FetchOffset,
    HoldEnd,
    HoldSend,
    InitTransactions,
    OpenConnection,
    Ping,
    PinnedMessage,
    Prepare,
    Read,
    Send,
    SendOffsets,
    SendPinned,
    ShowConfiguration,
    StartConsumer,
    StartPinnedWrites,
    StartProcessor,
    StartStream,
    UseProgram,
)
from workloads.protocol.lines import HELLO_S
from workloads.protocol.results import (
    Configuration,
    Delivered,
    Held,
    OffsetAnswer,
    ProgramDescription,
    ReadResult,
    SendResult,
    TransactionEnd,
)
from workloads.protocol.spec import (
    LIBRARIES,
    PROGRAMS,
    ClientProgram,
    ConsumerSpec,
    ProducerSpec,
    StreamLoad,
    Via,
)

__all__ = ["NOT_YET_LEADER", "BackgroundConsumer", "Client", "PinnedWrites", "Stream"]

NOT_YET_LEADER = (3, 6)
"""Errors of a newly elected leader until the controller's LeaderAndIsr request has reached it."""
Spec = TypeVar("Spec", ProducerSpec, ConsumerSpec)
Pinned = TypeVar("Pinned", bound=PinnedMessage)


class Client:
    """One agent. Thread-safe. Raises ProcessDiedError, with the end of its stderr, once it has ended."""

    def __init__(self, lab: Lab, host: str, journal_path: Path, *, start_within_s: float = 20.0) -> None:
        """Start the agent in ``host``. Its journal is ``journal_path``; `.err` beside it gets its stderr."""
        self.host = host
        self._topology = lab.topology
        self.journal_path = journal_path
        journal_path.parent.mkdir(parents=True, exist_ok=True)
        journal_inside = lab.inside(host, journal_path)
        arguments = ["--host", host, "--az", lab.topology.host(host).az, "--journal", journal_inside]
        pipe = lab.open_module(host, "workloads.agent.main", arguments)
        self._agent = AgentProcess(pipe, host, journal_path.with_suffix(".err"))
        try:
            self._agent.call(Ping(), start_within_s)
        except BaseException:
            self._agent.kill()
            raise

    @property
    def alive(self) -> bool:
        """Whether the agent runs."""
        return self._agent.alive

    def use(self, program: ClientProgram) -> None:
        """Start a client program. Producers and consumers with its ``via`` run in it."""
        self._agent.call(UseProgram(program), ANSWER_S)

    def describe_program(self, via: Via, within_s: float = HELLO_S) -> ProgramDescription:
        """Wait until a client program is ready. Raises InvalidRunError if it does not become ready."""
        return self._agent.call(DescribeProgram(via), within_s + ANSWER_S)

    def prepare(
        self, producer: ProducerSpec, topic: str, within_s: float = 10.0, connection: str = ""
    ) -> None:
        """Connect a producer in advance: metadata, producer id, fencing of older producers.

        ``connection``, here and below, is the name of a raw producer's connection (see `open_connection`).
        Raises InvalidRunError for a name given to another client.
        """
        command = Prepare(
            producer=self._resolved(producer),
            topic=topic,
            within_s=within_s,
            connection=_named(producer, connection),
        )
        self._agent.call(command, within_s + ANSWER_S + _creation_s(producer))

    def configuration(self, producer: ProducerSpec) -> Configuration:
        """The configuration of a librdkafka producer, as the library itself states it. It sends nothing."""
        return self._agent.call(ShowConfiguration(self._resolved(producer)), ANSWER_S)

    def send_later(
        self,
        topic: str,
        label: str,
        producer: ProducerSpec,
        *,
        partition: int = 0,
        sequence: int | None = None,
        connection: str = "",
    ) -> Future[SendResult]:
        """Send one message without waiting for its outcome.

        Messages are numbered in the order of the calls. A librdkafka producer sends its messages in that
        order; raw messages are sent concurrently, unless they name the same connection. ``sequence`` is the
        sequence number of a message of a raw idempotent producer.
        """
        return self._agent.submit(
            Send(
                producer=self._resolved(producer),
                topic=topic,
                partition=partition,
                label=label,
                sequence=sequence,
                connection=_named(producer, connection),
            )
        )

    def send(
        self,
        topic: str,
        label: str,
        producer: ProducerSpec,
        *,
        partition: int = 0,
        sequence: int | None = None,
        within_s: float | None = None,
        connection: str = "",
    ) -> SendResult:
        """Send one message and wait for its outcome. A rejected or unanswered message raises no error."""
        future = self.send_later(
            topic, label, producer, partition=partition, sequence=sequence, connection=connection
        )
        usual_s = producer.effective_delivery_timeout_s + ANSWER_S + _creation_s(producer)
        limit_s = usual_s if within_s is None else within_s
        return self._agent.wait(future, f"Send of {label!r}", limit_s)

    def send_all(
        self, topic: str, labels: Sequence[str], producer: ProducerSpec, *, partition: int = 0
    ) -> list[SendResult]:
        """Send messages one after the other, each after the outcome of the previous one."""
        return [self.send(topic, label, producer, partition=partition) for label in labels]

    def wait_writable(
        self,
        topic: str,
        producer: ProducerSpec,
        *,
        partition: int = 0,
        within_s: float = 10.0,
        label: str = "_",
    ) -> SendResult:
        """Send messages with a raw producer until its broker accepts one, and so knows that it leads.

        Each attempt is recorded as a separate message. Raises WaitTimeoutError.
        """
        return wait_until(
            lambda: self.send(topic, label, producer, partition=partition),
            within_s=within_s,
            awaiting=f"{', '.join(producer.brokers)} to accept a write to {topic}-{partition}",
            accept=lambda result: result.error not in NOT_YET_LEADER,
        )

    def start_stream(self, producer: ProducerSpec, load: StreamLoad) -> Stream:
        """Start a background stream with a producer of its own."""
        producer = replace(producer, via=producer.via if producer.via in LIBRARIES else "librdkafka")
        producer = replace(producer, role="stream")
        self._agent.call(StartStream(self._resolved(producer), load), ANSWER_S)
        return Stream(self._agent, producer)

    def start_pinned_writes(
        self,
        topic: str,
        producer: ProducerSpec,
        *,
        partition: int = 0,
        every_s: float = 0.1,
        max_count: int = 10_000,
        stop_on: Collection[int] | None = None,
    ) -> PinnedWrites:
        """Start a series of raw writes to the producer's one broker, to see how long it accepts them.

        The series ends at the first error in ``stop_on`` (None: any error; empty: never by itself).
        """
        command = StartPinnedWrites(
            producer=self._resolved(producer),
            topic=topic,
            partition=partition,
            every_s=every_s,
            max_count=max_count,
            stop_on=None if stop_on is None else tuple(stop_on),
        )
        self._agent.call(command, ANSWER_S)
        return PinnedWrites(self._agent, producer)

    def read(self, consumer: ConsumerSpec, within_s: float = 20.0) -> ReadResult:
        """Read partitions from their start to their present end; ``complete`` tells whether it got there."""
        return self._agent.call(Read(self._resolved(consumer), within_s), within_s + ANSWER_S)

    def start_consumer(self, consumer: ConsumerSpec) -> BackgroundConsumer:
        """Start a consumer that reads until it is stopped; it is a group member if it names a group."""
        self._agent.call(StartConsumer(self._resolved(consumer)), ANSWER_S)
        return BackgroundConsumer(self._agent, consumer)

    def start_processor(
        self, consumer: ConsumerSpec, producer: ProducerSpec, *, output: str, every_s: float
    ) -> BackgroundConsumer:
        """Start an application that writes a message to ``output`` for each message that it receives."""
        command = StartProcessor(
            consumer=self._resolved(consumer),
            producer=self._resolved(producer),
            output=output,
            every_s=every_s,
        )
        self._agent.call(command, ANSWER_S)
        return BackgroundConsumer(self._agent, consumer)

    def send_offsets(
        self,
        producer: ProducerSpec,
        group: str,
        reader: int,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        within_s: float = 10.0,
        member: bool = False,
        coordinator: str = "",
        group_coordinator: str = "",
        connection: str = "",
    ) -> int:
        """Let a producer's transaction commit an offset of a group; returns the error code.

        With ``member`` it does so as the group member ``reader``, which must use the same library. A
        librdkafka producer needs one. A raw producer asks the two coordinators that are named.
        """
        command = SendOffsets(
            writer=producer.writer,
            group=group,
            reader=reader,
            topic=topic,
            partition=partition,
            offset=offset,
            within_s=within_s,
            member=member,
            coordinator=self._at(coordinator),
            group_coordinator=self._at(group_coordinator),
            broker_id=self._node_id(group_coordinator) if group_coordinator else None,
            connection=_named(producer, connection),
        )
        return self._agent.call(command, 2 * within_s + ANSWER_S)

    def commit_offset_later(
        self,
        group: str,
        topic: str,
        offset: int,
        *,
        reader: int,
        at: str,
        partition: int = 0,
        within_s: float = 10.0,
    ) -> Future[OffsetAnswer]:
        """Commit an offset of a group at the broker ``at``, once, without being a member."""
        return self._agent.submit(
            CommitOffset(
                reader=reader,
                group=group,
                topic=topic,
                partition=partition,
                offset=offset,
                coordinator=self._at(at),
                within_s=within_s,
                broker_id=self._node_id(at),
            )
        )

    def fetch_offset(
        self,
        group: str,
        topic: str,
        *,
        reader: int,
        at: str,
        partition: int = 0,
        within_s: float = 2.0,
        stable: bool = False,
    ) -> OffsetAnswer:
        """Ask the broker ``at`` for the committed offset of a group, once.

        With ``stable`` the answer is error 88 while a transaction that commits it has no marker.
        """
        command = FetchOffset(
            reader=reader,
            group=group,
            topic=topic,
            partition=partition,
            coordinator=self._at(at),
            within_s=within_s,
            broker_id=self._node_id(at),
            stable=stable,
        )
        return self._agent.call(command, within_s + ANSWER_S)

    def init_transactions(
        self, producer: ProducerSpec, within_s: float, coordinator: str = "", connection: str = ""
    ) -> int:
        """Get a producer id, which fences older producers of its transactional id; returns the error code.

        A raw producer asks the broker ``coordinator``, and repeats requests that may succeed later.
        """
        command = InitTransactions(
            producer=self._resolved(producer),
            within_s=within_s,
            coordinator=self._at(coordinator),
            connection=_named(producer, connection),
        )
        return self._agent.call(command, within_s + ANSWER_S)

    def begin_transaction(self, producer: ProducerSpec) -> int:
        """Begin a transaction of a prepared producer; its messages belong to it until it ends."""
        return self._agent.call(BeginTransaction(producer.writer), ANSWER_S)

    def end_transaction(
        self,
        producer: ProducerSpec,
        *,
        commit: bool = True,
        within_s: float = 10.0,
        coordinator: str = "",
        connection: str = "",
    ) -> TransactionEnd:
        """Commit or abort the producer's transaction."""
        future = self.end_transaction_later(
            producer, commit=commit, within_s=within_s, coordinator=coordinator, connection=connection
        )
        return self._agent.wait(future, "EndTransaction", 2 * within_s + ANSWER_S)

    def end_transaction_later(
        self,
        producer: ProducerSpec,
        *,
        commit: bool,
        within_s: float,
        coordinator: str = "",
        connection: str = "",
    ) -> Future[TransactionEnd]:
        """Commit or abort the producer's transaction without waiting for the answer."""
        name = _named(producer, connection)
        command = EndTransaction(
            writer=producer.writer,
            commit=commit,
            within_s=within_s,
            coordinator=self._at(coordinator),
            connection=name,
        )
        return self._agent.submit(command)

    def add_partition(
        self,
        topic: str,
        producer: ProducerSpec,
        *,
        coordinator: str,
        partition: int = 0,
        within_s: float = 5.0,
        connection: str = "",
    ) -> int:
        """Add a partition to a raw producer's transaction before it writes there; returns the error code."""
        command = AddPartition(
            writer=producer.writer,
            topic=topic,
            partition=partition,
            coordinator=self._at(coordinator),
            within_s=within_s,
            connection=connection,
        )
        return self._agent.call(command, within_s + ANSWER_S)

    def send_pinned_later(
        self,
        topic: str,
        label: str,
        producer: ProducerSpec,
        *,
        leader: str,
        coordinator: str,
        partition: int = 0,
        connection: str = "",
    ) -> Future[SendResult]:
        """Send one message of a raw transactional producer to the broker ``leader``."""
        command = self._pinned(
            SendPinned, topic, label, producer, leader=leader, coordinator=coordinator, partition=partition
        )
        return self._agent.submit(replace(command, connection=connection))

    def open_connection(self, producer: ProducerSpec, name: str, broker: str) -> int:
        """Open a raw producer's connection to a broker, unless it is open; returns the client's port.

        It stays open until `close_connection`, or until it breaks. Operations with this name use it one after
        another, and fail once it has broken. Raises InvalidRunError if it cannot be opened, or has broken.
        """
        command = OpenConnection(
            producer=self._resolved(producer), broker=self._at(broker), name=_named(producer, name)
        )
        return self._agent.call(command, producer.effective_delivery_timeout_s + ANSWER_S)

    def close_connection(self, producer: ProducerSpec, name: str) -> None:
        """Close a raw producer's connections with this name, when the operations on them have ended."""
        command = CloseConnection(producer=self._resolved(producer), name=_named(producer, name))
        self._agent.call(command, producer.effective_delivery_timeout_s + ANSWER_S)

    def hold_send(
        self,
        topic: str,
        label: str,
        producer: ProducerSpec,
        *,
        leader: str,
        coordinator: str,
        partition: int = 0,
    ) -> Held:
        """Make such a request and open its connection, but do not send it before `deliver`."""
        command = self._pinned(
            HoldSend, topic, label, producer, leader=leader, coordinator=coordinator, partition=partition
        )
        return self._agent.call(command, producer.effective_delivery_timeout_s + ANSWER_S)

    def _pinned(
        self,
        kind: type[Pinned],
        topic: str,
        label: str,
        producer: ProducerSpec,
        *,
        leader: str,
        coordinator: str,
        partition: int,
    ) -> Pinned:
        """A command about one message; hosts name the brokers."""
        return kind(
            writer=producer.writer,
            topic=topic,
            partition=partition,
            label=label,
            leader=self._at(leader),
            coordinator=self._at(coordinator),
            broker_id=self._node_id(leader),
        )

    def hold_end(self, producer: ProducerSpec, *, commit: bool, coordinator: str) -> Held:
        """Make the request that ends a raw producer's transaction; `deliver` sends it."""
        command = HoldEnd(writer=producer.writer, commit=commit, coordinator=self._at(coordinator))
        return self._agent.call(command, ANSWER_S)

    def deliver(self, producer: ProducerSpec, number: int, within_s: float = 5.0) -> Delivered:
        """Send a held request over the connection that was opened for it."""
        command = Deliver(writer=producer.writer, number=number, within_s=within_s)
        return self._agent.call(command, within_s + ANSWER_S)

    def kill(self) -> None:
        """SIGKILL the agent, as a fault would. Messages without an outcome stay unknown."""
        self._agent.kill()

    def close(self, within_s: float = 10.0) -> None:
        """Close streams, producers and consumers, then end the agent. Safe to call twice."""
        self._agent.close(within_s)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _resolved(self, spec: Spec) -> Spec:
        """The specification with addresses instead of host names, and the id of a raw producer's broker."""
        brokers = tuple(self._address(name) for name in spec.brokers)
        if isinstance(spec, ConsumerSpec):
            return replace(spec, brokers=brokers)
        broker_id = spec.broker_id
        pinned = spec.via == "raw" and len(spec.brokers) == 1
        if pinned and broker_id is None and ":" not in spec.brokers[0]:
            broker_id = self._topology.host(spec.brokers[0]).node_id
        return replace(spec, brokers=brokers, broker_id=broker_id)

    def _node_id(self, broker: str) -> int | None:
        return None if ":" in broker else self._topology.host(broker).node_id

    def _at(self, broker: str) -> str:
        return self._address(broker) if broker else ""

    def _address(self, broker: str) -> str:
        return broker if ":" in broker else f"{self._topology.host(broker).address}:{BROKER_PORT}"


def _named(producer: ProducerSpec, connection: str) -> str:
    """The name of a connection. Raises InvalidRunError if the library chooses its connections itself."""
    if connection and producer.via != "raw":
        raise InvalidRunError(
            f"{producer.name} uses {producer.via}, which opens and chooses its connections itself; "
            f"a named connection ({connection!r}) needs via='raw'."
        )
    return connection


def _creation_s(producer: ProducerSpec) -> float:
    """Time that the producer's creation may take in addition."""
    return HELLO_S if producer.via in PROGRAMS else 0.0
