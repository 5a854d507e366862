"""Carries out the agent's commands, and holds its producers and consumers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from harness.errors import InvalidRunError, UsageError
from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from workloads.agent.producers.recorder import Recorder
from workloads.protocol.commands import (
    AddPartition,
    BeginTransaction,
    CloseConnection,
    Command,
    CommitOffset,
    ConsumerProgress,
    CountStream,
    Deliver,
    DescribeProgram,
    EndTransaction,
    FetchOffset,
    HoldEnd,
    HoldSend,
    InitTransactions,
    OpenConnection,
    Ping,
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
    StopConsumer,
    StopPinnedWrites,
    StopStream,
    UseProgram,
    WaitPinnedWrites,
)
from workloads.protocol.spec import PROGRAMS, ClientProgram, ConsumerSpec, ProducerSpec

if TYPE_CHECKING:
    from workloads.agent.consumers.assigned import AssignedConsumer
    from workloads.agent.consumers.group_member import GroupMember
    from workloads.agent.producers.connections import Connections
    from workloads.agent.producers.raw import PinnedWriter, RawProducer
    from workloads.agent.producers.raw_transactional import RawTransactionalProducer
    from workloads.agent.producers.scripted import ScriptedProducer
    from workloads.agent.producers.stream import StreamProducer
    from workloads.agent.producers.transactional import TransactionalProducer
    from workloads.agent.programs.consumers import ProgramConsumer
    from workloads.agent.programs.process import RunningProgram
    from workloads.agent.programs.producers import ProgramProducer, ProgramStream

Reply = Callable[[object], None]
Work = Callable[[], object]
T = TypeVar("T")
_PROGRAM_END_S = 3.0


class Dispatcher:
    """The state of one agent. Client libraries are imported by the commands that need them."""

    def __init__(self, journal: Journal, recorder: Recorder, host: str, errors: Path) -> None:
        """``errors`` is the file of the agent's stderr; programs have theirs beside it."""
        self._host = host
        self._errors = errors
        self._journal = journal
        self._recorder = recorder
        self._scripted: dict[int, ScriptedProducer] = {}
        self._transactional: dict[int, TransactionalProducer] = {}
        self._raw_transactional: dict[int, RawTransactionalProducer] = {}
        self._raw: dict[int, RawProducer] = {}
        self._connections: dict[int, Connections] = {}
        """Of the raw producers."""
        self._streams: dict[int, StreamProducer | ProgramStream] = {}
        self._pinned: dict[int, PinnedWriter] = {}
        self._consumers: dict[int, AssignedConsumer | GroupMember | ProgramConsumer] = {}
        self._programs: dict[str, RunningProgram] = {}
        self._in_programs: dict[int, ProgramProducer] = {}

    def dispatch(self, command: Command[object], reply: Reply) -> Work | None:
        """Begin a command. This runs on the agent's main thread, in the order of the commands.

        It either calls ``reply`` with the result, now or later, or returns work that may block and whose
        value is the result. Messages are thus numbered and recorded in the order in which the commands
        arrive.
        """
        match command:
            case Ping():
                reply(None)
            case UseProgram(program):
                self._use(program)
                reply(None)
            case DescribeProgram(via):
                return self._program(via).describe
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
            case StartProcessor():
                self._start_processor(command)
                reply(None)
            case ConsumerProgress():
                reply(_find(self._consumers, command.reader, "consumer").progress())
            case StopConsumer(reader, within_s):
                started = _find(self._consumers, reader, "consumer")
                return lambda: started.stop(within_s)
            case CommitOffset() | FetchOffset():
                return self._group_offset(command)
            case InitTransactions():
                return self._initialise(command)
            case BeginTransaction(writer) if writer in self._raw_transactional:
                reply(self._raw_transactional[writer].begin())
            case EndTransaction(writer=writer, commit=commit, within_s=within_s, coordinator=at) if (
                writer in self._raw_transactional
            ):
                raw, name = self._raw_transactional[writer], command.connection
                return self._connections[writer].in_turn(
                    name, lambda: raw.end(commit=commit, within_s=within_s, coordinator=at, connection=name)
                )
            case OpenConnection(name="") | CloseConnection(name=""):
                raise UsageError("A connection that is kept needs a name.")
            case OpenConnection(producer=spec, broker=at, name=name):
                return self._connections_of(spec).opening(at, name)
            case CloseConnection(producer=spec, name=name):
                kept = self._connections_of(spec)
                return kept.in_turn(name, lambda: kept.close(name))
            case AddPartition() | SendPinned() | HoldSend() | HoldEnd() | Deliver():
                return self._raw_request(command)
            case SendOffsets():
                return self._send_offsets(command)
            case BeginTransaction(writer) if writer in self._in_programs:
                return self._in_programs[writer].begin_transaction
            case EndTransaction(writer=writer, commit=commit, within_s=within_s) if (
                writer in self._in_programs
            ):
                inside = self._in_programs[writer]
                return lambda: inside.end_transaction(commit=commit, within_s=within_s)
            case BeginTransaction():
                reply(_find(self._transactional, command.writer, "transactional producer").begin())
            case EndTransaction(writer=writer, commit=commit, within_s=within_s):
                ending = _find(self._transactional, writer, "transactional producer")
                return lambda: ending.end(commit=commit, within_s=within_s)
            case _:
                raise UsageError(f"The agent cannot carry out {type(command).__name__}.")
        return None

    def close(self) -> None:
        """Close all producers and consumers; messages without an outcome end as `info`."""
        for program in self._programs.values():
            program.close(_PROGRAM_END_S)
        for stream in self._streams.values():
            with contextlib.suppress(InvalidRunError):
                stream.stop(0.0)
        for writes in self._pinned.values():
            writes.stop(0.0)
        for consumer in self._consumers.values():
            with contextlib.suppress(InvalidRunError):
                consumer.stop(2.0)
        for scripted in self._scripted.values():
            scripted.close()
        for transactional in self._transactional.values():
            transactional.close()
        for raw in self._raw_transactional.values():
            raw.close()
        for connections in self._connections.values():
            connections.close()

    def _prepare(self, command: Prepare) -> Work:
        spec, topic, within_s = command.producer, command.topic, command.within_s
        if spec.via == "raw":
            return self._raw_producer(spec).prepare(within_s, command.connection)
        if spec.via in PROGRAMS:
            return self._prepare_inside(spec, topic, within_s)
        if spec.transactional_id:
            transactional = self._transactional_producer(spec)
            return lambda: transactional.initialise(within_s)
        producer = self._scripted_producer(spec)
        return lambda: producer.prepare(topic, within_s)

    def _send(self, command: Send, reply: Reply) -> Work | None:
        spec, topic, partition, label = command.producer, command.topic, command.partition, command.label
        if (command.sequence is not None) != spec.names_sequences:
            raise UsageError(
                f"{spec.name} sends a message with the sequence number {command.sequence}; give one "
                "with each message of a raw idempotent producer, and none with others."
            )
        if spec.via in PROGRAMS:
            inside = self._inside(spec)
            sending = inside.send(topic, partition, label)
            return lambda: inside.wait(sending)
        if spec.transactional_id:
            self._transactional_producer(spec).send(topic, partition, label, reply)
            return None
        if spec.via == "librdkafka":
            self._scripted_producer(spec).send(topic, partition, label, reply)
            return None
        return self._raw_producer(spec).send(command)

    def _raw_producer(self, spec: ProducerSpec) -> RawProducer:
        from workloads.agent.producers.raw import RawProducer

        self._recorder.register(spec)
        if spec.writer not in self._raw:
            self._raw[spec.writer] = RawProducer(self._recorder, spec, self._connections_of(spec))
        return self._raw[spec.writer]

    def _connections_of(self, spec: ProducerSpec) -> Connections:
        from workloads.agent.producers.connections import Connections

        return self._connections.setdefault(spec.writer, Connections(spec))

    def _initialise(self, command: InitTransactions) -> Work:
        spec, within_s, coordinator = command.producer, command.within_s, command.coordinator
        if spec.via in PROGRAMS:
            inside = self._inside(spec)
            return lambda: inside.try_initialise_transactions(within_s)
        if spec.via != "raw":
            transactional = self._transactional_producer(spec)
            return lambda: transactional.try_initialise(within_s)
        from workloads.agent.producers.raw_transactional import RawTransactionalProducer

        self._recorder.register(spec)
        if spec.writer not in self._raw_transactional:
            self._raw_transactional[spec.writer] = RawTransactionalProducer(
                self._recorder, spec, self._connections_of(spec)
            )
        raw, name = self._raw_transactional[spec.writer], command.connection
        return self._connections[spec.writer].in_turn(
            name, lambda: raw.initialise(within_s, coordinator, name)
        )

    def _raw_request(self, command: AddPartition | SendPinned | HoldSend | HoldEnd | Deliver) -> Work:
        raw = _find(self._raw_transactional, command.writer, "initialised raw transactional producer")
        match command:
            case Deliver():
                return lambda: raw.deliver(command.number, command.within_s)
            case AddPartition():
                added = TopicPartition(command.topic, command.partition)
                return self._connections[command.writer].in_turn(
                    command.connection,
                    lambda: raw.add(added, command.coordinator, command.within_s, command.connection),
                )
            case HoldEnd():
                return lambda: raw.hold_end(commit=command.commit, coordinator=command.coordinator)
            case _:
                partition = TopicPartition(command.topic, command.partition)
                place = (partition, command.label, command.leader, command.coordinator, command.broker_id)
                if isinstance(command, HoldSend):
                    return lambda: raw.hold_send(*place)
                work = raw.send(*place, command.connection)
                return self._connections[command.writer].in_turn(command.connection, work)

    def _start_stream(self, command: StartStream) -> None:
        from workloads.agent.producers.stream import StreamProducer

        spec = command.producer
        if spec.via in PROGRAMS:
            from workloads.agent.programs.producers import ProgramStream

            self._streams[spec.writer] = ProgramStream(self._inside(spec), command.load)
            return
        self._streams[spec.writer] = StreamProducer(self._recorder, spec, command.load)

    def _start_pinned_writes(self, command: StartPinnedWrites) -> None:
        from workloads.agent.producers.raw import PinnedWriter

        self._pinned[command.producer.writer] = PinnedWriter(self._recorder, command)

    def _read(self, spec: ConsumerSpec, within_s: float) -> Work:
        from workloads.agent.consumers.assigned import BoundedConsumer
        from workloads.agent.consumers.pinned import read_pinned

        if spec.pinned:
            return lambda: read_pinned(self._journal, spec, within_s)
        consumer = BoundedConsumer(self._journal, spec)
        return lambda: consumer.read_to_end(within_s)

    def _group_offset(self, command: CommitOffset | FetchOffset) -> Work:
        from workloads.agent.consumers.group_offsets import commit, fetch

        if isinstance(command, CommitOffset):
            return lambda: commit(self._journal, command)
        return lambda: fetch(self._journal, command)

    def _start_consumer(self, spec: ConsumerSpec) -> None:
        from workloads.agent.consumers.assigned import AssignedConsumer
        from workloads.agent.consumers.group_member import GroupMember

        if spec.via in PROGRAMS:
            from workloads.agent.programs.consumers import ProgramConsumer

            program = self._program(spec.via)
            self._consumers[spec.reader] = ProgramConsumer(self._journal, spec, program)
        else:
            kind = GroupMember if spec.group else AssignedConsumer
            self._consumers[spec.reader] = kind(self._journal, spec)
        self._consumers[spec.reader].start()

    def _start_processor(self, command: StartProcessor) -> None:
        from workloads.agent.consumers.processor import Processor

        self._recorder.register(command.producer)
        self._consumers[command.consumer.reader] = Processor(self._recorder, command)
        self._consumers[command.consumer.reader].start()

    def _send_offsets(self, command: SendOffsets) -> Work:
        if command.writer in self._raw_transactional:
            raw = self._raw_transactional[command.writer]
            return self._connections[command.writer].in_turn(
                command.connection, lambda: raw.send_offsets(command)
            )
        if command.writer in self._in_programs:
            inside = self._in_programs[command.writer]
            return lambda: inside.send_offsets(command)
        import confluent_kafka

        from workloads.agent.consumers.group_member import GroupMember

        producer = _find(self._transactional, command.writer, "transactional producer")
        member = _find(self._consumers, command.reader, "consumer")
        if not isinstance(member, GroupMember):
            raise UsageError(
                f"Consumer {command.reader} is not a member of a group, so it has no offsets to commit."
            )
        part = confluent_kafka.TopicPartition(command.topic, command.partition, command.offset)
        return lambda: producer.send_offsets(
            [part], command.group, command.reader, member.metadata(), command.within_s
        )

    def _use(self, program: ClientProgram) -> None:
        from workloads.agent.programs.process import RunningProgram

        if program.via not in self._programs:
            errors = self._errors.with_suffix(f".{program.via}.err")
            self._programs[program.via] = RunningProgram(program, self._host, errors)

    def _program(self, via: str) -> RunningProgram:
        try:
            return self._programs[via]
        except KeyError:
            raise UsageError(f"This client has no client program {via!r}; start one first.") from None

    def _inside(self, spec: ProducerSpec) -> ProgramProducer:
        from workloads.agent.programs.producers import ProgramProducer

        self._recorder.register(spec)
        if spec.writer not in self._in_programs:
            self._in_programs[spec.writer] = ProgramProducer(self._recorder, spec, self._program(spec.via))
        return self._in_programs[spec.writer]

    def _prepare_inside(self, spec: ProducerSpec, topic: str, within_s: float) -> Work:
        inside = self._inside(spec)
        if spec.transactional_id:
            return lambda: inside.initialise_transactions(within_s)
        return lambda: inside.connect(topic, within_s)

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
