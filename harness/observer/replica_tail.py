"""Which records have been seen on one replica: pure bookkeeping, no I/O.

A *look* is a row of fetches from the last batch seen to the end of the log. The first one returns that batch
once more: if its CRC and epoch are unchanged, nothing before it was truncated or rewritten. If they differ,
the look starts further and further back. A FETCH returns nothing from behind the segment in which it starts,
so that only an empty answer proves where the log ends.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

from harness.history.identity import decode
from harness.kafka.batches import Batch, Record, is_at, parse
from harness.kafka.model import OFFSET_OUT_OF_RANGE, TopicPartition
from harness.kafka.wire.logs import FetchResult

FETCH_BYTES = 4 << 20
"""Larger than any batch that brokers accept by default; a batch that does not fit would look truncated."""

REMEMBERED = 20_000
"""Batches of a replica that a look can go back to, at least: 10 MB, of which a recording has nine or more."""

Rows = list[dict[str, object]]


class _Seen(NamedTuple):
    offset: int
    seen_ns: int
    epoch: int | None


@dataclass(kw_only=True)
class ReplicaTail:
    """The batches seen on one replica, in order, and the records in each."""

    topic_partition: TopicPartition
    broker: int
    _: KW_ONLY
    batches: list[Batch] = field(default_factory=list)
    records: list[list[_Seen]] = field(default_factory=list)
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
    _unlinked: int | None = None
    """Offset of the last batch before new ones that came without it: the next look begins there."""

    @classmethod
    def beginning_at(cls, key: TopicPartition, broker: int, offset: int) -> ReplicaTail:
        """A replica that is followed from an offset on; what is before it is not read."""
        return cls(topic_partition=key, broker=broker, _floor=offset)

    @property
    def start(self) -> int:
        """The offset to fetch from."""
        if self._position == 0:
            return max(self.log_start, self._floor)
        return self.batches[self._position].offset if self._position < len(self.batches) else self.end

    @property
    def end(self) -> int:
        """The offset after the last record that is believed to be there."""
        return self.batches[-1].next_offset if self.batches else max(self.log_start, self._floor)

    def remembered(self) -> Rows:
        """The records that are believed to be there and are not forgotten, as rows of `sightings`."""
        return [
            {**self._replica(), "offset": seen.offset, "epoch": seen.epoch, "seen_ns": seen.seen_ns}
            for records in self.records
            for seen in records
        ]

    def forget(self, remembered: int = REMEMBERED) -> None:
        """Drop the oldest batches once there are twice as many as are to be ``remembered``."""
        excess = len(self.batches) - remembered
        if excess >= remembered and self._position >= excess:
            del self.batches[:excess], self.records[:excess]
            self._position -= excess
            self._floor = self.batches[0].offset
            self._reported = self._floor, self.batches[0].epoch or 0

    def look(self) -> None:
        """Begin a new look, unless the last one has batches left to compare."""
        if not self.looking or self._position == len(self.batches):
            offset, self._unlinked = self._unlinked, None
            back = 1
            while offset is not None and back < len(self.batches) and self.batches[-back].offset > offset:
                back += 1
            self._look_from(back)

    def _look_from(self, back: int) -> None:
        self._back = max(1, min(len(self.batches), back))
        self._position = max(0, len(self.batches) - self._back)
        self._joined, self.looking = False, True

    def update(self, fetched: FetchResult, ns: int) -> tuple[Rows, Rows]:
        """Compare what was fetched with what is known. Returns new rows of `sightings` and of `gone`."""
        self.leo = None
        if fetched.error == OFFSET_OUT_OF_RANGE:
            return [], self._out_of_range(fetched.log_start, ns)
        if fetched.error:
            self.looking = False
            return [], []
        removed = self._remove_before(fetched.log_start, ns)
        fresh, truncated = self._compare(fetched, ns)
        return fresh, [*removed, *truncated]

    def _out_of_range(self, log_start: int, ns: int) -> Rows:
        """The log begins after the offset of the FETCH, or ends before it."""
        if log_start > self.start:
            gone = self._remove_before(log_start, ns)
            self._look_from(1)
        elif self._position > 0:
            gone = []
            self._look_from(self._back * 8)
        else:
            gone = self._truncate(0, ns)
            self.log_start, self._floor = max(0, log_start), 0
            self.looking = log_start >= 0
        return gone

    def _compare(self, fetched: FetchResult, ns: int) -> tuple[Rows, Rows]:
        bounds, first, start = fetched.positions, self._position, self.start
        came = len(bounds) - 1
        if not came and fetched.cut_short:
            self.max_bytes *= 2
            return [], []
        self.max_bytes, same = FETCH_BYTES, 0
        while same < came and first + same < len(self.batches):
            if not is_at(fetched.raw, bounds[same], self.batches[first + same]):
                break
            same += 1
        new = parse(fetched.raw[bounds[same] :], fetched.offset)  # what was seen before is not decoded
        across = bool(came) and same == 0 and new.batches[0].offset < start
        if first > 0 and (across or not (same or self._joined)):
            self._look_from(self._back * 8)  # what was seen at `start`, or before it, is not there any more
            return [], []
        self._joined, self._position = True, first + same
        ends = fetched.to_end or not came
        differs = same < came or ends
        gone = self._truncate(self._position, ns) if differs else []
        fresh = self._add(new.batches, new.records, ns)
        if fresh and not same and first > 0 and self._unlinked is None:
            self._unlinked = self.batches[first - 1].offset
        self._position = len(self.batches) if differs else self._position
        self.looking = not ends
        known_end = self._position == len(self.batches) and not fetched.cut_short
        if known_end and (ends or fetched.high_watermark <= self.end):
            self.leo = self.end
        return fresh, gone

    def _remove_before(self, log_start: int, ns: int) -> Rows:
        """Records that retention or a request removed."""
        if log_start < 0:
            return []
        self.log_start = log_start
        count = 0
        while count < len(self.batches) and self.batches[count].next_offset <= log_start:
            count += 1
        removed = [seen for records in self.records[:count] for seen in records]
        del self.batches[:count], self.records[:count]
        self._position = max(0, self._position - count)
        if self.records and self.batches[0].offset < log_start:
            removed += [seen for seen in self.records[0] if seen.offset < log_start]
            self.records[0] = [seen for seen in self.records[0] if seen.offset >= log_start]
        return self._gone(removed, ns)

    def _truncate(self, keep: int, ns: int) -> Rows:
        truncated = [seen for records in self.records[keep:] for seen in records]
        del self.batches[keep:], self.records[keep:]
        return self._gone(truncated, ns)

    def _gone(self, records: list[_Seen], ns: int) -> Rows:
        return [
            {
                **self._replica(),
                "offset": seen.offset,
                "epoch": seen.epoch,
                "seen_ns": seen.seen_ns,
                "gone_ns": ns,
            }
            for seen in records
        ]

    def _add(self, batches: list[Batch], records: list[Record], ns: int) -> Rows:
        if not batches:
            return []
        first = batches[0].offset
        rows: Rows = []
        by_batch: dict[int, list[_Seen]] = {batch.offset: [] for batch in batches}
        for record in records:
            if record.offset < first or self._was_reported(record):
                continue
            by_batch.setdefault(record.batch_offset, []).append(_Seen(record.offset, ns, record.epoch))
            self.markers += record.control
            row: dict[str, object] = {**self._replica(), "offset": record.offset, "seen_ns": ns}
            if record.epoch is not None:
                row["epoch"] = record.epoch
            identity = decode(record.value)
            if identity is not None:
                row["writer"], row["seq"] = identity.writer, identity.seq
            rows.append(row)
        self.batches += batches
        self.records += [by_batch[batch.offset] for batch in batches]
        return rows

    def _was_reported(self, record: Record) -> bool:
        floor, epoch = self._reported
        return record.offset < floor and (record.epoch or 0) <= epoch

    def _replica(self) -> dict[str, object]:
        return {**self.topic_partition._asdict(), "broker": self.broker}
