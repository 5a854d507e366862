"""A consumer that runs in a client program."""

from __future__ import annotations

from harness.errors import InvalidRunError
from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from workloads.agent.consumers.progress import ReadProgress
from workloads.agent.producers.outcomes import stated_offset
from workloads.agent.programs.exceptions import error_code
from workloads.agent.programs.process import RunningProgram
from workloads.agent.programs.producers import described
from workloads.protocol.codec import Json
from workloads.protocol.java_names import consumer_properties
from workloads.protocol.lines import Event, GroupEvent, ProblemEvent, RecordsEvent, quoted, value_bytes
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import ConsumerSpec


class ProgramConsumer:
    """A member of a consumer group, or a consumer that reads assigned partitions from their start."""

    def __init__(self, journal: Journal, spec: ConsumerSpec, program: RunningProgram) -> None:
        """Connects to nothing yet. Raises UnfitError if the program has no such consumers."""
        program.require("groups" if spec.group else "assign", f"the consumer {spec.name}")
        self._journal = journal
        self._spec = spec
        self._program = program
        self._progress = ReadProgress(spec, journal)
        self._problem: InvalidRunError | None = None
        program.handle("consumer", spec.reader, self._event)
        program.at_end(self._broken)

    def start(self) -> None:
        """Join the group, or assign the partitions, and read until `stop`."""
        spec = self._spec
        source: dict[str, Json] = {"assign": [[part.topic, part.partition] for part in spec.partitions]}
        if spec.group:
            source = {"subscribe": [*sorted({part.topic for part in spec.partitions})]}
        created = self._program.submit(
            "create_consumer",
            consumer=spec.reader,
            properties=dict(consumer_properties(spec)),
            commit=spec.commit and bool(spec.group),
            **source,
        )

        def refused(answer: object) -> None:
            if created.exception() is None and (failure := created.result()) is not None:
                reason = described(failure, spec.librdkafka_config())
                self._broken(InvalidRunError(f"The client refuses the consumer {spec.name}: {reason}."))

        created.add_done_callback(refused)

    def stop(self, within_s: float) -> ReadResult:
        """Stop reading; a member leaves its group without another commit."""
        if self._problem is None:
            self._program.request("close_consumer", within_s, consumer=self._spec.reader)
        return self.progress()

    def progress(self) -> ReadResult:
        """What it has read so far. Raises InvalidRunError if the program has failed."""
        if self._problem is not None:
            raise self._problem
        return self._progress.result()

    def _broken(self, problem: InvalidRunError) -> None:
        self._problem = problem

    def _event(self, event: Event, ns: int) -> None:
        if isinstance(event, RecordsEvent):
            self._records(event, ns)
        elif isinstance(event, GroupEvent):
            self._group(event, ns)
        elif isinstance(event, ProblemEvent):
            self._progress.note(
                error_code(event.error), described(event.error, self._spec.librdkafka_config())
            )

    def _require_asked(self, topic: str, partition: int) -> None:
        """Raise ValueError for a partition that the program was not asked to read."""
        spec = self._spec
        assigned = TopicPartition(topic, partition) in spec.partitions
        subscribed = bool(spec.group) and any(topic == part.topic for part in spec.partitions)
        if not assigned and not subscribed:
            raise ValueError(
                f"consumer {spec.reader} was not asked to read partition {partition} of {quoted(topic)}"
            )

    def _records(self, event: RecordsEvent, ns: int) -> None:
        for topic, partition, *_ in event.records:
            self._require_asked(topic, partition)
        self._progress.poll += 1
        received = [
            self._progress.received(
                TopicPartition(topic, partition), offset=offset, epoch=epoch, value=value_bytes(value), ns=ns
            )
            for topic, partition, offset, epoch, value in event.records
        ]
        self._progress.journal.append(received)

    def _group(self, event: GroupEvent, ns: int) -> None:
        for topic, partition, _ in event.partitions:
            self._require_asked(topic, partition)
        member = {
            "ns": ns,
            "group": self._spec.group,
            "reader": self._spec.reader,
            "member": self._spec.name,
        }
        rows: list[dict[str, object]] = [
            {
                **member,
                "event": event.event,
                "topic": topic,
                "partition": partition,
                "offset": stated_offset(offset),
            }
            for topic, partition, offset in event.partitions
        ]
        if event.event == "assigned" and (event.generation is not None or event.member_id is not None):
            joined = {
                "event": "joined",
                "topic": None,
                "partition": None,
                "generation": event.generation,
                "member_id": event.member_id,
                **self._spec.joined_columns,
            }
            rows.insert(0, {**member, **joined})
        self._journal.write_many("groups", rows)
