"""A consumer that runs in a client program."""

from __future__ import annotations

from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from workloads.agent.consumers.progress import ReadProgress
from workloads.agent.producers.outcomes import stated_offset
from workloads.agent.programs.member import Member
from workloads.agent.programs.process import RunningProgram
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
        self._progress = ReadProgress(spec, journal)
        self._member = Member(program, spec, spec.librdkafka_config(), self._event)

    def start(self) -> None:
        """Join the group, or assign the partitions, and read until `stop`."""
        spec = self._spec
        source: dict[str, Json] = {"assign": [[part.topic, part.partition] for part in spec.partitions]}
        if spec.group:
            source = {"subscribe": [*sorted({part.topic for part in spec.partitions})]}
        self._member.create(
            "create_consumer",
            f"consumer {spec.name}",
            properties=dict(consumer_properties(spec)),
            commit=spec.commit and bool(spec.group),
            **source,
        )

    def stop(self, within_s: float) -> ReadResult:
        """Stop reading; a member leaves its group without another commit."""
        self._member.close(within_s)
        return self.progress()

    def progress(self) -> ReadResult:
        """What it has read so far. Raises InvalidRunError if the program has failed."""
        self._member.require_sound()
        return self._progress.result()

    def _event(self, event: Event, ns: int) -> None:
        if isinstance(event, RecordsEvent):
            self._records(event, ns)
        elif isinstance(event, GroupEvent):
            self._group(event, ns)
        elif isinstance(event, ProblemEvent):
            self._progress.note(*self._member.described(event))

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
        self._progress.received_all(
            (
                (topic, partition, offset, epoch, value_bytes(value))
                for topic, partition, offset, epoch, value in event.records
            ),
            ns,
        )

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
