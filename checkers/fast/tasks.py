"""What the fast plan asks of a worker: one frozen type for each kind of task.

A partition that fits is one `WholePartition`. A large one is cut three ways: by sequence number (`KeyRange`:
what became of the messages), by offset (`OffsetRange`: replicas against each other) and by time
(`ReadWindow`: the order of reads). What a range has to know of the others is part of its task: when merging
shows that it lacked something, it is judged again with it (`checkers.fast.plan`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from checkers.evidence import Evidence
from checkers.partition.deliveries import FOREVER, EdgeReads, Steps
from checkers.partition.logs import Partition
from checkers.partition.messages import Flags, Homes, Ints
from checkers.partition.replicas import Records, all_records
from checkers.tables.source import Source, TableFile, Window
from harness.kafka.model import TopicPartition


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all tasks have in common; pickled to the workers."""

    source: Source
    evidence: Evidence
    life: str | None
    """Folder for the parts of `life`; None: not wanted."""
    findings: str


@dataclass(frozen=True, kw_only=True)
class Range:
    """From ``low`` up to below ``high``; None: no bound at that end."""

    low: int | None = None
    high: int | None = None

    def of(self, values: Ints) -> Flags:
        """Which values lie inside."""
        inside = np.ones(len(values), dtype=bool)
        if self.low is not None:
            inside &= values >= self.low
        if self.high is not None:
            inside &= values < self.high
        return inside

    def window(self, column: str) -> Window:
        """Which row groups can hold it."""
        return Window(
            column,
            -FOREVER if self.low is None else self.low,
            FOREVER if self.high is None else self.high - 1,
        )


@dataclass(frozen=True, kw_only=True)
class Identities:
    """What messages of one partition are to know of all sends."""

    homes: Homes | None = None
    """Where messages were sent that the log names and that are not at hand; None: not looked up yet."""
    away: Ints = field(default_factory=lambda: np.empty((0, 2), np.int64))
    """Messages (writer, sequence number) of this partition that were found in another one."""
    taken: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """Offsets whose unreadable record belongs to a message of another range."""


@dataclass(frozen=True, kw_only=True)
class WholePartition:
    """All of a partition."""

    where: TopicPartition
    part: str
    identities: Identities = field(default_factory=Identities)


@dataclass(frozen=True, kw_only=True)
class KeyRange:
    """The messages of a large partition whose sequence numbers lie in a range: their fates and findings."""

    where: TopicPartition
    part: str
    partition: Partition
    seqs: Range
    identities: Identities = field(default_factory=Identities)
    later_low: Mapping[int, int] = field(default_factory=dict)
    """Lowest offset of each writer in ranges of higher sequence numbers (see `out_of_order`)."""


@dataclass(frozen=True, kw_only=True)
class OffsetRange:
    """The records of a large partition whose offsets lie in a range: damaged, foreign, or different."""

    where: TopicPartition
    part: str
    partition: Partition
    offsets: Range
    strays: Mapping[int, Ints] = field(default_factory=dict)
    """Offsets, by broker, of records that name a message which was not sent to this partition."""
    claimed: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """Offsets at which a finding of a message speaks for the record."""
    explained: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """Offsets at which a finding of a message explains that replicas differ."""
    homes: Homes | None = None
    ends: Records = field(default_factory=lambda: all_records([]))
    """Where replicas' logs begin late or end early: told by the range that holds the offset."""


@dataclass(frozen=True, kw_only=True)
class ReadWindow:
    """The reads of a large partition that fall into a window of time: their order."""

    where: TopicPartition
    partition: Partition
    times: Range


@dataclass(frozen=True, kw_only=True)
class WindowEdges:
    """The steps from one window of time into another."""

    where: TopicPartition
    partition: Partition
    edges: tuple[EdgeReads, ...]
    """The first and last reads of each window, in order of time."""


@dataclass(frozen=True, kw_only=True)
class IdentityLookup:
    """Where messages were sent, as far as row groups of one file of `sends` tell."""

    path: str
    groups: tuple[int, ...]
    wanted: Ints
    """Writer and sequence number of each message, one row each."""


@dataclass(frozen=True, kw_only=True)
class SharedWriters:
    """Writers that sent to several topic partitions: did any send one sequence number twice?"""

    files: tuple[TableFile, ...]
    writers: tuple[int, ...]
    seqs: Range


@dataclass(frozen=True, kw_only=True)
class PassedMessages:
    """Which messages of a range of sequence numbers the steps of readers passed over."""

    where: TopicPartition
    partition: Partition
    seqs: Range
    jumps: Steps


@dataclass(frozen=True, kw_only=True)
class MixedRows:
    """Row groups of a file that mixes topic partitions, to be sorted apart (`checkers.fast.regroup`)."""

    table: str
    path: str
    groups: tuple[int, ...]
    folder: str
    name: str


Task = (
    WholePartition
    | KeyRange
    | OffsetRange
    | ReadWindow
    | WindowEdges
    | PassedMessages
    | IdentityLookup
    | SharedWriters
    | MixedRows
)
