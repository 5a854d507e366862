"""Following one broker's replicas during a run: records that appear and vanish, and watermarks.

Logs are read over the wire, or from files where the Kafka version cannot show a follower's log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from harness.clock import now_ns
from harness.history.journal import Journal
from harness.history.sightings import Rows, SightingsJournal
from harness.host_files import HostFiles
from harness.kafka.batches import parse
from harness.kafka.model import OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, TopicPartition
from harness.kafka.segments import first_offset, segments
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.dialect import Dialect
from harness.kafka.wire.logs import FetchResult, fetch_own_logs
from harness.kafka.wire.offsets import EARLIEST, end_offsets
from harness.observer.bodies import DecodedBodies
from harness.observer.replica_tail import FETCH_BYTES, REMEMBERED, Gone, ReplicaTail, update_all
from harness.observer.watermarks import Watermarks

_ANSWER_BYTES = 32 << 20
"""What an answer about watched logs may hold, whatever number of partitions the broker has."""
Replicas = Callable[[], tuple[TopicPartition, ...]]
"""The partitions of which this broker has a replica right now."""


class LogSource(Protocol):
    """Reads a broker's own logs from given offsets."""

    def read(
        self, offsets: Mapping[TopicPartition, int], max_bytes: int
    ) -> dict[TopicPartition, FetchResult]:
        """Up to ``max_bytes`` of each partition's log from an offset on. Raises OSError.

        An answer OFFSET_OUT_OF_RANGE names the log start.
        """

    def close(self) -> None:
        """Release what is held open."""


@dataclass(frozen=True, kw_only=True)
class WatchedLogs:
    """Logs of others, of which only the headers of batches are read, from near their ends on."""

    first: Mapping[TopicPartition, int]
    """By partition, the offset from which on its replicas are followed."""
    last: int
    """How many offsets before its end a log that was truncated to before that one is followed anew."""
    remembered: int
    """Batches of a replica that are remembered, at least (`ReplicaTail.forget`)."""


class WireSource:
    """Reads logs by FETCH with replica id -3 (Kafka 1.1 and later)."""

    def __init__(self, connection: Connection, dialect: Dialect, watched: WatchedLogs | None = None) -> None:
        """``connection`` is used by this source alone."""
        self._connection = connection
        self._dialect = dialect
        self._watched = watched

    def read(
        self, offsets: Mapping[TopicPartition, int], max_bytes: int
    ) -> dict[TopicPartition, FetchResult]:
        """One request for all partitions, and one for the log starts that a FETCH out of range lacks."""
        fetched: dict[TopicPartition, FetchResult] = {}
        bodies = self._watched is None
        keys = list(offsets)
        at_once = max(1, len(keys) if bodies else _ANSWER_BYTES // max_bytes)
        for begin in range(0, len(keys), at_once):
            some = {key: offsets[key] for key in keys[begin : begin + at_once]}
            fetched |= fetch_own_logs(self._connection, some, max_bytes, dialect=self._dialect, bodies=bodies)
        outside = [key for key, part in fetched.items() if part.error == OFFSET_OUT_OF_RANGE]
        if not outside:
            return fetched
        starts = end_offsets(self._connection, outside, at=EARLIEST, dialect=self._dialect)
        nearest = dict.fromkeys(outside, -1)
        if self._watched is not None:
            ends = end_offsets(self._connection, outside, dialect=self._dialect)
            nearest = {key: end.offset - self._watched.last for key, end in ends.items()}
        return fetched | {
            key: replace(fetched[key], log_start=-1 if start.error else max(start.offset, nearest[key]))
            for key, start in starts.items()
        }

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@dataclass(frozen=True)
class _Position:
    segment: str
    position: int


class FileSource:
    """Reads a broker's logs from its files, for Kafka before 1.1, whose followers answer no FETCH.

    Reading a file that is being appended to is safe.
    """

    def __init__(self, data: HostFiles) -> None:
        """``data`` are the files of the broker's `log.dirs`."""
        self._data = data
        self._positions: dict[TopicPartition, dict[int, _Position]] = {}
        """Where the batches read last begin; the next read starts there, not at the start of the file."""

    def read(
        self, offsets: Mapping[TopicPartition, int], max_bytes: int
    ) -> dict[TopicPartition, FetchResult]:
        """The whole log of each partition from an offset on; files need no limit."""
        return {key: self._read(key, offset) for key, offset in offsets.items()}

    def _read(self, key: TopicPartition, offset: int) -> FetchResult:
        names = segments(self._data.below(key.folder))
        if not names:
            return FetchResult(error=UNKNOWN_TOPIC_OR_PARTITION)
        remembered = self._positions.get(key, {}).get(offset)
        if remembered is not None and remembered.segment in names:
            contents = self._from(key, names, remembered, offset)
            if contents.parsed.batches and contents.parsed.batches[0].offset == offset:
                return contents
        log_start = first_offset(names[0])
        outside = FetchResult(error=OFFSET_OUT_OF_RANGE, log_start=log_start)
        starting = [name for name in names if first_offset(name) <= offset]
        if not starting:
            return outside
        contents = self._from(key, names, _Position(starting[-1], 0), offset)
        following = contents.next_offset
        return outside if offset > log_start and (following is None or following < offset) else contents

    def _from(self, key: TopicPartition, names: list[str], start: _Position, offset: int) -> FetchResult:
        whole = bytearray()
        replica = self._data.below(key.folder)
        begins: dict[int, _Position] = {}
        for name in names[names.index(start.segment) :]:
            position = start.position if name == start.segment else 0
            data, begin = replica.read(name, position), 0
            for batch in parse(data).batches:
                end = begin + batch.size_bytes
                if batch.next_offset > offset:
                    whole += data[begin:end]
                    begins[batch.offset] = _Position(name, position + begin)
                begin = end
        self._positions[key] = dict(list(begins.items())[-64:])
        raw = bytes(whole)
        return FetchResult(
            raw=raw, offset=offset, log_start=first_offset(names[0]), size_bytes=len(raw), to_end=True
        )

    def close(self) -> None:
        """Do nothing: nothing is held open."""


_PERIOD_S = 0.22
_HOT_PERIOD_S = 0.44
"""The pause after a look at a hot log. Half as many looks cost half as much; `LATE_NS` is twice as long."""
_HOT_RECORDS = 1000
"""Records of a broker's replicas that one look finds if their logs are hot."""
LATE_NS = 1_000_000_000
"""From when on records that a look finds count as seen late: claims allow an observation to be as old."""


@dataclass
class _Reached:
    """When a look last reached the end of a replica's log, and that end."""

    ns: int
    offset: int
    behind: bool = False
    """Since then an answer did not reach the end."""
    longest_ns: int = 0
    """How long the slowest answer since then took."""


class TailPoller:
    """Follows all replicas of one broker, and writes `sightings`, `watermarks` and `unobserved`."""

    def __init__(
        self,
        name: str,
        broker: int,
        source: LogSource,
        replicas: Replicas,
        journal: Journal,
        bodies: DecodedBodies,
        watched: WatchedLogs | None = None,
    ) -> None:
        """``replicas`` is called at every poll, so that new topics are followed too.

        Of ``watched`` logs a sighting is written when it is gone, or at the end if it is remembered until
        then.
        """
        self._watched = watched
        self.name = f"{name} (logs)"
        self.period_s = _PERIOD_S
        self._broker = broker
        self._source = source
        self._replicas = replicas
        self._journal = journal
        self._bodies = bodies
        self._tails: dict[TopicPartition, ReplicaTail] = {}
        self._sightings: dict[TopicPartition, SightingsJournal] = {}
        self._reached: dict[TopicPartition, _Reached] = {}
        self._found = 0
        """Records that the last look found."""
        self._watermarks = Watermarks(broker)

    def end(self, key: TopicPartition) -> int:
        """Offset up to which the replica's records are written down as `sightings`; 0 at the beginning."""
        tail = self._tails.get(key)
        return 0 if tail is None else tail.end

    def reached_ns(self, key: TopicPartition) -> int | None:
        """When the end of the replica's log was reached last; None for never."""
        reached = self._reached.get(key)
        return None if reached is None else reached.ns

    def watermarks(self, key: TopicPartition) -> tuple[int, int] | None:
        """`Watermarks.of` the replica."""
        return self._watermarks.of(key)

    def markers(self, key: TopicPartition) -> int:
        """Transaction markers that were seen on the replica, truncated ones too."""
        tail = self._tails.get(key)
        return 0 if tail is None else tail.markers

    def poll(self) -> None:
        """Read what is new on every replica, repeatedly until the ends of the logs are reached."""
        pending = self._replicas()
        for key in pending:
            self._tail(key).look()
        self._found = 0
        for _ in range(8):
            pending = self._step(pending)
            if not pending:
                break
        self.period_s = _HOT_PERIOD_S if self._found >= _HOT_RECORDS else _PERIOD_S

    def _tail(self, key: TopicPartition) -> ReplicaTail:
        if key not in self._tails:
            first = 0 if self._watched is None else self._watched.first.get(key, 0)
            self._tails[key] = ReplicaTail.beginning_at(key, self._bodies, first)
        return self._tails[key]

    def _step(self, keys: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        tails = {key: self._tail(key) for key in keys}
        starts = {key: tail.start for key, tail in tails.items()}
        asked_ns = now_ns()
        try:
            max_bytes = max((tail.max_bytes for tail in tails.values()), default=FETCH_BYTES)
            read = self._source.read(starts, max_bytes)
        except OSError:
            self._silent(keys)
            return ()  # the poller of the broker records that it does not answer
        ns = now_ns()
        unfinished, watermarks = [], []
        changes = update_all([(tails[key], fetched) for key, fetched in read.items()], ns)
        for (key, fetched), (seen, gone) in zip(read.items(), changes, strict=True):
            tail = tails[key]
            self._found += len(seen)
            tail.forget(REMEMBERED if self._watched is None else self._watched.remembered)
            if tail.leo is not None:
                watermarks += self._watermarks.update(key, tail.leo, fetched, ns)
            self._write(key, seen, gone, ns)
            self._account(tail, fetched, asked_ns, ns)
            if tail.looking:
                unfinished.append(key)
        if watermarks:
            self._journal.write_many("watermarks", watermarks)
        return tuple(unfinished)

    def _write(self, key: TopicPartition, seen: Rows, gone: Sequence[Gone], ns: int) -> None:
        for rows in (seen,) if self._watched is None else (one.batches for one in gone):
            self._append(key, rows)
        if gone:
            where = {**key._asdict(), "broker": self._broker, "gone_ns": ns}
            ranges = [{**where, "from_offset": one.from_offset, "to_offset": one.to_offset} for one in gone]
            self._journal.write_many("gone", ranges)

    def _append(self, key: TopicPartition, rows: Rows) -> None:
        if not len(rows):
            return
        if key not in self._sightings:
            self._sightings[key] = SightingsJournal(self._journal.path, *key, self._broker)
        self._sightings[key].append(rows)

    def _account(self, tail: ReplicaTail, fetched: FetchResult, asked_ns: int, ns: int) -> None:
        """Note when the end was reached, and what was seen late because this poller could not keep up.

        How long the slowest answer took does not count: the broker may have been paused.
        """
        key = tail.topic_partition
        reached = self._reached.setdefault(key, _Reached(ns, tail.end))
        reached.longest_ns = max(reached.longest_ns, ns - asked_ns)
        if tail.looking or fetched.error:
            reached.behind = tail.looking
            return
        if ns - reached.ns - reached.longest_ns > LATE_NS and tail.end > reached.offset:
            self._journal.write(
                "unobserved",
                ns=ns,
                source="tail",
                **key._asdict(),
                broker=self._broker,
                since_ns=reached.ns,
                from_offset=reached.offset,
                to_offset=tail.end,
                late=True,
            )
        self._reached[key] = _Reached(ns, tail.end)

    def _silent(self, keys: Iterable[TopicPartition]) -> None:
        """The broker does not answer; what it appends meanwhile nobody could see."""
        for key in keys:
            reached = self._reached.get(key)
            if reached is not None and not reached.behind:
                reached.ns = now_ns()

    def close(self) -> None:
        """Close the source, and write what is remembered of watched logs."""
        self._source.close()
        for key, tail in self._tails.items() if self._watched is not None else ():
            self._append(key, tail.remembered())
