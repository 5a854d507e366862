"""A consumer's progress in its partitions, and the journal of the records that it received."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.clock import now_ns
from harness.history.identity import named
from harness.history.journal import Journal
from harness.history.read_journal import ReadJournal, ReceivedRecord
from harness.kafka.model import TopicPartition
from workloads.protocol.results import PartitionRead, ReadResult
from workloads.protocol.spec import ConsumerSpec

MOST_ERRORS = 100
"""Distinct errors that a consumer remembers."""
_UNNAMED: tuple[None, None] = (None, None)


@dataclass
class PartitionProgress:
    """One partition; ``end`` is the offset to reach, None if the consumer reads until it is stopped."""

    start: int | None = None
    end: int | None = None
    position: int | None = None
    count: int = 0

    @property
    def complete(self) -> bool:
        """Whether the end was reached. Transaction markers move the position, too, but are not received."""
        return self.end is not None and self.position is not None and self.position >= self.end


class ReadProgress:
    """All partitions of one consumer, its errors, and the number of its polls."""

    def __init__(self, spec: ConsumerSpec, journal: Journal) -> None:
        """Assigned partitions are present at once; those of a group member appear with their first record.

        Records go into a journal beside ``journal``.
        """
        self.journal = ReadJournal(
            journal.path,
            spec.reader,
            group=spec.group or None,
            isolation=spec.isolation_level,
            topics=[partition.topic for partition in spec.partitions],
        )
        self.partitions: dict[TopicPartition, PartitionProgress] = {}
        if not spec.group:
            self.partitions = {partition: PartitionProgress() for partition in spec.partitions}
        self.poll = 0
        self._errors: dict[tuple[int, str], None] = {}

    def received(
        self,
        partition: TopicPartition,
        offset: int,
        epoch: int | None,
        value: bytes | None,
        ns: int | None = None,
    ) -> ReceivedRecord:
        """Count one record that was received at ``ns`` (None: now); returns it for the `journal`."""
        progress = self._of(partition, offset)
        progress.count += 1
        progress.position = offset + 1
        writer, seq = named(value) or _UNNAMED
        return ReceivedRecord(
            topic=partition.topic,
            partition=partition.partition,
            ns=now_ns() if ns is None else ns,
            offset=offset,
            epoch=epoch if epoch is not None and epoch >= 0 else None,
            writer=writer,
            seq=seq,
            poll=self.poll,
        )

    def received_all(
        self, records: Iterable[tuple[str, int, int, int | None, bytes | None]], ns: int
    ) -> None:
        """Count all records of a poll, and append them to the `journal`.

        They are topic, partition, offset, leader epoch and value. Final readers receive millions.
        """
        rows, row, poll = [], self.journal.row, self.poll
        place, progress = None, PartitionProgress()
        for topic, partition, offset, epoch, value in records:
            if (topic, partition) != place:
                place = (topic, partition)
                progress = self._of(TopicPartition(topic, partition), offset)
            progress.count += 1
            progress.position = offset + 1
            writer, seq = named(value) or _UNNAMED
            rows.append(row(ns, offset, seq, None, topic, partition, epoch, writer, poll, None))
        self.journal.write(rows)

    def _of(self, partition: TopicPartition, offset: int) -> PartitionProgress:
        """The progress in a partition of which the record at ``offset`` was received."""
        progress = self.partitions.get(partition)
        if progress is None:
            progress = self.partitions[partition] = PartitionProgress()
        if progress.start is None:
            progress.start = offset
        return progress

    def note(self, code: int, text: str) -> None:
        """Remember an error; equal ones count once, and those after the first `MOST_ERRORS` not at all."""
        if len(self._errors) < MOST_ERRORS:
            self._errors[(code, text)] = None

    def result(self) -> ReadResult:
        """The progress so far."""
        parts = tuple(
            PartitionRead(
                partition=partition,
                start=progress.start,
                end=progress.end,
                position=progress.position,
                count=progress.count,
                complete=progress.complete,
            )
            for partition, progress in sorted(self.partitions.copy().items())
        )
        return ReadResult(
            partitions=parts, count=sum(part.count for part in parts), errors=tuple(self._errors)
        )
