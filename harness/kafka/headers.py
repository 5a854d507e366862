"""Headers of record batches as columns, so that logs are compared batch by batch and nothing is decoded."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
from aiokafka.record.util import calc_crc32c

from harness.kafka.batches import LARGEST_OFFSET, positions

_CURRENT = np.dtype(
    [
        ("offset", ">i8"),
        ("size", ">i4"),
        ("epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_delta", ">i4"),
        ("first_ms", ">i8"),
        ("max_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("sequence", ">i4"),
        ("records", ">i4"),
    ]
)
_LEGACY = np.dtype(
    [("offset", ">i8"), ("size", ">i4"), ("crc", ">u4"), ("magic", "i1"), ("attributes", "i1")]
)
HEADER = np.dtype(
    [
        ("offset", "i8"),
        ("next_offset", "i8"),
        ("producer_id", "i8"),
        ("digest", "u8"),
        ("epoch", "i4"),
        ("sequence", "i4"),
        ("size", "i4"),
        ("crc", "u4"),
        ("attributes", "i2"),
        ("producer_epoch", "i2"),
        ("magic", "i1"),
        ("crc_ok", "?"),
    ]
)
"""One batch. ``offset``: the base offset; of a message of format 0 or 1, the offset in its header, which is
that of the last message inside. Such messages have an ``epoch``, ``sequence``, ``producer_id`` and
``producer_epoch`` of -1. ``size``: all bytes. ``digest``: equal for equal headers, which have the checksum.
"""
_WEIGHTS = np.array(
    [0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93]
    + [0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53],
    dtype=np.uint64,
)


@dataclass(frozen=True)
class Headers:
    """The complete batches in ``raw``: ``rows`` of `HEADER`, and where each begins and the last ends."""

    raw: bytes
    rows: npt.NDArray[np.void]
    positions: npt.NDArray[np.int64]

    def after(self, count: int) -> Headers:
        """Those behind the first ``count`` batches."""
        return Headers(self.raw, self.rows[count:], self.positions[count:])


def headers(raw: bytes) -> Headers:
    """The header of each complete batch, with its checksum verified."""
    return headers_of_each([(raw, positions(raw))])[0]


def headers_of_each(logs: Sequence[tuple[bytes, Sequence[int]]]) -> list[Headers]:
    """`headers` of several logs with their `positions`, in one go: few batches of many logs cost little."""
    checksums = [
        calc_crc32c(raw[start + 21 : end]) if raw[start + 16] == 2 else zlib.crc32(raw[start + 16 : end])
        for raw, bounds in logs
        for start, end in pairwise(bounds)
    ]
    octets = logs[0][0] if len(logs) == 1 else b"".join([raw[: bounds[-1]] for raw, bounds in logs])
    bases = [0, *accumulate(bounds[-1] for _, bounds in logs)]
    starts = [base + start for base, (_, bounds) in zip(bases, logs, strict=False) for start in bounds[:-1]]
    every = headers_at(
        octets, np.array([*starts, bases[-1]], dtype=np.int64), np.array(checksums, dtype=np.uint32)
    )
    ends = [0, *accumulate(len(bounds) - 1 for _, bounds in logs)]
    return [
        Headers(raw, every.rows[begin:end], np.array(bounds, dtype=np.int64))
        for (raw, bounds), (begin, end) in zip(logs, pairwise(ends), strict=True)
    ]


def headers_at(raw: bytes, bounds: npt.NDArray[np.int64], checksums: npt.NDArray[np.uint32]) -> Headers:
    """The same where somebody has found where batches begin and end, and the checksum each should have."""
    starts = bounds[:-1]
    rows = np.zeros(len(starts), dtype=HEADER)
    if len(rows):
        octets = np.frombuffer(raw, dtype=np.uint8)
        current = octets[starts + 16] == 2
        _fill_current(rows, np.flatnonzero(current), octets, starts)
        _fill_legacy(rows, np.flatnonzero(~current), octets, starts)
        rows["crc_ok"] = checksums == rows["crc"]
    return Headers(raw, rows, bounds)


def _fill_current(
    rows: npt.NDArray[np.void],
    which: npt.NDArray[np.int64],
    octets: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
) -> None:
    stored = _gathered(octets, starts[which], _CURRENT)
    for name in ("offset", "size", "epoch", "magic", "crc", "attributes"):
        rows[name][which] = stored[name]
    for name in ("producer_id", "producer_epoch", "sequence"):
        rows[name][which] = stored[name]
    rows["size"][which] += 12
    rows["digest"][which] = _digests(stored)
    after = stored["offset"].astype(np.int64) + stored["last_delta"] + 1
    rows["next_offset"][which] = np.where(
        stored["offset"] > LARGEST_OFFSET - (1 << 32), LARGEST_OFFSET, after
    )


def _fill_legacy(
    rows: npt.NDArray[np.void],
    which: npt.NDArray[np.int64],
    octets: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
) -> None:
    stored = _gathered(octets, starts[which], _LEGACY)
    for name in ("offset", "size", "crc", "magic", "attributes"):
        rows[name][which] = stored[name]
    for name in ("producer_id", "producer_epoch", "sequence", "epoch"):
        rows[name][which] = -1
    rows["size"][which] += 12
    rows["digest"][which] = _digests(stored)
    rows["next_offset"][which] = np.where(
        stored["offset"] == LARGEST_OFFSET, LARGEST_OFFSET, stored["offset"] + 1
    )


def _gathered(
    octets: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], header: np.dtype[np.void]
) -> npt.NDArray[np.void]:
    chosen = octets[starts[:, None] + np.arange(header.itemsize)]
    return np.ascontiguousarray(chosen).view(header).reshape(-1)


def _digests(stored: npt.NDArray[np.void]) -> npt.NDArray[np.uint64]:
    padded = np.zeros((len(stored), 64), dtype=np.uint8)
    padded[:, : stored.itemsize] = stored.view(np.uint8).reshape(len(stored), stored.itemsize)
    words = padded.view(np.uint64)
    mixed = (words ^ (words >> np.uint64(29))) * _WEIGHTS
    mixed ^= mixed >> np.uint64(32)
    digests: npt.NDArray[np.uint64] = (mixed * _WEIGHTS[::-1]).sum(axis=1, dtype=np.uint64)
    return digests
