"""Messages of one topic partition: what was sent, what readers got, and which row of `sends` a message is.

A message is identified by its writer and its sequence number (`KeyIndex`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.errors import BadDataError

Ints = npt.NDArray[np.signedinteger]
"""Whole numbers of any width; -1 stands for null."""
Flags = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]
"""Strings; None stands for null."""

EMPTY: Ints = np.empty(0, dtype=np.int64)

FOREVER = 2**63 - 1
"""After every time, and beyond every offset, of a history."""

BLOCK_ROWS = 1 << 18
"""Rows that are read, computed and written at a time; only what a later step needs is kept of them all."""

OK, FAIL, INFO = 0, 1, 2
"""Codes of outcomes."""


@dataclass(frozen=True, kw_only=True)
class SendArrays:
    """Columns of `sends` that decide a fate; -1 stands for null."""

    writer: Ints
    seq: Ints
    outcome: Ints
    offset: Ints
    sent_ns: Ints
    aborted: Flags
    """The message's transaction was aborted."""
    visible: Flags
    """Readers of committed records should see it: it has no transaction, or its transaction was committed."""
    withheld: Flags
    """Readers of committed records must not see it: its transaction was aborted."""
    transaction: Ints
    """Position of the message's transaction in `Evidence.transactions`, -1 if there is none."""

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True, kw_only=True)
class ReadArrays:
    """Reads of one partition in the order of delivery; -1 stands for null."""

    reader: Ints
    ns: Ints
    offset: Ints
    writer: Ints
    seq: Ints
    row: Ints
    """The message in `sends`, -1 if nobody sent it to this partition."""
    group: Ints
    """Position in ``groups``, -1 for a reader without a group."""
    groups: tuple[str, ...]
    committed: Flags
    """The reader asked for committed records only."""
    uncommitted: Flags
    """The reader asked for all records. If neither is set, it is not known what it asked for."""
    undone: Ints
    """Position in `Evidence.transactions` of the transaction in which it polled, -1 if it polled in none or
    that one was reported as committed."""
    floor: Ints
    """The offset to which the reader may go back when it gives up that transaction; `FOREVER` without one."""

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, rows: Ints) -> ReadArrays:
        """Some of them."""
        columns = {name: values[rows] for name, values in vars(self).items() if name != "groups"}
        return ReadArrays(**columns, groups=self.groups)

    def streams(self) -> Ints:
        """A number for each read's stream: the reader's own, or a negative one for a group."""
        return np.where(self.group >= 0, -1 - self.group.astype(np.int64), self.reader.astype(np.int64))

    def group_names(self, rows: Ints) -> Texts:
        """The consumer groups of some reads."""
        return np.array([*self.groups, None], dtype=object)[self.group[rows]]


# ---- finding messages by identity


def no_reads() -> ReadArrays:
    """Nobody has read anything."""
    return ReadArrays(
        reader=EMPTY,
        ns=EMPTY,
        offset=EMPTY,
        writer=EMPTY,
        seq=EMPTY,
        row=EMPTY,
        group=EMPTY,
        groups=(),
        committed=EMPTY.astype(bool),
        uncommitted=EMPTY.astype(bool),
        undone=EMPTY,
        floor=EMPTY,
    )


_DENSE = 4
"""A dense table is used if it has at most this many entries for each message."""


class KeyIndex:
    """Rows of `sends` by (writer, seq). Refuses two rows of the same identity."""

    def __init__(self, writer: Ints, seq: Ints, where: str) -> None:
        """``where`` names the topic partition in errors."""
        self._rows = len(seq)
        self._writers = distinct(writer)
        self._low = int(seq.min()) if self._rows else 0
        self._high = int(seq.max()) if self._rows else -1
        self._span = self._high - self._low + 1
        self._ranks: Ints | None = None
        if self._span * max(1, len(self._writers)) >= 1 << 62:
            self._ranks = np.unique(seq)
            self._span = len(self._ranks)
        self._lut = _lookup_table(self._writers)
        self._table: Ints | None = None
        self._order: Ints | None = None
        self._sorted: Ints | None = None
        key = np.empty(self._rows, dtype=np.int64)
        for block in blocks_of(self._rows):
            key[block], _ = self._encode(writer[block], seq[block])
        cells = self._span * len(self._writers)
        if cells <= _DENSE * self._rows + 1024:
            table = np.full(cells, -1, dtype=np.int32)
            table[key] = np.arange(self._rows, dtype=np.int32)
            self._table = table
            twice = np.flatnonzero(table[key] != np.arange(self._rows, dtype=np.int32))
        else:
            rising = self._rows < 2 or bool(np.all(key[1:] > key[:-1]))
            self._order = None if rising else np.argsort(key, kind="stable")
            self._sorted = key if self._order is None else key[self._order]
            same = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
            twice = same if self._order is None else self._order[same]
        if len(twice):
            row = int(twice[0])
            raise BadDataError(
                f"sends of {where} hold message {int(seq[row])} of writer {int(writer[row])} twice; "
                f"an identity (writer, seq) may be sent only once."
            )

    def _encode(self, writer: Ints, seq: Ints) -> tuple[Ints, Flags]:
        """Keys, and which of them can exist."""
        if self._lut is None:
            place = np.searchsorted(self._writers, writer)
            place = np.minimum(place, max(0, len(self._writers) - 1))
            possible = self._writers[place] == writer if len(self._writers) else np.zeros(len(writer), bool)
        else:
            inside = (writer >= 0) & (writer < len(self._lut))
            place = self._lut[np.where(inside, writer, 0)]
            possible = inside & (place >= 0)
        if self._ranks is None:
            possible &= (seq >= self._low) & (seq <= self._high)
            column = seq - self._low
        else:
            column = np.minimum(np.searchsorted(self._ranks, seq), len(self._ranks) - 1)
            possible &= self._ranks[column] == seq
        return place.astype(np.int64) * self._span + column, possible

    def find(self, writer: Ints, seq: Ints) -> Ints:
        """Row of each identity, -1 where nobody sent it."""
        rows = np.full(len(seq), -1, dtype=np.int32)
        for block in blocks_of(len(seq)) if self._rows else ():
            rows[block] = self._find(writer[block], seq[block])
        return rows

    def _find(self, writer: Ints, seq: Ints) -> Ints:
        key, possible = self._encode(writer, seq)
        key = np.where(possible, key, 0)
        if self._table is not None:
            candidates = self._table[key]
        else:
            assert self._sorted is not None
            place = np.minimum(np.searchsorted(self._sorted, key), self._rows - 1)
            hit = self._sorted[place] == key
            rows = place if self._order is None else self._order[place]
            candidates = np.where(hit, rows, -1).astype(np.int32)
        return np.where(possible, candidates, np.int32(-1))


def blocks_of(count: int) -> list[slice]:
    """Rows from 0 up to ``count`` in blocks of `BLOCK_ROWS`."""
    return [slice(low, min(low + BLOCK_ROWS, count)) for low in range(0, count, BLOCK_ROWS)]


def distinct(values: Ints) -> Ints:
    """The distinct values, rising; by counting where they are small."""
    if len(values) and int(values.min()) >= 0 and int(values.max()) < 1 << 20:
        return np.flatnonzero(np.bincount(values))
    return np.unique(values)


def _lookup_table(writers: Ints) -> Ints | None:
    if len(writers) and int(writers[-1]) < 1 << 20 and int(writers[0]) >= 0:
        table = np.full(int(writers[-1]) + 1, -1, dtype=np.int32)
        table[writers] = np.arange(len(writers), dtype=np.int32)
        return table
    return None


@dataclass(frozen=True, kw_only=True)
class Homes:
    """Topic partitions of the messages that were looked up; nobody sent messages that are not in it."""

    writer: Ints
    seq: Ints
    topic: Sequence[str]
    partition: Ints

    def find(self, topic: str, partition: int, writer: Ints, seq: Ints) -> tuple[Flags, Flags]:
        """Whether each message was sent to this partition, and whether it was sent to another one."""
        place = self.place(writer, seq)
        same_partition = np.array([name == topic for name in self.topic], dtype=bool) & (
            self.partition == partition
        )
        sent = place >= 0
        here = np.zeros(len(place), dtype=bool)
        here[sent] = same_partition[place[sent]]
        return here, sent & ~here

    def place(self, writer: Ints, seq: Ints) -> Ints:
        """Row of each message here, -1 where it was sent nowhere."""
        return KeyIndex(self.writer, self.seq, "what was looked up").find(writer, seq).astype(np.int64)


NO_HOMES = Homes(
    writer=np.empty(0, np.int64), seq=np.empty(0, np.int64), topic=(), partition=np.empty(0, np.int64)
)
"""Nobody sent a message to another partition."""


def pair_order(major: Ints, minor: Ints) -> Ints | slice:
    """An index that puts pairs in rising order, equal ones as they stand; a slice if they are in order."""
    if len(major) < 2:
        return slice(None)
    low, base = int(minor.min()), int(major.min())
    span = int(minor.max()) - low + 1
    if span * (int(major.max()) - base + 1) >= 1 << 62:
        return np.lexsort((minor, major))
    key = (major.astype(np.int64, copy=False) - base) * span + (minor - low)
    return slice(None) if bool(np.all(key[1:] >= key[:-1])) else np.argsort(key, kind="stable")
