"""What the truth reads and writes: a history as lists of rows, and the logs of its topic partitions.

Everything here follows `docs/history.md`: columns are optional, null means "not known", and an absent table
says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Row = Mapping[str, Any]
History = Mapping[str, Sequence[Row]]
"""Table name → rows; a table that is absent has no key."""

TopicPartition = tuple[str, int]
MessageId = tuple[int, int]
"""A message is `writer` and `seq`."""


class Finding(NamedTuple):
    """One anomaly; ``None`` in a field of an expected finding means that the document does not fix it."""

    name: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    writer: int | None = None
    seq: int | None = None


def message_id(row: Row) -> MessageId | None:
    """The message that a record or a delivery names; ``None`` unless it names both writer and seq."""
    writer, seq = row.get("writer"), row.get("seq")
    return None if writer is None or seq is None else (writer, seq)


def place(row: Row) -> TopicPartition:
    """Topic and partition of a row."""
    return row["topic"], row["partition"]


@dataclass(eq=False)
class Log:
    """One replica's own log at the end, as far as the final read got."""

    broker: int
    records: dict[int, Row] = field(default_factory=dict)
    whole: bool = True
    """The final read reached the log's end."""
    start: int = 0
    leo: int = 0
    leader: bool = False
    in_sync: bool | None = None
    compacted: bool = False
    stable: int | None = None
    """The last stable offset."""
    read_ns: int | None = None
    size: int | None = None
    starts: tuple[tuple[int, int], ...] = ()
    """Log start offsets that its broker reported, each with the time of the report."""
    aborted: frozenset[tuple[int, int]] | None = None
    """Producer id and first offset of each aborted transaction that it names; ``None`` if not known."""

    @property
    def counts_as_in_sync(self) -> bool:
        """`A replica counts as in sync unless replicas says that it was not.`"""
        return self.in_sync is not False

    @property
    def last(self) -> int:
        """The offset after its last record, or its start."""
        return max(self.records, default=self.start - 1) + 1

    @property
    def end(self) -> int:
        """First offset that the final read did not reach, or at which nothing was ever written."""
        return max(self.last, self.leo) if self.whole else self.last

    def covers(self, offset: int) -> bool:
        """Whether the read would have shown a record at ``offset``."""
        return self.start <= offset < self.end

    @property
    def advance(self) -> tuple[int, int]:
        """`highest last epoch, then offset`: those of the last record."""
        last = max(self.records, default=-1)
        epoch = self.records[last].get("epoch") if last >= 0 else None
        return (-1 if epoch is None else epoch), last

    @property
    def content(self) -> tuple[object, ...]:
        """What distinguishes this log from another that is equally advanced."""
        return (
            self.start,
            self.compacted,
            self.in_sync,
            self.read_ns,
            self.size,
            self.starts,
            tuple(
                (
                    offset,
                    row.get("epoch"),
                    message_id(row),
                    row.get("intact") is False,
                    bool(row.get("control")),
                )
                for offset, row in sorted(self.records.items())
            ),
        )


@dataclass(eq=False)
class Partition:
    """All that a history says about one topic partition."""

    at: TopicPartition
    sends: dict[MessageId, Row] = field(default_factory=dict)
    logs: dict[int, Log] = field(default_factory=dict)
    reads: list[Row] = field(default_factory=list)

    def leader(self) -> Log | None:
        """The log of the replica that led at the end, if `replicas` names it."""
        return next((log for log in self.logs.values() if log.leader), None)

    def references(self) -> list[Log]:
        """The reference log, and any others that are equal to it by the document's rule.

        `The reference of a partition is its leader's replica if replicas says who led and the final read
        reached the end of that log. Otherwise it is the most advanced replica that was read to its end
        (highest last epoch, then highest last offset); replicas in sync come first.` If none was read to its
        end, the most advanced of all shows what there is.
        """
        leader = self.leader()
        if leader is not None and leader.whole:
            return [leader]
        whole = [log for log in self.logs.values() if log.whole]
        candidates = [log for log in whole if log.counts_as_in_sync] or whole or list(self.logs.values())
        best = max((log.advance for log in candidates), default=None)
        tied = [log for log in sorted(candidates, key=lambda log: log.broker) if log.advance == best]
        different: dict[tuple[object, ...], Log] = {}
        for log in tied:
            different.setdefault(log.content, log)
        return list(different.values())

    def read_to_its_end(self) -> bool:
        """`A partition was read to its end if its leader's log was; if replicas does not say who led, if the
        logs of all its replicas were.`
        """
        leader = self.leader()
        if leader is not None:
            return leader.whole
        return bool(self.logs) and all(log.whole for log in self.logs.values())


def partitions_of(history: History) -> dict[TopicPartition, Partition]:
    """Every topic partition that a history names, with its sends, logs and reads (in order of delivery)."""
    partitions: dict[TopicPartition, Partition] = {}

    def partition(row: Row) -> Partition:
        return partitions.setdefault(place(row), Partition(place(row)))

    for row in history["sends"]:
        partition(row).sends[row["writer"], row["seq"]] = row
    for row in history.get("replicas", ()):
        partition(row).logs[row["broker"]] = Log(
            broker=row["broker"],
            whole=row["complete"],
            start=row.get("log_start") or 0,
            leo=row.get("leo") or 0,
            leader=bool(row.get("leader")),
            in_sync=True if row.get("leader") else row.get("in_sync"),
            compacted="compact" in (row.get("cleanup") or ""),
            stable=row.get("last_stable_offset"),
            read_ns=row.get("ns"),
            size=row.get("size_bytes"),
            aborted=_aborted(row),
        )
    for row in history["copies"]:
        logs = partition(row).logs
        # `replicas tells a log that was read to its end from one that was not`: without a row nothing tells.
        unknown = Log(row["broker"], whole="replicas" not in history)
        logs.setdefault(row["broker"], unknown).records[row["offset"]] = row
    for row in history.get("log_events", ()):
        is_placed = None not in (row.get("topic"), row.get("partition"), row.get("offset"))
        if is_placed and row["kind"] in ("log_start", "records_deleted"):
            log = partition(row).logs.get(int(row["host"].removeprefix("broker")))
            if log is not None:
                log.starts += ((row["ns"], row["offset"]),)
    for row in in_order(history.get("reads", ())):
        partition(row).reads.append(row)
    return partitions


def _aborted(row: Row) -> frozenset[tuple[int, int]] | None:
    """The aborted transactions that a row of `replicas` names."""
    named = row.get("aborted")
    return None if named is None else frozenset((one["producer_id"], one["first_offset"]) for one in named)


def in_order(reads: Iterable[Row]) -> list[Row]:
    """Deliveries `in the order of delivery`: by time; rows of one time stay in the order of the table."""
    return sorted(reads, key=lambda row: row["ns"])
