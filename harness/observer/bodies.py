"""What the records of batches say, decoded once for all replicas that hold a batch.

Replicas are followed at nearly the same time, so a batch is needed by the others shortly after the first. Of
each topic partition memory holds the newest records; a replica that is far behind has its batches decoded
again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt

from harness.history.sightings import ROW, Rows
from harness.kafka.headers import Headers, headers_of_each
from harness.kafka.model import TopicPartition
from harness.kafka.wire.logs import FetchResult
from harness.observer.decoder import WORTH_ASKING, Decoded, Decoder

_KEPT_ROWS = 200_000
"""Records of a topic partition that are kept, at least if there are as many: 6 MB."""
_MOST_CHUNKS = 64


@dataclass(frozen=True)
class Bodies:
    """Of each batch its number of records and their first offset; and all records, one batch after another.

    ``seen_ns`` of the rows is 0. Others may have the same rows: nobody may change them.
    """

    counts: npt.NDArray[np.int64]
    first_offsets: npt.NDArray[np.int64]
    rows: Rows


NO_BODIES = Bodies(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=ROW))


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
    ends: tuple[int, int]
    """The first and the last of the offsets."""


class DecodedBodies:
    """The bodies of batches of all replicas. Thread-safe."""

    def __init__(self, decoder: Decoder) -> None:
        """``decoder`` is closed by its owner."""
        self._decoder = decoder
        self._lock = Lock()
        self._chunks: defaultdict[TopicPartition, list[_Chunk]] = defaultdict(list)
        self._row_counts: defaultdict[TopicPartition, int] = defaultdict(int)

    def headers(self, answers: Sequence[FetchResult]) -> list[Headers]:
        """The complete batches of each of the answers."""
        short = iter(
            headers_of_each(
                [(answer.raw, answer.positions) for answer in answers if len(answer.raw) < WORTH_ASKING]
            )
        )
        return [
            next(short) if len(answer.raw) < WORTH_ASKING else self._decoder.headers(answer.raw)
            for answer in answers
        ]

    def of(self, logs: Mapping[TopicPartition, Headers]) -> dict[TopicPartition, Bodies]:
        """What batches of topic partitions hold; those that are new are decoded in one go."""
        with self._lock:
            found = {key: self._found(key, log.rows) for key, log in logs.items() if len(log.rows)}
            missing = {key: np.flatnonzero(chunk < 0) for key, (chunk, _) in found.items()}
            known = {key: list(self._chunks[key]) for key in found}
            fresh = self._decode({key: (logs[key], new) for key, new in missing.items() if len(new)})
            bodies = dict.fromkeys(logs, NO_BODIES)
            for key, (chunk, place) in found.items():
                new = missing[key]
                bodies[key] = (
                    fresh[key]
                    if len(new) == len(chunk)
                    else _stretch(known[key], chunk, place)
                    or _together(known[key], chunk, place, new, fresh.get(key))
                )
            return bodies

    def _found(
        self, key: TopicPartition, rows: npt.NDArray[np.void]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The chunk of each batch and its place there; -1: it is in none."""
        chunk, place = np.full(len(rows), -1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        offsets = rows["offset"]
        first, last = int(offsets[0]), int(offsets[-1])
        for number, one in enumerate(self._chunks[key]):
            if one.ends[0] > last or one.ends[1] < first:
                continue
            at = np.minimum(np.searchsorted(one.offsets, offsets), len(one.offsets) - 1)
            same = (one.offsets[at] == offsets) & (one.digests[at] == rows["digest"]) & rows["crc_ok"]
            chunk[same], place[same] = number, at[same]
        return chunk, place

    def _decode(
        self, logs: Mapping[TopicPartition, tuple[Headers, npt.NDArray[np.int64]]]
    ) -> dict[TopicPartition, Bodies]:
        """The bodies of some batches of each log, which are remembered."""
        if len(logs) == 1:
            ((log, which),) = logs.values()
        elif logs:
            log = _joined([(log, new) for log, new in logs.values()])
            which = np.arange(len(log.rows))
        else:
            return {}
        decoded = self._decoder.decode(log, which)
        rows, header = _rows(decoded), log.rows[which]
        sound = header["crc_ok"].copy()
        sound[list(decoded.problems)] = False
        begins = np.cumsum(decoded.counts) - decoded.counts
        bodies, begin = {}, 0
        for key, (_, new) in logs.items():
            end = begin + len(new)
            counts, first_offsets = decoded.counts[begin:end], decoded.first_offsets[begin:end]
            row = int(begins[begin])
            own = rows[row : row + int(counts.sum())]
            own = own if len(logs) == 1 else own.copy()  # else the rows of a busy log last as long
            bodies[key] = Bodies(counts, first_offsets, own)
            self._keep(key, header[begin:end], sound[begin:end], begins[begin:end] - row, bodies[key])
            begin = end
        return bodies

    def _keep(
        self,
        key: TopicPartition,
        header: npt.NDArray[np.void],
        sound: npt.NDArray[np.bool_],
        begins: npt.NDArray[np.int64],
        bodies: Bodies,
    ) -> None:
        """Remember the batches that are sound, and drop the oldest if there are many."""
        offsets = header["offset"]
        kept = sound.copy()
        kept[1:] &= offsets[1:] > np.maximum.accumulate(offsets)[:-1]
        kept &= offsets >= 0
        offsets = offsets[kept]
        if not len(offsets):
            return
        chunks, total = self._chunks[key], self._row_counts[key] + len(bodies.rows)
        chunks.append(
            _Chunk(
                offsets=offsets,
                digests=header["digest"][kept],
                first_offsets=bodies.first_offsets[kept],
                begins=begins[kept],
                counts=bodies.counts[kept],
                rows=bodies.rows,
                ends=(int(offsets[0]), int(offsets[-1])),
            )
        )
        while len(chunks) > _MOST_CHUNKS or total - len(chunks[0].rows) >= _KEPT_ROWS:
            total -= len(chunks.pop(0).rows)
        self._row_counts[key] = total


def _joined(logs: Sequence[tuple[Headers, npt.NDArray[np.int64]]]) -> Headers:
    """Some batches of several logs, one after the other."""
    raws = [
        log.raw[log.positions[number] : log.positions[number + 1]]
        for log, which in logs
        for number in which.tolist()
    ]
    rows = np.concatenate([log.rows[which] for log, which in logs])
    return Headers(b"".join(raws), rows, np.cumsum([0, *map(len, raws)]))


def _stretch(
    chunks: list[_Chunk], chunk: npt.NDArray[np.int64], place: npt.NDArray[np.int64]
) -> Bodies | None:
    """Batches that follow each other in one chunk, as they mostly do; None if they do not."""
    number, first, end = int(chunk[0]), int(place[0]), int(place[-1]) + 1
    if number < 0 or end - first != len(place) or not (chunk == number).all():
        return None
    one = chunks[number]
    counts, begin = one.counts[first:end], int(one.begins[first])
    size = int(one.begins[end - 1] + one.counts[end - 1]) - begin
    if size != int(counts.sum()) or not (np.diff(place) == 1).all():
        return None
    return Bodies(counts, one.first_offsets[first:end], one.rows[begin : begin + size])


def _together(
    chunks: list[_Chunk],
    chunk: npt.NDArray[np.int64],
    place: npt.NDArray[np.int64],
    new: npt.NDArray[np.int64],
    fresh: Bodies | None,
) -> Bodies:
    """Batches that were found in chunks, with those that are new in their places."""
    counts = np.zeros(len(chunk), dtype=np.int64)
    first_offsets = np.zeros(len(chunk), dtype=np.int64)
    sources: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Rows]] = []
    if fresh is not None:
        counts[new], first_offsets[new] = fresh.counts, fresh.first_offsets
        sources.append((new, np.cumsum(fresh.counts) - fresh.counts, fresh.rows))
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
