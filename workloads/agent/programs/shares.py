"""A consumer of a share group (KIP-932), which runs in a client program."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator

from harness.clock import now_ns
from harness.history.identity import decode
from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from workloads.agent.consumers.progress import MOST_ERRORS
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
from workloads.protocol.results import PartitionRead, ReadResult
from workloads.protocol.spec import ConsumerSpec


class ShareConsumer:
    """A share consumer: what it was handed, how it acknowledged that, and the answers go into `shares`."""

    def __init__(self, journal: Journal, spec: ConsumerSpec, program: RunningProgram) -> None:
        """Connects to nothing yet. Raises UnfitError if the program has no share consumers."""
        program.require(SHARES, f"the share consumer {spec.name}")
        self._journal = journal
        self._spec = spec
        self._topics = {part.topic for part in spec.partitions}
        self._counts: dict[TopicPartition, int] = {}
        self._errors: dict[tuple[int, str], None] = {}
        self._pending: defaultdict[tuple[TopicPartition, int], deque[tuple[str, int]]] = defaultdict(deque)
        """Acknowledgements without an answer, each with its time; a renewed record may have several."""
        self._poll = 0
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
        self._row(now_ns(), "started")

    def hold(self) -> None:
        """Keep the records of the next poll, and poll no more until `answer`."""
        self._member.ask("hold_records", 1.0)

    def answer(self, command: AnswerRecords) -> None:
        """Acknowledge the records that are held, and go on. Refusals by brokers go into the history."""
        self._member.ask("answer_records", command.within_s, answer=command.answer)

    def stop(self, within_s: float) -> ReadResult:
        """Stop reading; the member leaves its group, which releases what it has not acknowledged."""
        if self._member.close(within_s):
            self._row(now_ns(), "stopped")
        return self.progress()

    def progress(self) -> ReadResult:
        """The records that it was handed so far, repeated ones included. Raises InvalidRunError."""
        self._member.require_sound()
        parts = tuple(
            PartitionRead(partition=part, start=None, end=None, position=None, count=count, complete=False)
            for part, count in sorted(self._counts.copy().items())
        )
        return ReadResult(parts, sum(part.count for part in parts), tuple(self._errors))

    def _event(self, event: Event, ns: int) -> None:
        if isinstance(event, AcquiredEvent):
            self._acquired(event, ns)
        elif isinstance(event, AcknowledgedEvent):
            self._acknowledged(event, ns)
        elif isinstance(event, AnsweredEvent):
            self._answered(event, ns)
        elif isinstance(event, ProblemEvent) and len(self._errors) < MOST_ERRORS:
            self._errors[self._member.described(event)] = None

    def _acquired(self, event: AcquiredEvent, ns: int) -> None:
        self._poll += 1
        rows = []
        for topic, number, offset, count, value in event.records:
            part = self._required(topic, number)
            self._counts[part] = self._counts.get(part, 0) + 1
            identity = decode(value_bytes(value))
            rows.append(
                {
                    **self._columns(ns, "acquired"),
                    **part._asdict(),
                    "offset": offset,
                    "delivery_count": count,
                    "lock_ms": event.lock_ms,
                    "poll": self._poll,
                    "writer": identity.writer if identity else None,
                    "seq": identity.seq if identity else None,
                }
            )
        self._journal.write_many("shares", rows)

    def _acknowledged(self, event: AcknowledgedEvent, ns: int) -> None:
        rows = []
        for part, offset in self._named(event):
            self._pending[part, offset].append((event.answer, ns))
            row = {**part._asdict(), "offset": offset, "answer": event.answer}
            rows.append({**self._columns(ns, "acknowledged"), **row})
        self._journal.write_many("shares", rows)

    def _answered(self, event: AnsweredEvent, ns: int) -> None:
        error = 0 if event.error is None else error_code(event.error)
        rows = []
        for part, offset in self._named(event):
            if not self._pending[part, offset]:
                raise ValueError(
                    f"share consumer {self._spec.reader} has no acknowledgement of offset {offset} of {part} "
                    "that waits for an answer"
                )
            answer, asked_ns = self._pending[part, offset].popleft()
            row = {"offset": offset, "answer": answer, "asked_ns": asked_ns, "error": error}
            rows.append({**self._columns(ns, "answered"), **part._asdict(), **row})
        self._journal.write_many("shares", rows)

    def _named(self, event: AcknowledgedEvent | AnsweredEvent) -> Iterator[tuple[TopicPartition, int]]:
        for topic, number, offsets in event.partitions:
            part = self._required(topic, number)
            yield from ((part, offset) for offset in offsets)

    def _required(self, topic: str, partition: int) -> TopicPartition:
        """Raises ValueError for a topic that the program was not asked to read."""
        if topic not in self._topics:
            raise ValueError(f"share consumer {self._spec.reader} was not asked to read {quoted(topic)}")
        return TopicPartition(topic, partition)

    def _row(self, ns: int, event: str) -> None:
        self._journal.write("shares", **self._columns(ns, event))

    def _columns(self, ns: int, event: str) -> dict[str, object]:
        spec = self._spec
        return {"ns": ns, "group": spec.group, "reader": spec.reader, "member": spec.name, "event": event}
