"""The logs of replicas from an offset on, over the wire, as raw batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from checkers.partition.logs import CopyArrays
from checkers.partition.messages import Ints
from checkers.tables.arrays import at_home
from checkers.tables.source import numbers
from harness.host_files import Folder, HostFiles
from harness.kafka.batches import offset_after, positions
from harness.kafka.headers import HEADER, Headers
from harness.kafka.model import OFFSET_OUT_OF_RANGE, TopicPartition, broker_name
from harness.kafka.segments import first_offset, segments
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.dialect import Dialect
from harness.kafka.wire.logs import FetchResult, fetch_more_of_own_logs
from harness.lab.model import DATA
from harness.observer.decoder import Decoder
from harness.observer.targets import Node

_AT_ONCE = 8 << 20
_TIMEOUT_S = 2.0
_PAUSE_S = 2.0
"""For how long a broker that did not answer is left alone."""
ENDS_EARLIER = -1
"""In place of a digest: the log ends before the range does."""


@dataclass(frozen=True)
class Batches:
    """Consecutive batches of a replica, read from an offset on."""

    log: Headers
    which: npt.NDArray[np.int64]
    beyond: bool = False
    """The log ends before the offset."""

    @classmethod
    def of(cls, log: Headers, *, beyond: bool = False) -> Batches:
        """All batches of what was read."""
        return cls(log, np.arange(len(log.rows)), beyond)

    @cached_property
    def rows(self) -> npt.NDArray[np.void]:
        """Their headers."""
        return self.log.rows[self.which]

    def between(self, low: int, high: int) -> Batches:
        """Those that lie in a range of offsets."""
        rows = self.rows
        return Batches(self.log, self.which[(rows["offset"] >= low) & (rows["next_offset"] <= high)])

    @property
    def ends(self) -> Ints:
        """The offset after each."""
        return self.rows["next_offset"]

    @property
    def size_bytes(self) -> int:
        """Their size."""
        return int(self.rows["size"].sum())

    @property
    def digest(self) -> int:
        """Equal for equal headers, which have the checksums; 0 if a checksum is wrong."""
        rows = self.rows
        return digest_of(rows) if rows["crc_ok"].all() else 0

    def decoded(self, decoder: Decoder) -> pa.Table:
        """Their records, as rows of `copies` (`harness.observer.decoder.DECODED`)."""
        return decoder.decode(self.log, self.which).rows

    def copies(self, decoder: Decoder, key: TopicPartition) -> CopyArrays:
        """Their records."""
        return copies_of(self.decoded(decoder), key)


def copies_of(rows: pa.Table, key: TopicPartition) -> CopyArrays:
    """Rows of `copies` of one replica."""
    return CopyArrays(
        offset=numbers(rows, "offset"),
        epoch=numbers(rows, "epoch"),
        writer=numbers(rows, "writer").astype(np.int64),
        seq=numbers(rows, "seq"),
        intact=numbers(rows, "intact", 1).astype(bool),
        at_home=at_home(rows["home"], str(key)),
        control=numbers(rows, "control", 0).astype(bool),
        batch_crc=np.broadcast_to(np.int64(-1), rows.num_rows),
    )


def digest_of(rows: npt.NDArray[np.void]) -> int:
    """A digest of the headers of batches: 64 bits, not 0."""
    text = np.ascontiguousarray(rows["offset"]).tobytes() + np.ascontiguousarray(rows["digest"]).tobytes()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") | 1


@dataclass
class Reader:
    """Reads the logs of one broker's replicas, and leaves it alone for a while if it does not answer."""

    broker: Node
    dialect: Dialect
    _silent_until: float = 0.0

    def read(self, offsets: Mapping[TopicPartition, int], at_most: int) -> dict[TopicPartition, FetchResult]:
        """Each replica from an offset on, up to so many bytes, as far as the broker shows it."""
        if not offsets or time.monotonic() < self._silent_until:
            return {}
        try:
            # A connection remembers its last answers, which are large here.
            with Connection(self.broker.endpoint, timeout_s=_TIMEOUT_S) as connection:
                answers = fetch_more_of_own_logs(connection, offsets, at_most, dialect=self.dialect)
        except OSError:
            self._silent_until = time.monotonic() + _PAUSE_S
            return {}
        return {key: one for key, one in answers.items() if one.error in (0, OFFSET_OUT_OF_RANGE)}


@dataclass
class Replicas:
    """The logs of all brokers."""

    readers: Mapping[int, Reader]
    decoder: Decoder = field(default_factory=Decoder)

    def __post_init__(self) -> None:
        # Threads that stay, since each thread has allocator arenas of its own, which answers of 8 MiB fill.
        self._pool = ThreadPoolExecutor(max(1, len(self.readers)), "replicas")

    @classmethod
    def of(cls, brokers: Sequence[Node], dialect: Dialect) -> Replicas:
        """Those of some brokers."""
        return cls({broker.node_id: Reader(broker, dialect) for broker in brokers})

    def read(
        self, wanted: Mapping[int, Mapping[TopicPartition, int]], at_most: int
    ) -> dict[TopicPartition, dict[int, Batches]]:
        """By topic partition and broker, what was read from the ``wanted`` offsets on; all brokers at once.

        A broker that does not answer is absent. A log that ends before the offset has no batches.
        """
        asked: dict[int, Callable[[], dict[TopicPartition, FetchResult]]] = {
            broker: self._pool.submit(partial(self.readers[broker].read, offsets, at_most)).result
            for broker, offsets in wanted.items()
        }
        answers = {broker: result() for broker, result in asked.items()}
        found: dict[TopicPartition, dict[int, Batches]] = {}
        for broker, by_key in answers.items():
            for key, one in by_key.items():
                batches = Batches.of(self.decoder.headers(one.raw), beyond=one.error == OFFSET_OUT_OF_RANGE)
                found.setdefault(key, {})[broker] = batches
        return found

    def digests(
        self, broker: int, key: TopicPartition, ranges: Sequence[tuple[int, int]], at_most: int
    ) -> Iterator[int | None]:
        """The digest of each of some adjacent ranges of a replica, as `Batches.digest`.

        `ENDS_EARLIER` if the log does, None if there was no answer; both end it. Reads ``at_most`` bytes at a
        time.
        """
        position, read = ranges[0][0] if ranges else 0, np.empty(0, dtype=HEADER)
        for low, high in ranges:
            while position < high:
                got = self.read({broker: {key: position}}, at_most).get(key, {}).get(broker)
                if got is None:
                    yield None
                    return
                if not len(got.which):
                    yield ENDS_EARLIER
                    return
                read = np.concatenate([read, got.rows])
                position = int(read["next_offset"][-1])
            inside = read[read["offset"] < high]
            read = read[read["offset"] >= high]
            whole = len(inside) and inside["offset"][0] == low and inside["next_offset"][-1] == high
            yield digest_of(inside) if whole and inside["crc_ok"].all() else 0

    def close(self) -> None:
        """End the decoder, and the threads."""
        self._pool.shutdown()
        self.decoder.close()


@dataclass
class StoredReplicas(Replicas):
    """The logs of brokers that have ended, in their files."""

    data: Mapping[int, HostFiles] = field(default_factory=dict)
    """`log.dirs` of each broker."""
    _known: dict[tuple[int, TopicPartition, int], tuple[str, int]] = field(default_factory=dict)
    """Where in its segments a replica's batches from an offset on begin, as far as they were read."""

    @classmethod
    def below(cls, nodes: Path, brokers: Iterable[int]) -> StoredReplicas:
        """Those whose hosts' files are below a folder."""
        return cls({}, data={broker: Folder(nodes / broker_name(broker)).below(DATA) for broker in brokers})

    def read(
        self, wanted: Mapping[int, Mapping[TopicPartition, int]], at_most: int
    ) -> dict[TopicPartition, dict[int, Batches]]:
        """As of brokers that run."""
        found: dict[TopicPartition, dict[int, Batches]] = {}
        for broker, offsets in wanted.items():
            for key, offset in offsets.items():
                raw, end = self._read(broker, key, offset, at_most)
                batches = Batches.of(self.decoder.headers(raw), beyond=end < offset)
                found.setdefault(key, {})[broker] = batches
        return found

    def end(self, broker: int, key: TopicPartition) -> tuple[int, int]:
        """Leader epoch of a replica's last batch, and the offset after it; -1 and 0 of an empty log."""
        epoch, position = -1, 0
        files = self.data[broker].below(key.folder)
        if names := segments(files):
            position = first_offset(names[-1])
        while True:
            raw, _ = self._read(broker, key, position, _AT_ONCE)
            rows = self.decoder.headers(raw).rows
            if not len(rows):
                return epoch, position
            epoch, position = int(rows["epoch"][-1]), int(rows["next_offset"][-1])

    def _read(self, broker: int, key: TopicPartition, offset: int, at_most: int) -> tuple[bytes, int]:
        """Complete batches from an offset on, of one segment; and the offset after the last that was seen."""
        files = self.data[broker].below(key.folder)
        names = segments(files)
        for place, name in enumerate(names):
            if place + 1 < len(names) and first_offset(names[place + 1]) <= offset:
                continue
            known, start = self._known.get((broker, key, offset), (name, 0))
            raw, end = self._from(files, name, start if known == name else 0, offset, at_most)
            if not len(raw) and place + 1 < len(names):
                continue  # the next segment begins at the offset, or after it
            bounds = positions(raw)
            if len(bounds) > 1:
                after = offset_after(raw, bounds[-2])
                self._known[broker, key, after] = (name, end)
                return raw, after
            return b"", self._last(files, name)
        return b"", 0

    def _from(self, files: HostFiles, name: str, start: int, offset: int, at_most: int) -> tuple[bytes, int]:
        """Complete batches of a segment that end behind an offset, and where in the file they end."""
        size = at_most
        while data := files.read(name, start, size):
            bounds = positions(data)
            inside = [at for at in bounds[:-1] if offset_after(data, at) > offset]
            if inside:
                return data[inside[0] : bounds[-1]], start + bounds[-1]
            if bounds[-1]:
                start += bounds[-1]
            elif len(data) < size:
                break
            else:
                size *= 2
        return b"", start

    def _last(self, files: HostFiles, name: str) -> int:
        """The offset after a segment's last batch."""
        start, last = 0, first_offset(name)
        while data := files.read(name, start, _AT_ONCE):
            bounds = positions(data)
            if not bounds[-1]:
                break
            start, last = start + bounds[-1], offset_after(data, bounds[-2])
        return last
