"""Following one broker's replicas during a run: records that appear and vanish, and watermarks.

Logs are read over the wire, or from files where the Kafka version cannot show a follower's log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from harness.clock import now_ns
from harness.history.journal import Journal
from harness.kafka.batches import Parsed, parse
from harness.kafka.model import OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, TopicPartition
from harness.kafka.segments import segments
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.dialect import Dialect
from harness.kafka.wire.logs import Fetched, fetch_own_logs
from harness.kafka.wire.offsets import EARLIEST, end_offsets
from harness.observer.replica_tail import FETCH_BYTES, ReplicaTail
from harness.observer.watermarks import Watermarks

Replicas = Callable[[], tuple[TopicPartition, ...]]
"""The partitions of which this broker has a replica right now."""


class LogSource(Protocol):
    """Reads a broker's own logs from given offsets."""

    def read(self, offsets: Mapping[TopicPartition, int], max_bytes: int) -> dict[TopicPartition, Fetched]:
        """Up to ``max_bytes`` of each partition's log from an offset on. Raises OSError."""

    def close(self) -> None:
        """Release what is held open."""


class WireSource:
    """Reads logs by FETCH with replica id -3 (Kafka 1.1 and later)."""

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        """``connection`` is used by this source alone."""
        self._connection = connection
        self._dialect = dialect

    def read(self, offsets: Mapping[TopicPartition, int], max_bytes: int) -> dict[TopicPartition, Fetched]:
        """One request for all partitions, and one for the log starts of those that lack the offset."""
        read = fetch_own_logs(self._connection, offsets, max_bytes, dialect=self._dialect)
        beyond = [key for key, fetched in read.items() if fetched.error == OFFSET_OUT_OF_RANGE]
        if not beyond:
            return read
        starts = end_offsets(self._connection, beyond, at=EARLIEST, dialect=self._dialect)
        return read | {key: replace(read[key], log_start=starts[key].offset) for key in beyond}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@dataclass(frozen=True)
class _Position:
    file: Path
    position: int


class FileSource:
    """Reads a broker's logs from its data folder, for Kafka before 1.1, whose followers answer no FETCH.

    Reading a file that is being appended to is safe.
    """

    def __init__(self, data_dir: Path) -> None:
        """``data_dir`` is the broker's `log.dirs`."""
        self._data_dir = data_dir
        self._positions: dict[TopicPartition, dict[int, _Position]] = {}
        """Where the batches read last begin; the next read starts there, not at the start of the file."""

    def read(self, offsets: Mapping[TopicPartition, int], max_bytes: int) -> dict[TopicPartition, Fetched]:
        """The whole log of each partition from an offset on; files need no limit."""
        return {key: self._read(key, offset) for key, offset in offsets.items()}

    def _read(self, key: TopicPartition, offset: int) -> Fetched:
        files = segments(self._data_dir / key.folder)
        if not files:
            return Fetched(error=UNKNOWN_TOPIC_OR_PARTITION)
        offset = max(offset, int(files[0].stem))
        known = self._positions.get(key, {}).get(offset)
        if known is not None and known.file in files:
            found = self._from(key, files, known, offset)
            if found.parsed.batches and found.parsed.batches[0].offset == offset:
                return found
        starting = [file for file in files if int(file.stem) <= offset] or files[:1]
        found = self._from(key, files, _Position(starting[-1], 0), offset)
        following = found.parsed.next_offset
        if offset > int(files[0].stem) and (following is None or following < offset):
            return Fetched(error=OFFSET_OUT_OF_RANGE)
        return found

    def _from(self, key: TopicPartition, files: list[Path], start: _Position, offset: int) -> Fetched:
        whole, size = Parsed([], [], 0), 0
        positions: dict[int, _Position] = {}
        for file in files[files.index(start.file) :]:
            position = start.position if file == start.file else 0
            with file.open("rb") as log:
                log.seek(position)
                part = parse(log.read(), offset)
            for batch in part.batches:
                if batch.next_offset > offset:
                    whole.batches.append(batch)
                    positions[batch.offset] = _Position(file, position)
                position += batch.size_bytes
            whole.records.extend(part.records)
            size += part.consumed_bytes
        self._positions[key] = dict(list(positions.items())[-64:])
        parsed = whole._replace(consumed_bytes=size)
        return Fetched(parsed=parsed, log_start=int(files[0].stem), size_bytes=size)

    def close(self) -> None:
        """Do nothing: nothing is held open."""


class TailPoller:
    """Follows all replicas of one broker and writes rows of `sightings`, `gone` and `watermarks`."""

    def __init__(
        self, name: str, broker: int, source: LogSource, replicas: Replicas, journal: Journal
    ) -> None:
        """``replicas`` is called at every poll, so that new topics are followed too."""
        self.name = f"{name} (logs)"
        self.period_s = 0.22
        self._broker = broker
        self._source = source
        self._replicas = replicas
        self._journal = journal
        self._tails: dict[TopicPartition, ReplicaTail] = {}
        self._watermarks = Watermarks(broker)

    def end(self, key: TopicPartition) -> int:
        """Offset up to which the replica's records are written down as `sightings`; 0 at the beginning."""
        tail = self._tails.get(key)
        return 0 if tail is None else tail.end

    def markers(self, key: TopicPartition) -> int:
        """Transaction markers that were seen on the replica, truncated ones too."""
        tail = self._tails.get(key)
        return 0 if tail is None else tail.markers

    def poll(self) -> None:
        """Read what is new on every replica, repeatedly if one read does not reach the end."""
        pending = self._replicas()
        for _ in range(8):
            pending = self._step(pending)
            if not pending:
                return

    def _step(self, keys: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        tails = {
            key: self._tails.setdefault(key, ReplicaTail(topic_partition=key, broker=self._broker))
            for key in keys
        }
        starts = {key: tail.start for key, tail in tails.items()}
        try:
            max_bytes = max((tail.max_bytes for tail in tails.values()), default=FETCH_BYTES)
            read = self._source.read(starts, max_bytes)
        except OSError:
            return ()  # the poller of the broker records that it does not answer
        ns = now_ns()
        unfinished = []
        watermarks = [
            row
            for key, fetched in read.items()
            if (row := self._watermarks.update(key, starts[key], fetched, ns)) is not None
        ]
        if watermarks:
            self._journal.write_many("watermarks", watermarks)
        for key, fetched in read.items():
            sightings, gone = tails[key].update(fetched, ns)
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
