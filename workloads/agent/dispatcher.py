"""Carries out the agent's commands, and holds its producers and consumers."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import InvalidRunError, UsageError
from harness.history.journal import Journal
from workloads.agent.producers.producer import AgentProducer, Reply, Work
from workloads.agent.producers.recorder import Recorder
from workloads.protocol.commands import (
    AnswerRecords,
    ApplicationProgress,
    Command,
    CommitOffset,
    ConsumerProgress,
    DescribeProgram,
    DumpStore,
    FetchOffset,
    HoldRecords,
    Ping,
    ProducerCommand,
    Read,
    ShowConfiguration,
    StartApplication,
    StartConsumer,
    StartProcessor,
    StopApplication,
    StopConsumer,
    UseProgram,
)
from workloads.protocol.spec import PROGRAMS, ApplicationSpec, ClientProgram, ConsumerSpec, ProducerSpec

if TYPE_CHECKING:
    from workloads.agent.consumers.reading import LibrdkafkaConsumer
    from workloads.agent.consumers.share_member import LibrdkafkaShareConsumer
    from workloads.agent.programs.applications import ApplicationInstance
    from workloads.agent.programs.consumers import ProgramConsumer
    from workloads.agent.programs.process import RunningProgram
    from workloads.agent.programs.shares import ProgramShareConsumer

    Sharing = LibrdkafkaShareConsumer | ProgramShareConsumer

_PROGRAM_END_S = 3.0


class Dispatcher:
    """The state of one agent. Client libraries are imported by the commands that need them."""

    def __init__(self, journal: Journal, recorder: Recorder, host: str, errors: Path) -> None:
        """``errors`` is the file of the agent's stderr; programs have theirs beside it."""
        self._host = host
        self._errors = errors
        self._journal = journal
        self._recorder = recorder
        self._producers: dict[int, AgentProducer] = {}
        """By their numbers in the history, as the consumers."""
        self._consumers: dict[int, LibrdkafkaConsumer | ProgramConsumer | Sharing] = {}
        self._sharing: dict[int, Sharing] = {}
        """Those among them that belong to a share group."""
        self._applications: dict[int, ApplicationInstance] = {}
        self._programs: dict[str, RunningProgram] = {}
        """By their ``via``."""

    def dispatch(self, command: Command[object], reply: Reply) -> Work | None:
        """Begin a command. This runs on the agent's main thread, in the order of the commands.

        It either calls ``reply`` with the result, now or later, or returns work that may block and whose
        value is the result. Messages are thus numbered and recorded in the order in which the commands
        arrive.
        """
        match command:
            case ProducerCommand():
                return self._producer(command.producer).dispatch(command, reply)
            case Read(spec, within_s):
                return self._read(spec, within_s)
            case CommitOffset() | FetchOffset():
                return self._group_offset(command)
            case HoldRecords(reader):
                return self._share_consumer(reader).hold
            case AnswerRecords():
                return lambda: self._share_consumer(command.reader).answer(command)
            case StartApplication(instance):
                self._start_application(instance)
                reply(None)
            case ApplicationProgress(reader):
                reply(self._application(reader).progress())
            case DumpStore(reader, within_s):
                asked = self._application(reader)
                return lambda: asked.dump(within_s)
            case StopApplication(reader, within_s):
                stopping = self._application(reader)
                return lambda: stopping.stop(within_s)
            case ConsumerProgress(reader):
                reply(self._consumer(reader).progress())
            case StopConsumer(reader, within_s):
                consumer = self._consumer(reader)
                return lambda: consumer.stop(within_s)
            case ShowConfiguration(producer):
                return lambda: _configuration(producer)
            case DescribeProgram(via):
                return self._program(via).describe
            case Ping():
                reply(None)
            case UseProgram(program):
                self._use(program)
                reply(None)
            case StartConsumer(spec):
                self._start_consumer(spec)
                reply(None)
            case StartProcessor():
                self._start_processor(command)
                reply(None)
            case _:
                raise UsageError(f"The agent cannot carry out {type(command).__name__}.")
        return None

    def close(self) -> None:
        """Close all producers and consumers; messages without an outcome end as `info`."""
        for program in self._programs.values():
            program.close(_PROGRAM_END_S)
        for producer in self._producers.values():
            producer.close()
        for consumer in self._consumers.values():
            with contextlib.suppress(InvalidRunError):
                consumer.stop(2.0)

    def _producer(self, spec: ProducerSpec) -> AgentProducer:
        """The producer with this number. Raises UsageError if the number was used with other settings."""
        self._recorder.register(spec)
        if spec.writer not in self._producers:
            self._producers[spec.writer] = self._new_producer(spec)
        return self._producers[spec.writer]

    def _new_producer(self, spec: ProducerSpec) -> AgentProducer:
        if spec.via in PROGRAMS and spec.role == "stream":
            from workloads.agent.programs.streams import ProgramStream

            return ProgramStream(self._recorder, spec, self._program(spec.via))
        if spec.via in PROGRAMS:
            from workloads.agent.programs.producers import ProgramProducer

            return ProgramProducer(self._recorder, spec, self._program(spec.via))
        if spec.via == "raw" and spec.transactional_id:
            from workloads.agent.producers.raw_transactional import RawTransactionalProducer

            return RawTransactionalProducer(self._recorder, spec)
        if spec.via == "raw":
            from workloads.agent.producers.raw import RawProducer

            return RawProducer(self._recorder, spec)
        if spec.role == "stream" and spec.transactional_id:
            from workloads.agent.producers.transactional_stream import TransactionalStream

            return TransactionalStream(self._recorder, spec)
        if spec.role == "stream":
            from workloads.agent.producers.stream import StreamProducer

            return StreamProducer(self._recorder, spec)
        if spec.transactional_id:
            from workloads.agent.producers.transactional import TransactionalProducer

            return TransactionalProducer(self._recorder, spec, self._group_metadata)
        from workloads.agent.producers.scripted import ScriptedProducer

        return ScriptedProducer(self._recorder, spec)

    def _group_metadata(self, reader: int) -> object:
        """librdkafka's metadata of a group, from its member ``reader``."""
        from workloads.agent.consumers.group_member import GroupMember

        member = self._consumer(reader)
        if not isinstance(member, GroupMember):
            raise UsageError(f"Consumer {reader} is not a member of a group, so it has no offsets to commit.")
        return member.metadata()

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

        if spec.answers:
            sharing = self._sharing_consumer(spec)
            self._consumers[spec.reader] = self._sharing[spec.reader] = sharing
        elif spec.via in PROGRAMS:
            from workloads.agent.programs.consumers import ProgramConsumer

            self._consumers[spec.reader] = ProgramConsumer(self._journal, spec, self._program(spec.via))
        else:
            kind = GroupMember if spec.group else AssignedConsumer
            self._consumers[spec.reader] = kind(self._journal, spec)
        self._consumers[spec.reader].start()

    def _sharing_consumer(self, spec: ConsumerSpec) -> Sharing:
        if spec.via in PROGRAMS:
            from workloads.agent.programs.shares import ProgramShareConsumer

            return ProgramShareConsumer(self._journal, spec, self._program(spec.via))
        from workloads.agent.consumers.share_member import LibrdkafkaShareConsumer

        return LibrdkafkaShareConsumer(self._journal, spec)

    def _start_processor(self, command: StartProcessor) -> None:
        from workloads.agent.consumers.processor import Processor

        self._recorder.register(command.producer)
        self._consumers[command.consumer.reader] = Processor(self._recorder, command)
        self._consumers[command.consumer.reader].start()

    def _start_application(self, spec: ApplicationSpec) -> None:
        from workloads.agent.programs.applications import ApplicationInstance

        self._applications[spec.reader] = ApplicationInstance(self._journal, spec, self._program(spec.via))
        self._applications[spec.reader].start()

    def _application(self, reader: int) -> ApplicationInstance:
        try:
            return self._applications[reader]
        except KeyError:
            raise UsageError(
                f"This client has no instance of an application with number {reader}; start it first."
            ) from None

    def _share_consumer(self, reader: int) -> Sharing:
        self._consumer(reader)
        try:
            return self._sharing[reader]
        except KeyError:
            raise UsageError(f"Consumer {reader} is in no share group, so it holds no records.") from None

    def _consumer(self, reader: int) -> LibrdkafkaConsumer | ProgramConsumer | Sharing:
        try:
            return self._consumers[reader]
        except KeyError:
            raise UsageError(f"This client has no consumer with number {reader}; start it first.") from None

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


def _configuration(spec: ProducerSpec) -> object:
    from workloads.agent.producers.configuration import stated_configuration

    return stated_configuration(spec)
