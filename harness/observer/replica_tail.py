"""Which batches have been seen on one replica: pure bookkeeping, no I/O.

A *look* is a row of fetches from the last batch seen to the end of the log. The first one returns that batch
once more: if its header is unchanged, which has its CRC and epoch, nothing before it was truncated or
rewritten. If they differ, the look starts further and further back. A FETCH returns nothing from behind the
segment in which it starts, so that only an empty answer proves where the log ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.history.sightings import ROW, Rows
from harness.kafka.batches import CONTROL
from harness.kafka.headers import Headers
from harness.kafka.model import OFFSET_OUT_OF_RANGE, TopicPartition
from harness.kafka.wire.logs import FetchResult
from harness.observer.bodies import NO_BODIES, Bodies, DecodedBodies

FETCH_BYTES = 4 << 20
"""Larger than any batch that brokers accept by default; a batch that does not fit would look truncated."""

_KEPT_BYTES = 1 << 14
"""The longest answer that is kept, to compare the next one with it."""

REMEMBERED = 20_000
"""Batches of a replica that a look can go back to, at least; each takes 48 bytes."""

_BATCH = np.dtype(
    [
        ("offset", "i8"),
        ("next_offset", "i8"),
        ("digest", "u8"),
        ("seen_ns", "i8"),
        ("epoch", "i4"),
        ("gone", "?"),
    ]
)
"""A batch: the offset of its first record, what its header says, and whether that record is gone."""


class Gone(NamedTuple):
    """A range of offsets of which nothing is there any more that had been seen."""

    from_offset: int
    to_offset: int
    batches: Rows
    """A row for the first record of each batch in the range, with the time at which it was seen."""


class Change(NamedTuple):
    """What a fetch has shown: records that were not seen before, and what has vanished."""

    seen: Rows = np.zeros(0, dtype=ROW)
    gone: tuple[Gone, ...] = ()


class Comparison(NamedTuple):
    """What of an answer is known already."""

    fetched: FetchResult
    gone: tuple[Gone, ...] = ()
    new: Headers | None = None
    """The batches behind those that are known; None if there is nothing to compare."""
    same: int = 0
    """How many batches of the answer are known."""


@dataclass(kw_only=True)
class ReplicaTail:
    """The batches seen on one replica, in order."""

    topic_partition: TopicPartition
    bodies: DecodedBodies
    _: KW_ONLY
    batches: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, dtype=_BATCH))
    log_start: int = 0
    max_bytes: int = FETCH_BYTES
    """How much to fetch next; grows while no whole batch fits."""
    looking: bool = True
    """The look is not over: fetch from `start`."""
    leo: int | None = None
    """Log end offset by the last answer; None if the answer did not reach the log's end."""

    markers: int = 0
    """Transaction markers seen so far, truncated ones too."""

    _floor: int = 0
    """Batches before this offset are forgotten: whether they go is not seen any more."""
    _reported: tuple[int, int] = (0, -1)
    """The highest `_floor`, and the epoch there: records before it, of no later epoch, are not reported anew
    if the log is truncated to before it."""
    _position: int = 0
    """The batch that the next answer should begin with; their number if it should begin behind the last."""
    _joined: bool = False
    """This look has found a batch that was seen before, and none that differs since."""
    _back: int = 1
    """How many batches before the last the look began."""
    _last: Headers | None = None
    """The last answer, if it was short."""
    _unlinked: int | None = None
    """Offset of the last batch before new ones that came without it: the next look begins there."""

    @classmethod
    def beginning_at(cls, key: TopicPartition, bodies: DecodedBodies, offset: int) -> ReplicaTail:
        """A replica that is followed from an offset on; what is before it is not read."""
        return cls(topic_partition=key, bodies=bodies, _floor=offset)

    @property
    def start(self) -> int:
        """The offset to fetch from."""
        if self._position == 0:
            return max(self.log_start, self._floor)
        return int(self.batches["offset"][self._position]) if self._position < len(self.batches) else self.end

    @property
    def end(self) -> int:
        """The offset after the last record that is believed to be there."""
        return int(self.batches["next_offset"][-1]) if len(self.batches) else max(self.log_start, self._floor)

    def remembered(self) -> Rows:
        """A row for each batch that is believed to be there and is not forgotten: its first record."""
        return _first_records(self.batches)

    def forget(self, remembered: int = REMEMBERED) -> None:
        """Drop the oldest batches once there are twice as many as are to be ``remembered``."""
        excess = len(self.batches) - remembered
        if excess >= remembered and self._position >= excess:
            self.batches = self.batches[excess:].copy()
            self._position -= excess
            self._floor = int(self.batches["offset"][0])
            self._reported = self._floor, max(0, int(self.batches["epoch"][0]))

    def look(self) -> None:
        """Begin a new look, unless the last one has batches left to compare."""
        if not self.looking or self._position == len(self.batches):
            offset, self._unlinked = self._unlinked, None
            back = 1
            if offset is not None:
                back = max(1, int(np.count_nonzero(self.batches["offset"] > offset)) + 1)
            self._look_from(back)

    def _look_from(self, back: int) -> None:
        self._back = max(1, min(len(self.batches), back))
        self._position = max(0, len(self.batches) - self._back)
        self._joined, self.looking = False, True

    def update(self, fetched: FetchResult, ns: int) -> Change:
        """Compare what was fetched with what is known."""
        return update_all([(self, fetched)], ns)[0]

    def compare(self, fetched: FetchResult, log: Headers | None) -> Comparison:
        """The first step: which batches of the ``log`` in an answer are new. None: use the last answer's."""
        self.leo = None
        if fetched.error == OFFSET_OUT_OF_RANGE:
            return Comparison(fetched, self._out_of_range(fetched.log_start))
        if fetched.error:
            self.looking = False
            return Comparison(fetched)
        if log is None:
            log = self._last
        else:
            kept = len(fetched.raw) <= _KEPT_BYTES
            self._last = replace(log, rows=log.rows.copy()) if kept else None  # not the rows of all answers
        removed = self._remove_before(fetched.log_start)
        if log is None or (not len(log.rows) and fetched.cut_short):
            self.max_bytes *= 2
            return Comparison(fetched, removed)
        self.max_bytes = FETCH_BYTES
        same = _alike(log.rows, self.batches[self._position : self._position + len(log.rows)])
        return Comparison(fetched, removed, log.after(same), same)

    def complete(self, compared: Comparison, bodies: Bodies, ns: int) -> Change:
        """The second step, with the records of the batches that are new."""
        if compared.new is None:
            return Change(gone=compared.gone)
        seen, truncated = self._compare(compared.fetched, compared.new, compared.same, bodies, ns)
        return Change(seen, (*compared.gone, *truncated))

    def had(self, fetched: FetchResult) -> bool:
        """Whether the answer is the last one again, as that of a log that is quiet."""
        return self._last is not None and self._last.raw == fetched.raw

    def _out_of_range(self, log_start: int) -> tuple[Gone, ...]:
        """The log begins after the offset of the FETCH, or ends before it."""
        gone: tuple[Gone, ...] = ()
        if log_start > self.start:
            gone = self._remove_before(log_start)
            self._look_from(1)
        elif self._position > 0:
            self._look_from(self._back * 8)
        else:
            gone = self._truncate(0)
            self.log_start, self._floor = max(0, log_start), 0
            self.looking = log_start >= 0
        return gone

    def _compare(
        self, fetched: FetchResult, new: Headers, same: int, bodies: Bodies, ns: int
    ) -> tuple[Rows, tuple[Gone, ...]]:
        first, start, came = self._position, self.start, same + len(new.rows)
        across = bool(came) and same == 0 and int(bodies.first_offsets[0]) < start
        if first > 0 and (across or not (same or self._joined)):
            self._look_from(self._back * 8)  # what was seen at `start`, or before it, is not there any more
            return Change()
        self._joined, self._position = True, first + same
        ends = fetched.to_end or not came
        differs = same < came or ends
        gone = self._truncate(self._position) if differs else ()
        if same < came and not same and first > 0 and self._unlinked is None:
            self._unlinked = int(self.batches["offset"][first - 1])
        seen = self._add(new.rows, bodies, fetched.offset, ns)
        self._position = len(self.batches) if differs else self._position
        self.looking = not ends
        known_end = self._position == len(self.batches) and not fetched.cut_short
        if known_end and (ends or fetched.high_watermark <= self.end):
            self.leo = self.end
        return seen, gone

    def _remove_before(self, log_start: int) -> tuple[Gone, ...]:
        """Records that retention or a request removed."""
        if log_start < 0:
            return ()
        before, self.log_start = self.log_start, log_start
        batches = self.batches
        count = _prefix(batches["next_offset"] <= log_start)
        partly = count < len(batches) and bool(batches["offset"][count] < log_start)
        removed = _first_records(batches[: count + partly])
        if partly:
            batches["gone"][count] = True
        if count:
            self.batches = batches[count:].copy()
            self._position = max(0, self._position - count)
        if not count and not (partly and log_start > before):
            return ()
        return (Gone(int(batches["offset"][0]), log_start, removed),)

    def _truncate(self, keep: int) -> tuple[Gone, ...]:
        truncated = self.batches[keep:]
        self.batches = self.batches[:keep].copy()
        if not len(truncated):
            return ()
        end = int(truncated["next_offset"][-1])
        return (Gone(int(truncated["offset"][0]), end, _first_records(truncated)),)

    def _add(self, headers: npt.NDArray[np.void], bodies: Bodies, from_offset: int, ns: int) -> Rows:
        if not len(headers):
            return np.zeros(0, dtype=ROW)
        added = np.zeros(len(headers), dtype=_BATCH)
        added["offset"], added["seen_ns"] = bodies.first_offsets, ns
        for name in ("next_offset", "digest", "epoch"):
            added[name] = headers[name]
        self.batches = np.concatenate([self.batches, added])
        control = (headers["magic"] == 2) & (headers["attributes"] & CONTROL != 0)
        floor, epoch = self._reported
        rows = bodies.rows
        kept = (rows["offset"] >= from_offset) & (
            (rows["offset"] >= floor) | (np.maximum(rows["epoch"], 0) > epoch)
        )
        self.markers += int(np.count_nonzero(np.repeat(control, bodies.counts) & kept))
        seen: Rows = rows[kept]
        seen["seen_ns"] = ns
        return seen


def update_all(answers: Sequence[tuple[ReplicaTail, FetchResult]], ns: int) -> list[Change]:
    """Compare what was fetched of each replica; the tails have the same `bodies`."""
    if not answers:
        return []
    bodies = answers[0][0].bodies
    unread = [
        number
        for number, (tail, fetched) in enumerate(answers)
        if not fetched.error and not tail.had(fetched)
    ]
    logs = dict(zip(unread, bodies.headers([answers[number][1] for number in unread]), strict=True))
    compared = [tail.compare(fetched, logs.get(number)) for number, (tail, fetched) in enumerate(answers)]
    new = {
        tail.topic_partition: one.new
        for (tail, _), one in zip(answers, compared, strict=True)
        if one.new is not None
    }
    held = bodies.of(new)
    return [
        tail.complete(one, held.get(tail.topic_partition, NO_BODIES), ns)
        for (tail, _), one in zip(answers, compared, strict=True)
    ]


def _alike(rows: npt.NDArray[np.void], known: npt.NDArray[np.void]) -> int:
    """How many batches at the beginning are the same."""
    count = min(len(rows), len(known))
    return _prefix(rows["digest"][:count] == known["digest"][:count])


def _prefix(flags: npt.NDArray[np.bool_]) -> int:
    """How many are true before the first that is not."""
    return len(flags) if flags.all() else int(np.argmin(flags))


def _first_records(batches: npt.NDArray[np.void]) -> Rows:
    some = batches[~batches["gone"]]
    rows = np.zeros(len(some), dtype=ROW)
    for name in ("offset", "seen_ns", "epoch"):
        rows[name] = some[name]
    rows["seq"] = rows["writer"] = -1
    return rows
