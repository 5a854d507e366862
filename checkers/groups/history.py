"""The history of one group and topic partition: its commits, the answers about them, its coordinators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from checkers.causes import PartitionEvent, or_minus_one, partition_events
from checkers.evidence import Evidence, Row
from harness.kafka.model import OFFSETS_LOG, TopicPartition

COMMITS, ANSWERS = ("committed", "commit_failed"), ("fetched", "assigned")


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit; ``acked_ns`` is -1 if it was not acknowledged, and then it may take effect at any time."""

    asked_ns: int
    acked_ns: int
    offset: int
    broker: int
    reader: int
    transactional: bool
    """A transaction committed it: the coordinator knows it once the marker is written."""


@dataclass(frozen=True, kw_only=True)
class FetchedOffset:
    """The committed offset that a coordinator named to a client; ``offset`` is -1 if none is committed."""

    asked_ns: int
    ns: int
    offset: int
    broker: int
    reader: int
    stable: bool
    """It waited for transactions that were about to end, like members that are assigned a partition."""


@dataclass(frozen=True, kw_only=True)
class Ownership:
    """A member owned a partition from its assignment until it gave the partition up or learnt of its loss."""

    reader: int
    from_ns: int
    until_ns: int
    """The last sign of the member, if the history does not say when it gave the partition up."""
    ended: str
    """`revoked`, `lost`, or empty."""


class GroupHistory:
    """The rows of `groups` about one group and partition, and the elections of the group's coordinator."""

    def __init__(
        self, evidence: Evidence, group: str, topic: str, partition: int, rows: Sequence[Row]
    ) -> None:
        """``rows`` are those of `groups` about them; see `group_histories`."""
        self.evidence = evidence
        self.group, self.topic, self.partition = group, topic, partition
        self.rows = sorted(rows, key=lambda row: int(row["ns"]))

    @cached_property
    def commits(self) -> Sequence[Commit]:
        """All commits, acknowledged or not, by the time of their outcome."""
        return [
            Commit(
                asked_ns=or_minus_one(row["asked_ns"]),
                acked_ns=row["ns"] if row["event"] == "committed" else -1,
                offset=row["offset"],
                broker=or_minus_one(row["broker"]),
                reader=row["reader"],
                transactional=row["txn"] is not None,
            )
            for row in self.rows
            if row["event"] in COMMITS and row["offset"] is not None
        ]

    @cached_property
    def answers(self) -> Sequence[FetchedOffset]:
        """Answers without an error whose time of request is recorded."""
        return [
            FetchedOffset(
                asked_ns=row["asked_ns"],
                ns=row["ns"],
                offset=or_minus_one(row["offset"]),
                broker=or_minus_one(row["broker"]),
                reader=row["reader"],
                stable=row["event"] == "assigned",
            )
            for row in self.rows
            if row["event"] in ANSWERS and row["asked_ns"] is not None and not row["error"]
        ]

    @cached_property
    def ownerships(self) -> Sequence[Ownership]:
        """Which member owned the partition when, sorted by assignment."""
        owned = []
        for number, row in enumerate(self.rows):
            if row["event"] != "assigned":
                continue
            later_rows = [later for later in self.rows[number + 1 :] if later["reader"] == row["reader"]]
            end = next(
                (later for later in later_rows if later["event"] in ("revoked", "lost", "assigned")), None
            )
            ended = end["event"] if end is not None and end["event"] != "assigned" else ""
            signs = later_rows if end is None else later_rows[: later_rows.index(end) + bool(ended)]
            owned.append(
                Ownership(
                    reader=row["reader"],
                    from_ns=row["ns"],
                    until_ns=signs[-1]["ns"] if signs else row["ns"],
                    ended=ended,
                )
            )
        return owned

    @cached_property
    def offsets_log(self) -> TopicPartition:
        """The partition of the offsets topic that holds the group's commits."""
        return offsets_log(self.evidence, self.group)

    @cached_property
    def coordinators(self) -> Sequence[PartitionEvent]:
        """The elections of the leader of `offsets_log`."""
        return partition_events(self.evidence, *self.offsets_log)[1]


def group_histories(evidence: Evidence) -> dict[tuple[str, str, int], GroupHistory]:
    """The history of each group and topic partition that `groups` names."""
    rows_by_place: dict[tuple[str, str, int], list[Row]] = {}
    for row in evidence.rows("groups"):
        if row["topic"] is not None and row["partition"] is not None:
            rows_by_place.setdefault((row["group"], row["topic"], row["partition"]), []).append(row)
    return {place: GroupHistory(evidence, *place, rows_by_place[place]) for place in sorted(rows_by_place)}


def offsets_log(evidence: Evidence, group: str) -> TopicPartition:
    """The partition of the offsets topic that holds a group's commits, by the partitions that views name."""
    count = 1 + max(evidence.partitions_of(OFFSETS_LOG), default=0)
    return TopicPartition(OFFSETS_LOG, offsets_partition(group, count))


def offsets_partition(group: str, count: int) -> int:
    """The partition of the offsets topic that holds a group's commits."""
    code = 0
    units = group.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF) % count


def named_offset(offset: int) -> str:
    """An offset in words; `none` for -1."""
    return str(offset) if offset >= 0 else "none"


def by_broker(broker: int) -> str:
    """` by broker1`; empty for -1."""
    return f" by broker{broker}" if broker >= 0 else ""
