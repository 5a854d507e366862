"""Handles of what runs in a client until it is stopped: streams, pinned writes, consumers."""

from __future__ import annotations

from workloads.client.agent_process import AgentProcess
from workloads.protocol.commands import (
    AnswerRecords,
    ApplicationProgress,
    ConsumerProgress,
    CountStream,
    DumpStore,
    HoldRecords,
    StopApplication,
    StopConsumer,
    StopPinnedWrites,
    StopStream,
    WaitPinnedWrites,
)
from workloads.protocol.results import ApplicationState, PinnedWritesResult, ReadResult, StreamCounts
from workloads.protocol.spec import ApplicationSpec, ConsumerSpec, ProducerSpec, ShareAnswer


class Stream:
    """A background stream in a client."""

    def __init__(self, agent: AgentProcess, producer: ProducerSpec) -> None:
        self.producer = producer
        self._agent = agent

    def counts(self) -> StreamCounts:
        """The stream's messages so far."""
        return self._agent.call(CountStream(producer=self.producer))

    def stop(self, flush_s: float = 5.0) -> StreamCounts:
        """Stop the stream; messages without an outcome after ``flush_s`` end as `info`."""
        return self._agent.call(StopStream(producer=self.producer, flush_s=flush_s))


class PinnedWrites:
    """A series of raw writes to one broker, in a client."""

    def __init__(self, agent: AgentProcess, producer: ProducerSpec) -> None:
        self.producer = producer
        self._agent = agent

    def progress(self) -> PinnedWritesResult:
        """The writes so far."""
        return self.wait_end(0.0)

    def wait_end(self, within_s: float) -> PinnedWritesResult:
        """The writes so far, when the series has ended by itself or ``within_s`` has passed."""
        return self._agent.call(WaitPinnedWrites(producer=self.producer, within_s=within_s))

    def stop(self) -> PinnedWritesResult:
        """End the series after the write in progress."""
        return self._agent.call(StopPinnedWrites(producer=self.producer))


class BackgroundConsumer:
    """A consumer in a client that reads until it is stopped."""

    def __init__(self, agent: AgentProcess, consumer: ConsumerSpec) -> None:
        self.consumer = consumer
        self._agent = agent

    def progress(self) -> ReadResult:
        """What it has read so far."""
        return self._agent.call(ConsumerProgress(self.consumer.reader))

    def stop(self, within_s: float = 5.0) -> ReadResult:
        """Stop it; a group member leaves its group."""
        return self._agent.call(StopConsumer(self.consumer.reader, within_s))


class ShareMember(BackgroundConsumer):
    """A member of a share group in a client: it acknowledges each record until it is stopped (KIP-932)."""

    def hold(self) -> None:
        """Let it keep what its next poll returns, and poll no more until `answer`; its heartbeats go on."""
        self._agent.call(HoldRecords(self.consumer.reader))

    def answer(self, answer: ShareAnswer, within_s: float = 10.0) -> None:
        """Let it acknowledge what it holds, wait for the answers, which may be refusals, and go on.

        If some have not come in time, it goes on as well; the history has them if they come later.
        """
        self._agent.call(AnswerRecords(reader=self.consumer.reader, answer=answer, within_s=within_s))


class ApplicationInstance:
    """An instance of an application of Kafka Streams in a client, until it is stopped."""

    def __init__(self, agent: AgentProcess, spec: ApplicationSpec) -> None:
        self.spec = spec
        self._agent = agent

    def progress(self) -> ApplicationState:
        """How it is."""
        return self._agent.call(ApplicationProgress(self.spec.reader))

    def dump_store(self, within_s: float = 10.0) -> None:
        """Record what its store holds of the partitions that it processes."""
        self._agent.call(DumpStore(self.spec.reader, within_s))

    def stop(self, within_s: float = 10.0) -> ApplicationState:
        """Stop it. Kafka Streams does not leave its group then: its session ends later."""
        return self._agent.call(StopApplication(self.spec.reader, within_s))
