"""Which records have been seen on one replica: pure bookkeeping, no I/O.

Each fetch starts at the last batch seen, so that this batch comes once more: if its CRC and epoch are
unchanged, nothing before it was truncated or rewritten. If they differ, fetches start further and further
back.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

from harness.history.identity import decode
from harness.kafka.batches import Batch, Record
from harness.kafka.model import OFFSET_OUT_OF_RANGE, TopicPartition
from harness.kafka.wire.logs import Fetched

FETCH_BYTES = 4 << 20
"""Larger than any batch that brokers accept by default; a batch that does not fit would look truncated."""


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
    probe_back: int = 1
    """How many batches back the next fetch starts; grows while the overlap does not match."""
    max_bytes: int = FETCH_BYTES
    """How much to fetch next; grows while the last known batch leaves no room for the next one."""

    log_start: int = 0
    """Where the log begins, as far as it is known; it has no batches before it."""
    markers: int = 0
    """Transaction markers seen so far, truncated ones too."""

    @property
    def start(self) -> int:
        """The offset to fetch from: the start of the last batch that is believed to be there."""
        if not self.batches:
            return self.log_start
        return max(self.log_start, self.batches[max(0, len(self.batches) - self.probe_back)].offset)

    @property
    def end(self) -> int:
        """The offset after the last record that is believed to be there."""
        return self.batches[-1].next_offset if self.batches else 0

    def update(self, fetched: Fetched, ns: int) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
        """Compare what was fetched with what is known. Returns new rows of `sightings` and of `gone`.

        What a new log start has removed is not `gone`: it was not truncated.
        """
        requested = self.start
        if fetched.log_start >= 0:
            self._begin_at(fetched.log_start)
        position = max(0, len(self.batches) - self.probe_back)
        if fetched.error:
            if fetched.error == OFFSET_OUT_OF_RANGE and position > 0 and self.log_start <= requested:
                self._probe_further_back()
            return [], []
        came, keep = fetched.parsed.batches, position
        while keep < len(self.batches) and keep - position < len(came):
            if not _same(came[keep - position], self.batches[keep]):
                break
            keep += 1
        if self.batches and keep == position and position > 0:
            self._probe_further_back()
            return [], []
        if keep < len(self.batches) and keep - position == len(came) and fetched.cut_short:
            self.probe_back = len(self.batches) - keep + 1  # the rest did not fit: continue from here
            self.max_bytes = self.max_bytes * 2 if keep - 1 == position else FETCH_BYTES
            return [], []
        self.probe_back = 1
        gone, fresh = self._drop(keep, ns), came[keep - position :]
        stuck = fetched.cut_short and not fresh
        self.max_bytes = self.max_bytes * 2 if stuck else FETCH_BYTES
        return self._add(fresh, fetched.records, ns), gone

    def _begin_at(self, log_start: int) -> None:
        """Forget the batches that are before the log start, which is lower again in a log that is new."""
        self.log_start = log_start
        removed = next(
            (at for at, batch in enumerate(self.batches) if batch.next_offset > log_start), len(self.batches)
        )
        del self.batches[:removed], self.records[:removed]

    def _probe_further_back(self) -> None:
        self.probe_back = min(len(self.batches), self.probe_back * 8)

    def _drop(self, keep: int, ns: int) -> list[dict[str, object]]:
        vanished = [
            {
                **self._replica(),
                "offset": seen.offset,
                "epoch": seen.epoch,
                "seen_ns": seen.seen_ns,
                "gone_ns": ns,
            }
            for records in self.records[keep:]
            for seen in records
        ]
        del self.batches[keep:], self.records[keep:]
        return vanished

    def _add(self, batches: list[Batch], records: list[Record], ns: int) -> list[dict[str, object]]:
        if not batches:
            return []
        first = batches[0].offset
        rows: list[dict[str, object]] = []
        by_batch: dict[int, list[_Seen]] = {batch.offset: [] for batch in batches}
        for record in records:
            if record.offset < first:
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

    def _replica(self) -> dict[str, object]:
        return {**self.topic_partition._asdict(), "broker": self.broker}


def _same(one: Batch, other: Batch) -> bool:
    return (one.offset, one.crc, one.epoch, one.next_offset) == (
        other.offset,
        other.crc,
        other.epoch,
        other.next_offset,
    )
