"""One topic partition's final logs: what each replica holds, and which of them is the reference.

The *reference* is the log by which fates are decided: the leader's if it is known, else that of the most
advanced replica.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from checkers.partition.messages import Flags, Homes, Ints, KeyIndex
from checkers.partition.removals import Removals
from harness.errors import BadDataError


@dataclass(frozen=True, kw_only=True)
class CopyArrays:
    """Columns of `copies` of one replica; -1 stands for null."""

    offset: Ints
    epoch: Ints
    writer: Ints
    seq: Ints
    intact: Flags
    at_home: Flags
    """The message names this partition as its home, or names no home."""
    control: Flags
    batch_crc: Ints
    """CRC of the batch, if the record names no message and nobody recorded the producers; else -1."""

    def take(self, rows: Ints | slice) -> CopyArrays:
        """Some of them."""
        return CopyArrays(**{name: values[rows] for name, values in vars(self).items()})


def together(parts: list[CopyArrays]) -> CopyArrays:
    """Some copies of one replica as one. Empties ``parts``, so that no more than a column is in memory twice.

    Flags that are all equal need no memory.
    """
    columns = {name: [vars(part)[name] for part in parts] for name in vars(parts[0])}
    parts.clear()
    return CopyArrays(
        **{
            name: np.broadcast_to(values[0][0], sum(map(len, values)))
            if values[0].dtype.itemsize == 1 and all((part == values[0][0]).all() for part in values)
            else np.concatenate(values)
            for name, values in ((name, columns.pop(name)) for name in list(columns))
        }
    )


@dataclass(frozen=True, kw_only=True)
class Replica:
    """What is known about one replica at the end (its row in `replicas`); -1 stands for null."""

    broker: int
    complete: bool = True
    log_start: int = -1
    leo: int = -1
    leader: bool = False
    in_sync: bool | None = None
    compacted: bool = False
    read_ns: int = -1
    """When its log was read."""
    size_bytes: int = -1
    """Size of its log."""
    watched_from: int = -1
    """Of a topic that was only watched, the offset from which on batches were read."""


@dataclass(frozen=True, kw_only=True)
class PartitionReplicas:
    """One topic partition: its replicas, the reference among them, and whether absence proves anything."""

    topic: str
    number: int
    replicas: Mapping[int, Replica] = field(default_factory=dict)
    reference: int = -1
    conclusive: bool = True
    compacted: bool = False
    spans: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """First and last offset of each replica that holds records, in the whole partition."""
    removals: Removals = field(default_factory=Removals)
    producers_recorded: bool = True
    """If not, nobody knows which records were sent."""

    @property
    def watched(self) -> bool:
        """Whether its records are others', so that nobody knows who sent them; a batch counts as a record."""
        return any(replica.watched_from >= 0 for replica in self.replicas.values())

    @property
    def name(self) -> str:
        """`topic/partition`, as messages name their home."""
        return f"{self.topic}/{self.number}"

    @property
    def log_start(self) -> int:
        """Where the reference log starts; -1 if not known."""
        replica = self.replicas.get(self.reference)
        return replica.log_start if replica is not None else -1

    @property
    def log_end(self) -> int:
        """Where the reference log ends, or where the final read of it did."""
        replica = self.replicas.get(self.reference)
        if replica is not None and replica.complete and replica.leo >= 0:
            return replica.leo
        return self.spans[self.reference][1] + 1 if self.reference in self.spans else 0

    def in_sync(self, broker: int) -> bool:
        """Whether the replica counts as in sync. A replica of which nothing is known does."""
        replica = self.replicas.get(broker)
        return replica is None or replica.in_sync is not False

    @property
    def comparable(self) -> bool:
        """Whether in-sync replicas should equal the reference, because it is in sync itself."""
        replica = self.replicas.get(self.reference)
        return self.reference >= 0 and (
            self.in_sync(self.reference) or (replica is not None and replica.leader)
        )

    @property
    def read_to_its_end(self) -> bool:
        """Whether the final read of the reference reached its end."""
        replica = self.replicas.get(self.reference)
        return replica is None or replica.complete

    def may_lack(self, offsets: Ints) -> Flags:
        """Whether the reference need not hold the record that another replica holds at each offset."""
        lacking: Flags = (offsets < self.log_start) | (offsets < self._compacted_below)
        return lacking

    def removal_reasons(self, offsets: Ints, occupied: Flags, sent_ns: Ints, writer: Ints) -> Ints:
        """Why each message that the reference lacks may have been removed (`Removals.reasons`)."""
        return self.removals.reasons(
            offsets,
            occupied,
            sent_ns,
            writer,
            log_start=self.log_start,
            compacted_below=self._compacted_below,
        )

    @property
    def _compacted_below(self) -> int:
        """Compaction never takes the log's end; -1 for a log that is not compacted."""
        return self.log_end if self.compacted else -1


OWN, NOBODY, ELSEWHERE, UNRESOLVED = 0, 1, 2, 3
"""A record is a message of this partition, of nobody, of another partition, or not looked up yet.

Markers count as the partition's own.
"""


@dataclass(frozen=True, kw_only=True)
class Log:
    """One replica's final log, by rising offset."""

    broker: int
    offset: Ints
    epoch: Ints
    writer: Ints
    seq: Ints
    intact: Flags
    at_home: Flags
    control: Flags
    batch_crc: Ints
    row: Ints
    """The message in `sends`, damaged or not; -1 if nobody sent it to this partition."""
    origin: Ints

    def __len__(self) -> int:
        return len(self.offset)

    def at(self, offsets: Ints) -> Ints:
        """Position of each offset in this log, -1 where it holds none."""
        if not len(self.offset):
            return np.full(len(offsets), -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(self.offset, offsets), len(self.offset) - 1)
        return np.where(self.offset[place] == offsets, place, -1)


def epoch_starts(log: Log, offsets: Ints) -> tuple[Ints, Ints]:
    """The epoch of the record that a log holds at each offset, and the first offset of that epoch in the log.

    Both are -1 where the log holds no record, or where its epoch is not known.
    """
    place = log.at(offsets)
    if not len(log):
        return place, place
    epoch = np.where(place >= 0, log.epoch[place], -1)
    changes = np.append(0, np.flatnonzero(np.diff(log.epoch)) + 1)
    epochs, first = np.unique(log.epoch[changes], return_index=True)
    start = log.offset[changes[first[np.searchsorted(epochs, np.maximum(epoch, epochs[0]))]]]
    return epoch, np.where(epoch >= 0, start, -1)


def empty_log(broker: int) -> Log:
    """A log without records."""
    numbers, flags = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
    return Log(
        broker=broker,
        offset=numbers,
        epoch=numbers,
        writer=numbers,
        seq=numbers,
        intact=flags,
        at_home=flags,
        control=flags,
        batch_crc=numbers,
        row=numbers,
        origin=numbers,
    )


def choose_reference(
    replicas: Mapping[int, Replica], ends: Mapping[int, tuple[int, int]], listed: bool
) -> tuple[int, bool]:
    """The reference broker (-1: none) and whether absence from the logs proves a loss.

    ``ends`` gives last epoch and last offset of each replica that holds records; ``listed`` says that the
    history has a `replicas` table; a partition without rows in it was never read.
    """
    if listed and not replicas:
        return _most_advanced(ends), False
    leaders = [replica for replica in replicas.values() if replica.leader]
    if len(leaders) == 1 and leaders[0].complete:
        return leaders[0].broker, True
    whole = [replica for replica in replicas.values() if replica.complete]
    best = [r for r in whole if r.in_sync is not False] or whole
    if listed and best:
        among = {r.broker: ends.get(r.broker, (-1, r.leo - 1)) for r in best}
    elif listed:
        among = {broker: (-1, -1) for broker in replicas} | dict(ends)
    else:
        among = dict(ends)
    conclusive = not leaders and bool(whole or not listed) and len(whole) == len(replicas)
    return _most_advanced(among), conclusive


def _most_advanced(ends: Mapping[int, tuple[int, int]]) -> int:
    return max(ends, key=lambda broker: (*ends[broker], -broker)) if ends else -1


def logs_of(
    partition: PartitionReplicas, index: KeyIndex, copies: Mapping[int, CopyArrays], homes: Homes | None
) -> list[Log]:
    """The log of each replica, by broker. Raises BadDataError for two records at one offset.

    ``copies`` are by broker. ``homes`` tells where messages that are not in ``index`` were sent; without it
    this is left open.
    """
    logs = []
    for number, part in sorted(copies.items()):
        steps = np.diff(part.offset)
        if len(steps) and int(steps.min()) < 0:
            part = part.take(np.argsort(part.offset, kind="stable"))
            steps = np.diff(part.offset)
        if len(steps) and not np.all(steps):
            twice = int(part.offset[np.flatnonzero(steps == 0)[0]])
            raise BadDataError(
                f"copies of {partition.name} hold two records at offset {twice} of broker {number}; "
                f"a replica has one record per offset."
            )
        row = index.find(part.writer, part.seq)
        # A record that names another home is no message of this partition, unless damage may have changed the
        # name.
        own = ~part.control & (part.at_home | ~part.intact)
        if not own.all():
            row = np.where(own, row, np.int32(-1))
        origin: Ints = np.broadcast_to(np.int8(OWN), len(row))
        strange = np.flatnonzero((row < 0) & ~part.control)
        if len(strange):
            origin = origin.copy()
            codes = origins(partition, homes, part.writer[strange], part.seq[strange])
            astray = part.intact[strange] & ~part.at_home[strange]
            origin[strange] = np.where(astray & (codes == OWN), NOBODY, codes)
        logs.append(
            Log(
                broker=int(number),
                offset=part.offset,
                epoch=part.epoch,
                writer=part.writer,
                seq=part.seq,
                intact=part.intact,
                at_home=part.at_home,
                control=part.control,
                batch_crc=part.batch_crc,
                row=row,
                origin=origin,
            )
        )
    return logs


def origins(partition: PartitionReplicas, homes: Homes | None, writer: Ints, seq: Ints) -> Ints:
    """The origin of records that name no message of this partition's `sends`."""
    named = (writer >= 0) & (seq >= 0)
    if homes is None:
        return np.where(named, UNRESOLVED, NOBODY)
    here, elsewhere = homes.find(partition.topic, partition.number, writer, seq)
    return np.where(named & here, OWN, np.where(named & elsewhere, ELSEWHERE, NOBODY))


def reference_of(partition: PartitionReplicas, logs: Sequence[Log]) -> Log:
    """The reference log among ``logs``; an empty one if it holds no records."""
    return next((log for log in logs if log.broker == partition.reference), empty_log(partition.reference))
