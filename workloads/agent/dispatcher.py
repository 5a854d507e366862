"""Carries out the agent's commands, and holds its producers and consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from harness.errors import UsageError
from harness.history.journal import Journal
from workloads.agent.producers.recorder import Recorder
from workloads.protocol.commands import (
    BeginTransaction,
    Command,
    ConsumerProgress,
    CountStream,
    EndTransaction,
    Ping,
    Prepare,
    Read,
    Send,
    ShowConfiguration,
    StartConsumer,
    StartPinnedWrites,
    StartStream,
    StopConsumer,
    StopPinnedWrites,
    StopStream,
    WaitPinnedWrites,
)
from workloads.protocol.spec import ConsumerSpec, ProducerSpec

if TYPE_CHECKING:
    from workloads.agent.consumers.assigned import AssignedConsumer
    from workloads.agent.consumers.group_member import GroupMember
    from workloads.agent.producers.raw import PinnedWriter
    from workloads.agent.producers.scripted import ScriptedProducer
    from workloads.agent.producers.stream import StreamProducer
    from workloads.agent.producers.transactional import TransactionalProducer

Reply = Callable[[object], None]
Work = Callable[[], object]
T = TypeVar("T")


class Dispatcher:
    """The state of one agent. Client libraries are imported by the commands that need them."""

    def __init__(self, journal: Journal, recorder: Recorder) -> None:
        self._journal = journal
        self._recorder = recorder
        self._scripted: dict[int, ScriptedProducer] = {}
        self._transactional: dict[int, TransactionalProducer] = {}
        self._streams: dict[int, StreamProducer] = {}
        self._pinned: dict[int, PinnedWriter] = {}
        self._consumers: dict[int, AssignedConsumer | GroupMember] = {}

    def dispatch(self, command: Command[object], reply: Reply) -> Work | None:
        """Begin a command, on the agent's main thread and in the order of the commands.

        Either calls ``reply`` with the result, now or later, or returns work that may block and whose value
        is the result. Messages are thus numbered and recorded in the order in which the commands came.
        """
        match command:
            case Ping():
                reply(None)
            case Prepare():
                return self._prepare(command)
            case ShowConfiguration(producer):
                return lambda: _configuration(producer)
            case Send():
                return self._send(command, reply)
            case StartStream():
                self._start_stream(command)
                reply(None)
            case CountStream():
                reply(_find(self._streams, command.writer, "stream").counts())
            case StopStream(writer, flush_s):
                stream = _find(self._streams, writer, "stream")
                return lambda: stream.stop(flush_s)
            case StartPinnedWrites():
                self._start_pinned_writes(command)
                reply(None)
            case WaitPinnedWrites(writer, within_s):
                writes = _find(self._pinned, writer, "series of pinned writes")
                return lambda: writes.wait(within_s)
            case StopPinnedWrites(writer, within_s):
                writes = _find(self._pinned, writer, "series of pinned writes")
                return lambda: writes.stop(within_s)
            case Read(consumer, within_s):
                return self._read(consumer, within_s)
            case StartConsumer(consumer):
                self._start_consumer(consumer)
                reply(None)
            case ConsumerProgress():
                reply(_find(self._consumers, command.reader, "consumer").progress())
            case StopConsumer(reader, within_s):
                started = _find(self._consumers, reader, "consumer")
                return lambda: started.stop(within_s)
            case BeginTransaction():
                reply(_find(self._transactional, command.writer, "transactional producer").begin())
            case EndTransaction(writer, commit, within_s):
                ending = _find(self._transactional, writer, "transactional producer")
                return lambda: ending.end(commit=commit, within_s=within_s)
            case _:
                raise UsageError(f"The agent cannot carry out {type(command).__name__}.")
        return None

    def close(self) -> None:
        """Close all producers and consumers; messages without an outcome end as `info`."""
        for stream in self._streams.values():
            stream.stop(0.0)
        for writes in self._pinned.values():
            writes.stop(0.0)
        for consumer in self._consumers.values():
            consumer.stop(2.0)
        for scripted in self._scripted.values():
            scripted.close()
        for transactional in self._transactional.values():
            transactional.close()

    def _prepare(self, command: Prepare) -> Work:
        spec, topic, within_s = command.producer, command.topic, command.within_s
        if spec.via == "raw":
            self._recorder.register(spec)
            return lambda: None
        if spec.transactional_id:
            transactional = self._transactional_producer(spec)
            return lambda: transactional.initialise(within_s)
        producer = self._scripted_producer(spec)
        return lambda: producer.prepare(topic, within_s)

    def _send(self, command: Send, reply: Reply) -> Work | None:
        spec, topic, partition, label = command.producer, command.topic, command.partition, command.label
        if spec.transactional_id:
            self._transactional_producer(spec).send(topic, partition, label, reply)
            return None
        if spec.via == "librdkafka":
            self._scripted_producer(spec).send(topic, partition, label, reply)
            return None
        from workloads.agent.producers.raw import send_recorded

        self._recorder.register(spec)
        message = self._recorder.sent(spec.writer, topic, partition, label=label)
        return lambda: send_recorded(self._recorder, spec, message)

    def _start_stream(self, command: StartStream) -> None:
        from workloads.agent.producers.stream import StreamProducer

        spec = command.producer
        self._streams[spec.writer] = StreamProducer(self._recorder, spec, command.load)

    def _start_pinned_writes(self, command: StartPinnedWrites) -> None:
        from workloads.agent.producers.raw import PinnedWriter

        self._pinned[command.producer.writer] = PinnedWriter(self._recorder, command)

    def _read(self, spec: ConsumerSpec, within_s: float) -> Work:
        from workloads.agent.consumers.assigned import AssignedConsumer
        from workloads.agent.consumers.pinned import read_pinned

        if spec.pinned:
            return lambda: read_pinned(self._journal, spec, within_s)
        consumer = AssignedConsumer(self._journal, spec)
        return lambda: consumer.read_to_end(within_s)

    def _start_consumer(self, spec: ConsumerSpec) -> None:
        from workloads.agent.consumers.assigned import AssignedConsumer
        from workloads.agent.consumers.group_member import GroupMember

        kind = GroupMember if spec.group else AssignedConsumer
        self._consumers[spec.reader] = kind(self._journal, spec)
        self._consumers[spec.reader].start()

    def _scripted_producer(self, spec: ProducerSpec) -> ScriptedProducer:
        from workloads.agent.producers.scripted import ScriptedProducer

        self._recorder.register(spec)
        if spec.writer not in self._scripted:
            self._scripted[spec.writer] = ScriptedProducer(self._recorder, spec)
        return self._scripted[spec.writer]

    def _transactional_producer(self, spec: ProducerSpec) -> TransactionalProducer:
        from workloads.agent.producers.transactional import TransactionalProducer

        self._recorder.register(spec)
        if spec.writer not in self._transactional:
            self._transactional[spec.writer] = TransactionalProducer(self._recorder, spec)
        return self._transactional[spec.writer]


def _configuration(spec: ProducerSpec) -> object:
    from workloads.agent.producers.configuration import stated_configuration

    return stated_configuration(spec)


def _find(started: Mapping[int, T], number: int, kind: str) -> T:
    try:
        return started[number]
    except KeyError:
        raise UsageError(f"This client has no {kind} with number {number}; start it first.") from None
