"""What the records of batches say, decoded once for all replicas that hold a batch.

Replicas are followed at nearly the same time, so a batch is needed by the others shortly after the first. Of
each topic partition memory holds the newest records; a replica that is far behind has its batches decoded
again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt

from harness.history.sightings import ROW, Rows
from harness.kafka.headers import Headers, headers
from harness.kafka.model import TopicPartition
from harness.kafka.wire.logs import FetchResult
from harness.observer.decoder import Decoded, Decoder

_KEPT_ROWS = 200_000
"""Records of a topic partition that are kept, at least if there are as many: 6 MB."""
_MOST_CHUNKS = 64
_WORTH_ASKING = 1 << 16
"""Bytes from which on the decoder finds batches sooner than the reader here."""


@dataclass(frozen=True)
class Bodies:
    """Of each batch its number of records and their first offset; and all records, one batch after another.

    ``seen_ns`` of the rows is 0.
    """

    counts: npt.NDArray[np.int64]
    first_offsets: npt.NDArray[np.int64]
    rows: Rows


@dataclass(frozen=True, kw_only=True)
class _Chunk:
    """Batches that were decoded together and are sound; their offsets rise."""

    offsets: npt.NDArray[np.int64]
    digests: npt.NDArray[np.uint64]
    first_offsets: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    """Where the rows of each batch begin."""
    counts: npt.NDArray[np.int64]
    rows: Rows


class DecodedBodies:
    """The bodies of batches of all replicas. Thread-safe."""

    def __init__(self, decoder: Decoder) -> None:
        """``decoder`` is closed by its owner."""
        self._decoder = decoder
        self._lock = Lock()
        self._locks: dict[TopicPartition, Lock] = {}
        self._chunks: defaultdict[TopicPartition, list[_Chunk]] = defaultdict(list)

    def headers(self, fetched: FetchResult) -> Headers:
        """The complete batches that were fetched."""
        if len(fetched.raw) < _WORTH_ASKING:
            return headers(fetched.raw, fetched.positions)
        return self._decoder.headers(fetched.raw)

    def of(self, key: TopicPartition, log: Headers) -> Bodies:
        """What batches of a topic partition hold."""
        if len(log.rows) == 0:
            nothing = np.zeros(0, dtype=np.int64)
            return Bodies(nothing, nothing, np.zeros(0, dtype=ROW))
        with self._lock_of(key):
            chunk, place = self._found(key, log.rows)
            new = np.flatnonzero(chunk < 0)
            fresh = [] if len(new) == 0 else [self._decode(key, log, new)]
            if len(new) == len(log.rows):
                return fresh[0]
            return _together(self._chunks[key], chunk, place, new, fresh)

    def _lock_of(self, key: TopicPartition) -> Lock:
        with self._lock:
            return self._locks.setdefault(key, Lock())

    def _found(
        self, key: TopicPartition, rows: npt.NDArray[np.void]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The chunk of each batch and its place there; -1: it is in none."""
        chunk, place = np.full(len(rows), -1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        for number, one in enumerate(self._chunks[key]):
            if one.offsets[0] > rows["offset"][-1] or one.offsets[-1] < rows["offset"][0]:
                continue
            at = np.minimum(np.searchsorted(one.offsets, rows["offset"]), len(one.offsets) - 1)
            same = (one.offsets[at] == rows["offset"]) & (one.digests[at] == rows["digest"]) & rows["crc_ok"]
            chunk[same], place[same] = number, at[same]
        return chunk, place

    def _decode(self, key: TopicPartition, log: Headers, new: npt.NDArray[np.int64]) -> Bodies:
        decoded = self._decoder.decode(log, new)
        bodies = Bodies(decoded.counts, decoded.first_offsets, _rows(decoded))
        header = log.rows[new]
        sound = header["crc_ok"].copy()
        sound[list(decoded.problems)] = False
        highest = np.maximum.accumulate(np.concatenate([[-1], header["offset"]]))[:-1]
        kept = np.flatnonzero(sound & (header["offset"] > highest))
        if len(kept):
            begins = np.cumsum(decoded.counts) - decoded.counts
            self._chunks[key].append(
                _Chunk(
                    offsets=header["offset"][kept],
                    digests=header["digest"][kept],
                    first_offsets=decoded.first_offsets[kept],
                    begins=begins[kept],
                    counts=decoded.counts[kept],
                    rows=bodies.rows,
                )
            )
        return bodies

    def forget(self, key: TopicPartition) -> None:
        """Drop the oldest records of a topic partition if there are many."""
        with self._lock_of(key):
            chunks = self._chunks[key]
            total = sum(len(one.rows) for one in chunks)
            while len(chunks) > _MOST_CHUNKS or (chunks and total - len(chunks[0].rows) >= _KEPT_ROWS):
                total -= len(chunks.pop(0).rows)


def _together(
    chunks: list[_Chunk],
    chunk: npt.NDArray[np.int64],
    place: npt.NDArray[np.int64],
    new: npt.NDArray[np.int64],
    fresh: list[Bodies],
) -> Bodies:
    """Batches that were found in chunks, with those that are new in their places."""
    counts = np.zeros(len(chunk), dtype=np.int64)
    first_offsets = np.zeros(len(chunk), dtype=np.int64)
    sources: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Rows]] = []
    for bodies in fresh:
        counts[new], first_offsets[new] = bodies.counts, bodies.first_offsets
        sources.append((new, np.cumsum(bodies.counts) - bodies.counts, bodies.rows))
    for number in np.unique(chunk[chunk >= 0]).tolist():
        which, one = np.flatnonzero(chunk == number), chunks[number]
        at = place[which]
        counts[which], first_offsets[which] = one.counts[at], one.first_offsets[at]
        sources.append((which, one.begins[at], one.rows))
    rows = np.zeros(int(counts.sum()), dtype=ROW)
    targets = np.cumsum(counts) - counts
    for which, begins, stored in sources:
        sizes = counts[which]
        inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows[np.repeat(targets[which], sizes) + inside] = stored[np.repeat(begins, sizes) + inside]
    return Bodies(counts, first_offsets, rows)


def _rows(decoded: Decoded) -> Rows:
    rows = np.zeros(decoded.rows.num_rows, dtype=ROW)
    for name in ("offset", "epoch", "seq", "writer"):
        rows[name] = decoded.rows[name].fill_null(-1).to_numpy()
    return rows
