"""What was sent to one topic partition, and what readers were handed of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checkers.partition.types import Flags, Ints, Texts

OK, FAIL, INFO = 0, 1, 2
"""Codes of outcomes."""


@dataclass(frozen=True, kw_only=True)
class Sends:
    """Columns of `sends` that decide a fate; -1 stands for null."""

    writer: Ints
    seq: Ints
    outcome: Ints
    offset: Ints
    sent_ns: Ints
    aborted: Flags
    """The message's transaction was aborted."""
    visible: Flags
    """Readers of committed records are to see it: it is of no transaction, or of a committed one."""

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True, kw_only=True)
class Reads:
    """Reads of one partition in the order of delivery; -1 stands for null."""

    reader: Ints
    ns: Ints
    offset: Ints
    writer: Ints
    seq: Ints
    row: Ints
    """The message in `sends`, -1 if it is none of those at hand."""
    group: Ints
    """Position in ``groups``, -1 for a reader assigned by hand."""
    groups: tuple[str, ...]
    committed: Flags
    """The reader asked for committed records only."""
    uncommitted: Flags
    """The reader asked for all records; neither: it is not known what it asked for."""

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, rows: Ints) -> Reads:
        """Some of them."""
        columns = {name: values[rows] for name, values in vars(self).items() if name != "groups"}
        return Reads(**columns, groups=self.groups)

    def streams(self) -> Ints:
        """A number for each read's stream: the reader's own, or a negative one for a group."""
        return np.where(self.group >= 0, -1 - self.group.astype(np.int64), self.reader.astype(np.int64))

    def group_names(self, rows: Ints) -> Texts:
        """The consumer groups of some reads."""
        return np.array([*self.groups, None], dtype=object)[self.group[rows]]
