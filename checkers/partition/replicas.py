"""Finds records that are damaged or are no message of their partition, and compares replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from checkers.partition.logs import OWN, Log, PartitionReplicas, empty_log, reference_of
from checkers.partition.messages import Flags, Ints

FOREIGN, CORRUPT = 0, 1
CONTENT, EPOCH, MISSING, EXTRA, LENGTH, BEGIN, REFERENCE = 0, 1, 2, 3, 4, 5, 6
ENDS = (LENGTH, BEGIN, REFERENCE)
"""Differences in which one record stands for all records that a log lacks at that end."""
DIFFERENCE_KINDS = (
    "other_record",
    "other_epoch",
    "record_missing",
    "record_extra",
    "log_ends_earlier",
    "log_begins_later",
    "reference_ends_earlier",
)
"""The differences as facts of a finding, by their numbers."""


@dataclass(frozen=True, kw_only=True)
class ReplicaRecords:
    """Single records of replicas, one entry each."""

    kind: Ints
    broker: Ints
    offset: Ints
    epoch: Ints
    writer: Ints
    seq: Ints
    count: Ints
    """How many records it stands for."""

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, rows: Ints | Flags) -> ReplicaRecords:
        """Some of them."""
        return ReplicaRecords(**{name: values[rows] for name, values in vars(self).items()})


def all_records(parts: Sequence[ReplicaRecords]) -> ReplicaRecords:
    """Records of several parts as one."""
    nothing = np.empty(0, dtype=np.int64)
    names = ("kind", "broker", "offset", "epoch", "writer", "seq", "count")
    return ReplicaRecords(
        **{name: np.concatenate([nothing, *(getattr(p, name) for p in parts)]) for name in names}
    )


def _pick(kind: int, log: Log, rows: Ints, count: int = 1, broker: int | None = None) -> ReplicaRecords:
    return ReplicaRecords(
        kind=np.full(len(rows), kind, dtype=np.int64),
        broker=np.full(len(rows), log.broker if broker is None else broker, dtype=np.int64),
        offset=log.offset[rows],
        epoch=log.epoch[rows],
        writer=log.writer[rows],
        seq=log.seq[rows],
        count=np.full(len(rows), count, dtype=np.int64),
    )


def odd_records(partition: PartitionReplicas, logs: Sequence[Log]) -> ReplicaRecords:
    """Damaged records, and records that are no message of this partition; the reference's come first.

    If nobody recorded the producers, any record may be a message.
    """
    parts = []
    for log in sorted(logs, key=lambda log: log.broker != partition.reference):
        odd = (log.writer < 0) | (log.seq < 0)
        if log.origin.any():
            odd |= (log.row < 0) & (log.origin != OWN)
        odd &= partition.producers_recorded
        if not log.intact.all():
            odd |= ~log.intact
        rows = np.flatnonzero(odd & ~log.control)
        if len(rows):
            records = _pick(FOREIGN, log, rows)
            records.kind[~log.intact[rows]] = CORRUPT
            parts.append(records)
    return all_records(parts)


def differences(partition: PartitionReplicas, logs: Sequence[Log], reported: Ints) -> ReplicaRecords:
    """Where the in-sync replicas differ from the reference, except at the offsets ``reported``.

    If a log ends early or begins late, one record stands for all that it lacks at that end. Records are by
    broker; those that stand for the end of a log come last.
    """
    if not partition.comparable or (partition.watched and partition.compacted):
        return all_records([])  # compaction rewrites batches, on each replica by itself
    reference = reference_of(partition, logs)
    by_broker = {log.broker: log for log in logs}
    parts: list[ReplicaRecords] = []
    for broker in sorted({*partition.spans, *partition.replicas} - {partition.reference}):
        replica = partition.replicas.get(broker)
        if not partition.in_sync(broker):
            continue
        if broker in partition.spans:
            parts += _against(partition, reference, by_broker.get(broker) or empty_log(broker), reported)
        elif replica is not None and replica.complete:
            parts += _lacking(partition, reference, broker, np.arange(len(reference)), reported)
    records = all_records(parts)
    beyond = np.flatnonzero(records.kind == REFERENCE)
    if len(beyond):  # where the reference ends is one offset, whatever each follower has behind it
        first = beyond[np.argmin(records.offset[beyond])]
        for values in (records.offset, records.epoch, records.writer, records.seq):
            values[beyond] = values[first]
    end = np.where(np.isin(records.kind, ENDS), records.kind, -1)
    return records.take(np.lexsort((end, records.broker)))


def _against(partition: PartitionReplicas, reference: Log, log: Log, reported: Ints) -> list[ReplicaRecords]:
    if len(log) == len(reference) and np.array_equal(log.offset, reference.offset):
        other = (log.writer != reference.writer) | (log.seq != reference.seq)
        other |= log.control != reference.control
        other |= _other_batch(log.batch_crc, reference.batch_crc)
        epochs = log.epoch != reference.epoch
        if epochs.any():
            epochs &= ~other & (log.epoch >= 0) & (reference.epoch >= 0)
        content, renewed = np.flatnonzero(other), np.flatnonzero(epochs)
        parts: list[ReplicaRecords] = []
    else:
        place = reference.at(log.offset)
        common, theirs = np.flatnonzero(place >= 0), place[place >= 0]
        other = (log.writer[common] != reference.writer[theirs]) | (log.seq[common] != reference.seq[theirs])
        other |= log.control[common] != reference.control[theirs]
        other |= _other_batch(log.batch_crc[common], reference.batch_crc[theirs])
        epochs = log.epoch[common] != reference.epoch[theirs]
        epochs &= ~other & (log.epoch[common] >= 0) & (reference.epoch[theirs] >= 0)
        content, renewed = common[other], common[epochs]
        parts = _lacking(
            partition, reference, log.broker, np.flatnonzero(log.at(reference.offset) < 0), reported
        )
        parts += _surplus(partition, log, np.flatnonzero(place < 0), reported)
    parts += [_pick(CONTENT, log, content), _pick(EPOCH, log, renewed)]
    return [_unreported(part, reported) for part in parts if len(part)]


def _other_batch(crc: Ints, other: Ints) -> Flags:
    """Whether records that name no message are of different batches, which replicas copy byte by byte."""
    differs: Flags = (crc != other) & (crc >= 0) & (other >= 0)
    return differs


def _unreported(part: ReplicaRecords, reported: Ints) -> ReplicaRecords:
    return part.take(~np.isin(part.offset, reported)) if len(reported) else part


def _lacking(
    partition: PartitionReplicas, reference: Log, broker: int, rows: Ints, reported: Ints
) -> list[ReplicaRecords]:
    """What a replica does not have of the reference log (its ``rows``)."""
    replica = partition.replicas.get(broker)
    if len(reported):
        rows = rows[~np.isin(reference.offset[rows], reported)]
    if replica is not None:
        rows = rows[reference.offset[rows] >= replica.log_start]
    offsets = reference.offset[rows]
    begin, end = partition.spans.get(broker, (-1, -1))
    parts = []
    tail = rows[offsets > end]
    if partition.compacted and replica is not None and replica.leo >= 0:
        tail = tail[reference.offset[tail] >= replica.leo]
    if len(tail) and (replica is None or replica.complete):
        parts.append(_pick(LENGTH, reference, tail[:1], len(tail), broker))
    if partition.compacted:
        return parts
    head, middle = rows[offsets < begin], rows[(offsets >= begin) & (offsets <= end)]
    if len(head):
        parts.append(_pick(BEGIN, reference, head[:1], len(head), broker))
    if len(middle):
        parts.append(_pick(MISSING, reference, middle, 1, broker))
    return parts


def _surplus(partition: PartitionReplicas, log: Log, rows: Ints, reported: Ints) -> list[ReplicaRecords]:
    """A follower's records that the reference lacks, except those that retention or compaction explain."""
    if len(reported):
        rows = rows[~np.isin(log.offset[rows], reported)]
    rows = rows[~partition.may_lack(log.offset[rows])]
    end = partition.spans.get(partition.reference, (-1, -1))[1]
    beyond = rows[log.offset[rows] > end]
    parts = [_pick(EXTRA, log, rows[log.offset[rows] <= end])]
    if len(beyond) and partition.read_to_its_end:
        parts.append(_pick(REFERENCE, log, beyond[:1], len(beyond)))
    return parts
