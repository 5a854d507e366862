"""Messages against the order in which their writers sent them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from checkers.partition.fate import CODE
from checkers.partition.fates import Fates
from checkers.partition.messages import OK, Sends
from checkers.partition.types import Ints


@dataclass(frozen=True, kw_only=True)
class OffsetSpan:
    """Lowest and highest offset of one writer's ordered messages, in a range of sequence numbers."""

    writer: int
    low: int
    high: int


def ordered(sends: Sends, fates: Fates) -> Ints:
    """Messages whose order counts: acknowledged, in the reference log once, and at the offset reported."""
    return np.flatnonzero((sends.outcome == OK) & (fates.fate == CODE["kept"]) & (fates.copies == 1))


def out_of_order(sends: Sends, fates: Fates, later_low: Mapping[int, int]) -> tuple[Ints, list[OffsetSpan]]:
    """Messages that stand behind a later one of their writer, and the span of each writer's offsets.

    ``later_low`` gives, per writer, the lowest offset among its ordered messages of higher sequence numbers
    that are not among ``sends``.
    """
    rows = ordered(sends, fates)
    late: list[Ints] = []
    spans: list[OffsetSpan] = []
    writers = sends.writer[rows]
    for writer in np.unique(writers).tolist():
        mine = rows[writers == writer]
        seqs = sends.seq[mine]
        if len(seqs) > 1 and not np.all(seqs[1:] > seqs[:-1]):
            mine = mine[np.argsort(seqs, kind="stable")]
        offsets = fates.found_offset[mine]
        ahead = later_low.get(writer, np.iinfo(np.int64).max)
        spans.append(OffsetSpan(writer=writer, low=int(offsets.min()), high=int(offsets.max())))
        if ahead > spans[-1].high and (len(offsets) < 2 or np.all(offsets[1:] > offsets[:-1])):
            continue
        lowest = np.minimum.accumulate(np.append(offsets[1:], ahead)[::-1])[::-1]
        late.append(mine[offsets > lowest])
    return (np.concatenate(late) if late else rows[:0]), spans
