"""Record batches of message formats 0 to 2, from a FETCH response or from `.log` files.

Headers are parsed here, because the libraries' parsers do not expose the leader epoch; `aiokafka.record`
parses the records inside, and decompresses them with `cramjam`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import cramjam
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.default_records import DefaultRecord, DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecord, LegacyRecordBatch

_LEAD = struct.Struct(">qi")
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LEGACY = struct.Struct(">qiIbb")
_MARKER_KEY = struct.Struct(">hh")
"""Version, and the kind of a control record."""
_MARKER_VALUE = struct.Struct(">hi")
"""Version, and the coordinator's epoch."""
_MARKERS: Mapping[int, Literal["abort", "commit"]] = {0: "abort", 1: "commit"}
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_CODEC = 0x07
_CODECS = ("not compressed", "gzip", "snappy", "lz4", "zstd")
_MOST_RECORDS = 1 << 20
"""More records than any batch here has; a larger count means that the header is damaged."""
_DAMAGED = "has a wrong checksum"
_UNREADABLE = (
    *(CorruptRecordException, UnsupportedCodecError, cramjam.DecompressionError, zlib.error),
    *(ValueError, IndexError, EOFError, OSError, struct.error),
)


class Batch(NamedTuple):
    """The header of one batch; a message of format 0 or 1 counts as a batch of its own."""

    offset: int
    next_offset: int
    epoch: int | None
    magic: int
    crc: int
    crc_ok: bool
    """The checksum is right, and the records could be read."""
    size_bytes: int
    problem: str = ""
    """What is wrong with it, as a sentence without a full stop; empty if nothing is."""


class Record(NamedTuple):
    """One record with the fields of its batch. ``epoch`` is None before message format 2."""

    offset: int
    epoch: int | None
    batch_offset: int
    crc: int
    crc_ok: bool
    timestamp_ms: int | None
    producer_id: int
    producer_epoch: int
    sequence: int
    control: bool
    transactional: bool
    key: bytes | None
    value: bytes | None

    @property
    def marker(self) -> TransactionMarker | None:
        """The transaction marker that a control record is; None for other records, and for damaged ones."""
        if not self.control or not self.crc_ok or self.key is None or len(self.key) < _MARKER_KEY.size:
            return None
        _, kind = _MARKER_KEY.unpack_from(self.key)
        if kind not in _MARKERS:
            return None
        versioned = self.value is not None and len(self.value) >= _MARKER_VALUE.size
        epoch = _MARKER_VALUE.unpack_from(self.value)[1] if versioned and self.value is not None else None
        return TransactionMarker(_MARKERS[kind], epoch)


class TransactionMarker(NamedTuple):
    """How a transaction ended in a partition, and the epoch of the coordinator that decided it."""

    end: Literal["commit", "abort"]
    coordinator_epoch: int | None


class ParsedBatches(NamedTuple):
    """The records and batches found, and how many bytes they take."""

    records: list[Record]
    batches: list[Batch]
    consumed_bytes: int

    @property
    def next_offset(self) -> int | None:
        """The offset after the last batch; None when there was none."""
        return self.batches[-1].next_offset if self.batches else None

    @property
    def problems(self) -> list[str]:
        """What is wrong with batches, as sentences without a full stop."""
        return [batch.problem for batch in self.batches if batch.problem]


def parse(data: bytes, from_offset: int = 0) -> ParsedBatches:
    """All complete batches in ``data``; records below ``from_offset`` are left out.

    Stops at an incomplete batch (the end of a FETCH response, or of a file that is being written) and at a
    size of zero or less (the zero-filled tail that a power cut leaves). A batch whose records cannot be read
    gives a record without a value, with ``crc_ok`` false, for each of its offsets (before format 2 only for
    the last, because the others are inside). A compressed batch whose checksum is wrong is not decompressed.
    """
    records: list[Record] = []
    batches: list[Batch] = []
    position, end = 0, len(data)
    while position + 17 <= end:
        _, size = _LEAD.unpack_from(data, position)
        following = position + 12 + size
        if size < 5 or following > end:
            break
        magic = data[position + 16]
        raw = data[position:following]
        if magic == 2 and size >= 49:
            batches.append(_current(raw, from_offset, records))
        elif magic < 2 and size >= 14:
            batches.append(_legacy(raw, magic, from_offset, records))
        else:
            break
        position = following
    return ParsedBatches(records, batches, position)


def _current(raw: bytes, from_offset: int, out: list[Record]) -> Batch:
    base, size, epoch, _, crc, attributes, last_delta, first_ms, _, pid, producer_epoch, sequence, count = (
        _HEADER.unpack_from(raw)
    )
    control, transactional = bool(attributes & _CONTROL), bool(attributes & _TRANSACTIONAL)
    kept, problem = len(out), ""
    try:
        batch = DefaultRecordBatch(raw)
        crc_ok = batch.validate_crc()
        for record in _readable(batch, attributes, crc_ok=crc_ok):
            offset = record.offset
            if offset >= from_offset:
                number = sequence + offset - base if sequence >= 0 else -1
                out.append(
                    Record(
                        offset=offset,
                        epoch=epoch,
                        batch_offset=base,
                        crc=crc,
                        crc_ok=crc_ok,
                        timestamp_ms=record.timestamp,
                        producer_id=pid,
                        producer_epoch=producer_epoch,
                        sequence=number,
                        control=control,
                        transactional=transactional,
                        key=record.key,
                        value=record.value,
                    )
                )
        if not crc_ok:
            problem = _problem(f"batch at offset {base}", attributes, raw, _DAMAGED)
    except _UNREADABLE as error:
        crc_ok = False
        problem = _problem(f"batch at offset {base}", attributes, raw, _why(error))
        del out[kept:]
        believable = count == last_delta + 1 and 0 < count <= _MOST_RECORDS
        out.extend(
            Record(
                offset=offset,
                epoch=epoch,
                batch_offset=base,
                crc=crc,
                crc_ok=False,
                timestamp_ms=first_ms,
                producer_id=pid,
                producer_epoch=producer_epoch,
                sequence=sequence + offset - base if sequence >= 0 else -1,
                control=control,
                transactional=transactional,
                key=None,
                value=None,
            )
            for offset in range(base, base + (count if believable else 1))
            if offset >= from_offset
        )
    return Batch(
        offset=base,
        next_offset=base + last_delta + 1,
        epoch=epoch,
        magic=2,
        crc=crc,
        crc_ok=crc_ok,
        size_bytes=size + 12,
        problem=problem,
    )


def _legacy(raw: bytes, magic: int, from_offset: int, out: list[Record]) -> Batch:
    last, size, crc, _, attributes = _LEGACY.unpack_from(raw)
    first, kept, problem = last, len(out), ""
    try:
        batch = LegacyRecordBatch(raw, magic)
        crc_ok = batch.validate_crc()
        inner = list(_readable(batch, attributes, crc_ok=crc_ok))
        first = inner[0].offset if inner else last
        out.extend(
            _legacy_record(
                r.offset, first, crc, crc_ok=crc_ok, timestamp_ms=r.timestamp, key=r.key, value=r.value
            )
            for r in inner
            if r.offset >= from_offset
        )
        if not crc_ok:
            problem = _problem(f"message at offset {last}", attributes, raw, _DAMAGED)
    except _UNREADABLE as error:
        crc_ok = False
        problem = _problem(f"message at offset {last}", attributes, raw, _why(error))
        del out[kept:]
        if last >= from_offset:
            out.append(_legacy_record(last, last, crc, crc_ok=False, timestamp_ms=None, key=None, value=None))
    return Batch(
        offset=first,
        next_offset=last + 1,
        epoch=None,
        magic=magic,
        crc=crc,
        crc_ok=crc_ok,
        size_bytes=size + 12,
        problem=problem,
    )


def _readable(
    batch: DefaultRecordBatch | LegacyRecordBatch, attributes: int, *, crc_ok: bool
) -> Iterator[DefaultRecord | LegacyRecord]:
    """The records of a batch. Damaged bytes that are not compressed are read as far as they make sense."""
    if attributes & _CODEC and not crc_ok:
        raise CorruptRecordException("its checksum is wrong, so it is not decompressed")
    return iter(batch)


def _why(error: Exception) -> str:
    text = str(error).rpartition("CorruptRecordException: ")[2]
    return f"cannot be read: {text}"


def _problem(what: str, attributes: int, raw: bytes, why: str) -> str:
    codec = attributes & _CODEC
    name = _CODECS[codec] if codec < len(_CODECS) else f"codec {codec}"
    return f"the {what} ({name}, {len(raw)} bytes) {why}"


def _legacy_record(
    offset: int,
    batch_offset: int,
    crc: int,
    *,
    crc_ok: bool,
    timestamp_ms: int | None,
    key: bytes | None,
    value: bytes | None,
) -> Record:
    return Record(
        offset=offset,
        epoch=None,
        batch_offset=batch_offset,
        crc=crc,
        crc_ok=crc_ok,
        timestamp_ms=timestamp_ms,
        producer_id=-1,
        producer_epoch=-1,
        sequence=-1,
        control=False,
        transactional=False,
        key=key,
        value=value,
    )
