"""Following one broker's replicas while the run lasts: what appeared on them, and what vanished again.

Each look fetches from the last batch seen, so that this batch comes once more: if its CRC and epoch are
still the same, nothing before it was truncated or rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from harness.clock import now_ns
from harness.history.identity import decode
from harness.history.journal import Journal
from harness.kafka.batches import Batch, Record
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.dialect import Dialect
from harness.kafka.wire.logs import Fetched, fetch_own_logs

OFFSET_OUT_OF_RANGE = 1
FETCH_BYTES = 4 << 20
"""Above the largest batch that brokers take by default: one that does not fit would look truncated."""

TopicPartition = tuple[str, int]
Replicas = Callable[[], tuple[TopicPartition, ...]]
"""The partitions of which this broker has a replica right now."""


class LogSource(Protocol):
    """Reads a broker's own logs from given offsets."""

    def read(self, offsets: Mapping[TopicPartition, int], max_bytes: int) -> dict[TopicPartition, Fetched]:
        """Up to ``max_bytes`` of each partition's log from an offset on. Raises OSError: not now."""

    def close(self) -> None:
        """Let go of it."""


class WireSource:
    """Reads by FETCH with replica id -3 (Kafka 1.1 and later)."""

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        """``connection`` is this source's own."""
        self._connection = connection
        self._dialect = dialect

    def read(self, offsets: Mapping[TopicPartition, int], max_bytes: int) -> dict[TopicPartition, Fetched]:
        """One request for all partitions."""
        return fetch_own_logs(self._connection, offsets, max_bytes, dialect=self._dialect)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class _Seen(NamedTuple):
    offset: int
    seen_ns: int
    epoch: int | None


@dataclass
class ReplicaTail:
    """What was seen of one replica: its batches in order, and the records in each."""

    topic: str
    partition: int
    broker: int
    batches: list[Batch] = field(default_factory=list)
    records: list[list[_Seen]] = field(default_factory=list)
    probe_back: int = 1
    """How many batches back the next fetch starts; grows while the overlap does not match."""
    max_bytes: int = FETCH_BYTES
    """How much to fetch next; grows while the last known batch leaves no room for what follows it."""

    @property
    def start(self) -> int:
        """The offset to fetch from: the start of the last batch believed to be there."""
        if not self.batches:
            return 0
        return self.batches[max(0, len(self.batches) - self.probe_back)].offset

    def take(self, fetched: Fetched, ns: int) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
        """Compare what came with what was known. Returns new rows of `sightings` and of `gone`."""
        position = max(0, len(self.batches) - self.probe_back)
        if fetched.error:
            if fetched.error == OFFSET_OUT_OF_RANGE and position > 0:
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
            self.probe_back = len(self.batches) - keep + 1  # the rest did not fit: go on from here
            self.max_bytes = self.max_bytes * 2 if keep - 1 == position else FETCH_BYTES
            return [], []
        self.probe_back = 1
        gone, fresh = self._drop(keep, ns), came[keep - position :]
        stuck = fetched.cut_short and not fresh
        self.max_bytes = self.max_bytes * 2 if stuck else FETCH_BYTES
        return self._add(fresh, fetched.records, ns), gone

    def _probe_further_back(self) -> None:
        self.probe_back = min(len(self.batches), self.probe_back * 8)

    def _drop(self, keep: int, ns: int) -> list[dict[str, object]]:
        vanished = [
            {
                **self._where(),
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
            row: dict[str, object] = {**self._where(), "offset": record.offset, "seen_ns": ns}
            if record.epoch is not None:
                row["epoch"] = record.epoch
            identity = decode(record.value)
            if identity is not None:
                row["writer"], row["seq"] = identity.writer, identity.seq
            rows.append(row)
        self.batches += batches
        self.records += [by_batch[batch.offset] for batch in batches]
        return rows

    def _where(self) -> dict[str, object]:
        return {"topic": self.topic, "partition": self.partition, "broker": self.broker}


def _same(one: Batch, other: Batch) -> bool:
    return (one.offset, one.crc, one.epoch, one.next_offset) == (
        other.offset,
        other.crc,
        other.epoch,
        other.next_offset,
    )


class TailPoller:
    """Follows all replicas of one broker and writes `sightings` and `gone` rows."""

    def __init__(
        self, name: str, broker: int, source: LogSource, replicas: Replicas, journal: Journal
    ) -> None:
        """``replicas`` is asked at every look, so that new topics are followed too."""
        self.name = f"{name} (logs)"
        self.period_s = 0.22
        self._broker = broker
        self._source = source
        self._replicas = replicas
        self._journal = journal
        self._tails: dict[TopicPartition, ReplicaTail] = {}

    def look(self) -> None:
        """Read what is new on every replica; again at once where more is waiting."""
        pending = self._replicas()
        for _ in range(8):
            pending = self._step(pending)
            if not pending:
                return

    def _step(self, keys: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        tails = {key: self._tails.setdefault(key, ReplicaTail(*key, self._broker)) for key in keys}
        try:
            max_bytes = max((tail.max_bytes for tail in tails.values()), default=FETCH_BYTES)
            read = self._source.read({key: tail.start for key, tail in tails.items()}, max_bytes)
        except OSError:
            return ()  # the broker's own poller records that it does not answer
        ns = now_ns()
        unfinished = []
        for key, fetched in read.items():
            sightings, gone = tails[key].take(fetched, ns)
            if gone:
                self._journal.write_many("gone", gone)
            if sightings:
                self._journal.write_many("sightings", sightings)
            if tails[key].probe_back > 1 or fetched.cut_short:
                unfinished.append(key)
        return tuple(unfinished)

    def close(self) -> None:
        """Close the source."""
        self._source.close()
