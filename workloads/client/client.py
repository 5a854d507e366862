"""A client of the lab, as handles and scenarios use it: one agent in one client host."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import TypeVar

from harness.kafka.model import Endpoint
from harness.lab.model import ClientHosts
from workloads.client.agent_process import JOURNAL, AgentProcess, take_journals
from workloads.client.background import (
    ApplicationInstance,
    BackgroundConsumer,
    PinnedWrites,
    ShareMember,
    Stream,
)
from workloads.protocol.commands import (
    Command,
    Ping,
    Read,
    StartApplication,
    StartConsumer,
    StartPinnedWrites,
    StartProcessor,
    StartStream,
    UseProgram,
)
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import (
    LIBRARIES,
    ApplicationSpec,
    ClientProgram,
    ConsumerSpec,
    ProducerSpec,
    StreamLoad,
)

__all__ = [
    "ApplicationInstance",
    "BackgroundConsumer",
    "Client",
    "PinnedWrites",
    "ShareMember",
    "Stream",
    "take_journals",
]

R = TypeVar("R")


class Client:
    """One agent. Thread-safe. Raises ProcessDiedError, with the end of its stderr, once it has ended."""

    def __init__(self, lab: ClientHosts, host: str, *, start_within_s: float = 20.0) -> None:
        """Start the agent in ``host``, which writes `JOURNAL` there, and its stderr beside it."""
        self.host = host
        self._topology = lab.topology
        journal = lab.inside(host, JOURNAL)
        arguments = ["--host", host, "--az", lab.topology.host(host).az, "--journal", journal]
        pipe = lab.open_module(host, "workloads.agent.main", arguments)
        self._agent = AgentProcess(pipe, host, lab.files(host))
        try:
            self._agent.wait(self._agent.submit(Ping()), "Ping", start_within_s)
        except BaseException:
            self._agent.kill()
            raise

    @property
    def alive(self) -> bool:
        """Whether the agent runs."""
        return self._agent.alive

    def submit(self, command: Command[R]) -> Future[R]:
        """Send a command to the agent; the future has its result (see `AgentProcess.submit`)."""
        return self._agent.submit(command)

    def call(self, command: Command[R]) -> R:
        """Send a command to the agent and wait for its result. Raises WaitTimeoutError."""
        return self._agent.call(command)

    def broker(self, host: str) -> Endpoint:
        """Where clients reach the broker in a host. Raises UsageError for a host that does not exist."""
        return self._topology.client_endpoint(self._topology.host(host))

    def use(self, program: ClientProgram) -> None:
        """Start a client program. Producers and consumers with its ``via`` run in it."""
        self.call(UseProgram(program))

    def start_stream(self, producer: ProducerSpec, load: StreamLoad) -> Stream:
        """Start a background stream with a producer of its own; a raw one uses librdkafka."""
        via = producer.via if producer.via in LIBRARIES else "librdkafka"
        producer = replace(producer, via=via, role="stream", interval_ns=load.interval_ns)
        self.call(StartStream(producer=producer, load=load))
        return Stream(self._agent, producer)

    def start_pinned_writes(self, command: StartPinnedWrites) -> PinnedWrites:
        """Start a series of raw writes to the producer's one broker, to see how long it accepts them."""
        self.call(command)
        return PinnedWrites(self._agent, command.producer)

    def read(self, consumer: ConsumerSpec, within_s: float = 20.0) -> ReadResult:
        """Read partitions from their start to their present end; ``complete`` tells whether it got there."""
        return self.call(Read(consumer, within_s))

    def start_consumer(self, consumer: ConsumerSpec) -> BackgroundConsumer:
        """Start a consumer that reads until it is stopped; it is a group member if it names a group."""
        self.call(StartConsumer(consumer))
        return BackgroundConsumer(self._agent, consumer)

    def start_share_member(self, consumer: ConsumerSpec) -> ShareMember:
        """Start a consumer with ``answers`` as a member of its share group."""
        self.call(StartConsumer(consumer))
        return ShareMember(self._agent, consumer)

    def start_application(self, spec: ApplicationSpec) -> ApplicationInstance:
        """Start an instance of an application of Kafka Streams."""
        self.call(StartApplication(spec))
        return ApplicationInstance(self._agent, spec)

    def start_processor(
        self, consumer: ConsumerSpec, producer: ProducerSpec, *, output: str, every_s: float
    ) -> BackgroundConsumer:
        """Start an application that writes a message to ``output`` for each message that it receives."""
        self.call(StartProcessor(consumer=consumer, producer=producer, output=output, every_s=every_s))
        return BackgroundConsumer(self._agent, consumer)

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
