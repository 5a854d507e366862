"""What committed readers get of a partition that an application of Kafka Streams reads or writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from checkers.evidence import Evidence
from checkers.partition.decisions import ABORTED, READABLE, decisions_of
from checkers.tables.arrays import copy_arrays, partition_of
from checkers.tables.source import Source, partitions, row_blocks
from checkers.tables.transactions import log_of, records_of
from harness.kafka.model import TopicPartition

_COLUMNS = ("broker", "offset", "epoch", "writer", "seq", "intact", "home", "control")

Message = tuple[int, int]
"""Writer and sequence number."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record that names a message, and that no marker aborted."""

    offset: int
    message: Message
    readable: bool
    """Readers of committed records get it; otherwise it is not decided, or not known."""


@dataclass(frozen=True, kw_only=True)
class FinalRecords:
    """The records of a partition's reference log."""

    records: tuple[Record, ...]
    whole: bool
    """The log was read to its end, and nothing was ever removed from it."""


def final_records(source: Source, evidence: Evidence, where: TopicPartition) -> FinalRecords:
    """The records of a partition that name messages."""
    copies = copy_arrays(row_blocks(source.files["copies"], "copies", _COLUMNS, where), str(where))
    partition = partition_of(source, evidence, where, copies)
    part = copies.get(partition.reference)
    read = partition.conclusive and partition.read_to_its_end
    if part is None:
        return FinalRecords(records=(), whole=read and partition.reference >= 0 and partition.log_end == 0)
    records = records_of(source, where, partition.reference)
    log = log_of(partition, evidence, records)
    state = decisions_of(log, records, np.arange(len(part.offset)), part.offset).state
    chosen = np.flatnonzero((state != ABORTED) & ~part.control & (part.writer >= 0) & (part.seq >= 0))
    return FinalRecords(
        records=tuple(
            Record(
                offset=int(part.offset[row]),
                message=(int(part.writer[row]), int(part.seq[row])),
                readable=bool(state[row] == READABLE),
            )
            for row in chosen.tolist()
        ),
        whole=read and np.array_equal(np.sort(part.offset), np.arange(partition.log_end)),
    )


@dataclass(frozen=True, kw_only=True)
class WrittenTopic:
    """How often readers of committed records get each message from a topic."""

    topic: str
    readable: Counter[Message]
    perhaps: Counter[Message]
    """Records more that they may get."""
    whole: bool
    places: tuple[TopicPartition, ...]


def written_topic(
    source: Source, evidence: Evidence, topic: str, partition: int | None = None
) -> WrittenTopic:
    """What a topic holds, or one partition of it."""
    if partition is None:
        named = {TopicPartition(row["topic"], row["partition"]) for row in evidence.rows("replicas")}
        places = sorted(where for where in named | set(partitions(source)) if where.topic == topic)
    else:
        places = [TopicPartition(topic, partition)]
    parts = [final_records(source, evidence, where) for where in places]
    records = [record for part in parts for record in part.records]
    return WrittenTopic(
        topic=topic,
        readable=_counted(record for record in records if record.readable),
        perhaps=_counted(record for record in records if not record.readable),
        whole=bool(parts) and all(part.whole for part in parts),
        places=tuple(places),
    )


def _counted(records: Iterable[Record]) -> Counter[Message]:
    return Counter(record.message for record in records)
