"""A consumer of a share group (KIP-932), which runs in a client program."""

from __future__ import annotations

from collections.abc import Iterator

from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from workloads.agent.consumers.share_history import SharedOffset, ShareHistory
from workloads.agent.programs.exceptions import error_code
from workloads.agent.programs.member import Member
from workloads.agent.programs.process import RunningProgram
from workloads.protocol.commands import AnswerRecords
from workloads.protocol.java_names import share_consumer_properties
from workloads.protocol.lines import (
    SHARES,
    AcknowledgedEvent,
    AcquiredEvent,
    AnsweredEvent,
    Event,
    ProblemEvent,
    quoted,
    value_bytes,
)
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import ConsumerSpec


class ProgramShareConsumer:
    """A share consumer: what it was handed, how it acknowledged that, and the answers go into `shares`."""

    def __init__(self, journal: Journal, spec: ConsumerSpec, program: RunningProgram) -> None:
        """Connects to nothing yet. Raises UnfitError if the program has no share consumers."""
        program.require(SHARES, f"the share consumer {spec.name}")
        self._spec = spec
        self._topics = {part.topic for part in spec.partitions}
        self._history = ShareHistory(journal, spec)
        self._member = Member(program, spec, spec.librdkafka_config(), self._event)

    def start(self) -> None:
        """Join the group, and read until `stop`."""
        self._member.create(
            "create_share_consumer",
            f"share consumer {self._spec.name}",
            properties=dict(share_consumer_properties(self._spec)),
            subscribe=[*sorted(self._topics)],
            answers=list(self._spec.answers),
        )
        self._history.started()

    def hold(self) -> None:
        """Keep the records of the next poll, and poll no more until `answer`."""
        self._member.ask("hold_records", 1.0)

    def answer(self, command: AnswerRecords) -> None:
        """Acknowledge the records that are held, and go on. Refusals by brokers go into the history."""
        self._member.ask("answer_records", command.within_s, answer=command.answer)

    def stop(self, within_s: float) -> ReadResult:
        """Stop reading; the member leaves its group, which releases what it has not acknowledged."""
        if self._member.close(within_s):
            self._history.stopped()
        return self.progress()

    def progress(self) -> ReadResult:
        """The records that it was handed so far, repeated ones included. Raises InvalidRunError."""
        self._member.require_sound()
        return self._history.result()

    def _event(self, event: Event, ns: int) -> None:
        if isinstance(event, AcquiredEvent):
            records = [
                (self._required(topic, number), offset, count, value_bytes(value))
                for topic, number, offset, count, value in event.records
            ]
            self._history.acquired(records, ns, event.lock_ms)
        elif isinstance(event, AcknowledgedEvent):
            self._history.acknowledged(self._named(event), event.answer, ns)
        elif isinstance(event, AnsweredEvent):
            error = 0 if event.error is None else error_code(event.error)
            self._history.answered(self._named(event), error, ns)
        elif isinstance(event, ProblemEvent):
            self._history.note(*self._member.described(event))

    def _named(self, event: AcknowledgedEvent | AnsweredEvent) -> Iterator[SharedOffset]:
        for topic, number, offsets in event.partitions:
            part = self._required(topic, number)
            yield from ((part, offset) for offset in offsets)

    def _required(self, topic: str, partition: int) -> TopicPartition:
        """Raises ValueError for a topic that the program was not asked to read."""
        if topic not in self._topics:
            raise ValueError(f"share consumer {self._spec.reader} was not asked to read {quoted(topic)}")
        return TopicPartition(topic, partition)
