"""Record batches of message formats 0 to 2, from a FETCH response or from `.log` files.

Headers and messages of formats 0 and 1 are parsed here: the libraries' parsers do not expose the leader
epoch, and believe a damaged size. `aiokafka` parses the records of format 2, and decompresses with `cramjam`.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Literal, NamedTuple

import cramjam
from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.default_records import DefaultRecord, DefaultRecordBatch

_LEAD = struct.Struct(">qi")
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LEGACY = struct.Struct(">qiIbb")
_SIZE = struct.Struct(">i")
_LONG = struct.Struct(">q")
_MARKER_KEY = struct.Struct(">hh")
"""Version, and the kind of a control record."""
_MARKER_VALUE = struct.Struct(">hi")
"""Version, and the coordinator's epoch."""
_MARKERS: Mapping[int, Literal["abort", "commit"]] = {0: "abort", 1: "commit"}
_TRANSACTIONAL = 0x10
CONTROL = 0x20
_APPEND_TIME = 0x08
_CODEC = 0x07
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of codecs, by their numbers in a batch."""
LARGEST_OFFSET = (1 << 63) - 1
_MOST_RECORDS = 1 << 20
"""More records than any batch here has; a larger count means that the header is damaged."""
_DAMAGED = "has a wrong checksum"
_NOT_DECOMPRESSED = "its checksum is wrong, so it is not decompressed"
_BEHIND = re.compile(r"Can't read -?\d+ bytes from pos \d+")
_UNREADABLE = (
    *(CorruptRecordException, UnsupportedCodecError, cramjam.DecompressionError, zlib.error, SystemError),
    *(ValueError, IndexError, EOFError, OSError, MemoryError, OverflowError, struct.error),
)
_DECODERS = {1: gzip_decode, 2: snappy_decode, 3: lz4_decode, 4: zstd_decode}
_LZ4_BLOCK_SIZES: Mapping[int, int] = {number: 1 << (8 + 2 * number) for number in (4, 5, 6, 7)}
"""Largest block of an LZ4 frame, in bytes, by the number in the frame's header."""


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


def parse(data: bytes, from_offset: int = 0, *, bodies: bool = True) -> ParsedBatches:
    """All complete batches in ``data``; records below ``from_offset`` are left out.

    Without ``bodies`` the records inside are not read: one record, without key and value, stands for a batch,
    with its first offset (before format 2 its last) and its last timestamp.

    Stops at an incomplete batch (the end of a FETCH response, or of a file that is being written) and at a
    size of zero or less (the zero-filled tail that a power cut leaves). A batch whose records cannot be read
    gives a record without a value, with ``crc_ok`` false, for each of its offsets (before format 2 only for
    the last, because the others are inside). A compressed batch whose checksum is wrong is not decompressed.
    """
    records: list[Record] = []
    batches: list[Batch] = []
    bounds = positions(data)
    for start, end in pairwise(bounds):
        batches.append(read_batch(data[start:end], from_offset, records, bodies=bodies))
    return ParsedBatches(records, batches, bounds[-1])


def positions(data: bytes) -> list[int]:
    """Where each complete batch in ``data`` begins and, last, where they end; nothing is decoded."""
    bounds, position, end = [0], 0, len(data)
    while position + 17 <= end:
        (size,) = _SIZE.unpack_from(data, position + 8)
        position += 12 + size
        magic = data[bounds[-1] + 16]
        if size < 5 or position > end or not (magic == 2 and size >= 49 or magic < 2 and size >= 14):
            break
        bounds.append(position)
    return bounds


def offset_after(data: bytes, position: int) -> int:
    """The offset after the batch at a position."""
    offset: int = _LONG.unpack_from(data, position)[0]
    last_delta: int = _SIZE.unpack_from(data, position + 23)[0] if data[position + 16] == 2 else 0
    return min(offset + last_delta + 1, LARGEST_OFFSET)


def is_at(data: bytes, position: int, batch: Batch) -> bool:
    """Whether the complete batch at a position is ``batch``, by its header; nothing is decoded."""
    if data[position + 16] != batch.magic or offset_after(data, position) != batch.next_offset:
        return False
    if batch.magic < 2:
        return bool(_LEGACY.unpack_from(data, position)[2] == batch.crc)
    offset, _, epoch, _, crc, *_ = _HEADER.unpack_from(data, position)
    return bool((offset, epoch, crc) == (batch.offset, batch.epoch, batch.crc))


def read_batch(raw: bytes, from_offset: int, records: list[Record], *, bodies: bool = True) -> Batch:
    """One complete batch; its records from an offset on are added to ``records`` (see `parse`)."""
    return (_current if raw[16] == 2 else _legacy)(raw, from_offset, records, bodies=bodies)


def _current(raw: bytes, from_offset: int, out: list[Record], *, bodies: bool) -> Batch:
    base, size, epoch, _, crc, attributes, last_delta, first_ms, last_ms, pid, pid_epoch, first, count = (
        _HEADER.unpack_from(raw)
    )
    control, transactional = bool(attributes & CONTROL), bool(attributes & _TRANSACTIONAL)

    def add(offset: int, sequence: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> None:
        if offset >= from_offset:
            out.append(
                Record(
                    offset=offset,
                    epoch=epoch,
                    batch_offset=base,
                    crc=crc,
                    crc_ok=crc_ok,
                    timestamp_ms=timestamp_ms,
                    producer_id=pid,
                    producer_epoch=pid_epoch,
                    sequence=sequence,
                    control=control,
                    transactional=transactional,
                    key=key,
                    value=value,
                )
            )

    kept, problem = len(out), ""
    try:
        batch = DefaultRecordBatch(raw)
        crc_ok = batch.validate_crc()
        if bodies:
            for record in _readable(batch, attributes, crc_ok=crc_ok):
                sequence = _number(first, record.offset - base)
                add(record.offset, sequence, record.timestamp, record.key, record.value)
        else:
            add(base, first, last_ms, None, None)
        if not crc_ok:
            problem = _problem(f"batch at offset {base}", attributes, raw, _DAMAGED)
    except _UNREADABLE as error:
        crc_ok = False
        problem = _problem(f"batch at offset {base}", attributes, raw, _why(error))
        del out[kept:]
        believable = count == last_delta + 1 and 0 < count <= min(_MOST_RECORDS, LARGEST_OFFSET - base)
        for delta in range(count if believable else 1):
            add(base + delta, _number(first, delta), first_ms, None, None)
    return Batch(
        offset=base,
        next_offset=min(base + last_delta + 1, LARGEST_OFFSET),
        epoch=epoch,
        magic=2,
        crc=crc,
        crc_ok=crc_ok,
        size_bytes=size + 12,
        problem=problem,
    )


def _legacy(raw: bytes, from_offset: int, out: list[Record], *, bodies: bool) -> Batch:
    last, size, crc, magic, attributes = _LEGACY.unpack_from(raw)
    first, kept, problem = last, len(out), ""
    crc_ok = zlib.crc32(raw[16:]) == crc
    try:
        alone = _Message(
            offset=last, attributes=attributes, timestamp_ms=None, key=None, value=None, end=len(raw)
        )
        inner = _messages(raw, magic, attributes, crc_ok=crc_ok) if bodies else [alone]
        first = inner[0].offset if inner else last
        out.extend(
            _legacy_record(
                m.offset, first, crc, crc_ok=crc_ok, timestamp_ms=m.timestamp_ms, key=m.key, value=m.value
            )
            for m in inner
            if m.offset >= from_offset
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
        next_offset=min(last + 1, LARGEST_OFFSET),
        epoch=None,
        magic=magic,
        crc=crc,
        crc_ok=crc_ok,
        size_bytes=size + 12,
        problem=problem,
    )


def _number(base_sequence: int, delta: int) -> int:
    """The sequence number of a record; Kafka counts from 0 again after the largest."""
    return (base_sequence + delta) & 0x7FFFFFFF if base_sequence >= 0 else -1


class _Message(NamedTuple):
    """A message of format 0 or 1; ``end`` is the position behind its value."""

    offset: int
    attributes: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    end: int


def _messages(raw: bytes, magic: int, attributes: int, *, crc_ok: bool) -> list[_Message]:
    """The message itself, or the messages that it holds compressed, with their own offsets."""
    codec = attributes & _CODEC
    if codec and not crc_ok:
        raise CorruptRecordException(_NOT_DECOMPRESSED)
    outer = _message(raw, 0)
    if not codec:
        return [outer]
    if outer.value is None:
        raise CorruptRecordException("a compressed message has no value")
    content, position, inner = _decompressed(outer.value, codec, magic), 0, list[_Message]()
    while position < len(content):
        inner.append(_message(content, position))
        position = inner[-1].end
        if inner[-1].attributes & _CODEC:
            raise CorruptRecordException("it is compressed twice")
    before = outer.offset - inner[-1].offset if magic > 0 and inner else 0  # format 1: offsets are relative
    stamped = attributes & _APPEND_TIME
    return [
        one._replace(
            offset=min(one.offset + max(0, before), LARGEST_OFFSET),
            timestamp_ms=outer.timestamp_ms if stamped else one.timestamp_ms,
        )
        for one in inner
    ]


def _message(data: bytes, position: int) -> _Message:
    offset, _, _, magic, attributes = _LEGACY.unpack_from(data, position)
    position += _LEGACY.size
    timestamp_ms = None
    if magic == 1:
        timestamp_ms = _LONG.unpack_from(data, position)[0]
        position += _LONG.size
    key, position = _sized(data, position)
    value, position = _sized(data, position)
    return _Message(
        offset=offset,
        attributes=attributes,
        timestamp_ms=None if timestamp_ms == -1 else timestamp_ms,
        key=key,
        value=value,
        end=position,
    )


def _sized(data: bytes, position: int) -> tuple[bytes | None, int]:
    """A key or a value, and the position behind it; a size of -1 means that there is none."""
    (size,) = _SIZE.unpack_from(data, position)
    start = position + _SIZE.size
    if size == -1:
        return None, start
    if size < 0 or start + size > len(data):
        raise CorruptRecordException(f"a key or value of {size} bytes at position {start} of {len(data)}")
    return data[start : start + size], start + size


def _decompressed(value: bytes, codec: int, magic: int) -> bytes:
    if codec == 3 and magic == 0:
        return _old_lz4(value)
    if codec not in _DECODERS:
        raise UnsupportedCodecError(f"there is no codec {codec}")
    return bytes(_DECODERS[codec](value))


def _old_lz4(frame: bytes) -> bytes:
    """The content of an LZ4 frame as Kafka wrote it in format 0, whose header has a checksum of its own kind.

    Such a frame has independent blocks, and neither checksums nor a content size.
    """
    magic, flags, sizes = struct.unpack_from("<IBB", frame)
    largest = _LZ4_BLOCK_SIZES.get(sizes >> 4 & 0x07)
    if magic != 0x184D2204 or largest is None or flags & 0x3F != 0x20:
        raise CorruptRecordException("not an LZ4 frame as Kafka writes it in message format 0")
    position, content, space = 7, bytearray(), bytearray(largest)
    while True:  # the frame ends with a block of no size; without one, unpacking ends the loop
        (size,) = struct.unpack_from("<I", frame, position)
        position += 4
        if size == 0:
            return bytes(content)
        length = size & 0x7FFFFFFF
        block: bytes | bytearray = frame[position : position + length]
        if len(block) < length:
            raise CorruptRecordException("an LZ4 block ends early")
        if size == length:
            block = space[: cramjam.lz4.decompress_block_into(block, space, output_len=largest)]
        content += block
        position += length


def _readable(batch: DefaultRecordBatch, attributes: int, *, crc_ok: bool) -> Iterator[DefaultRecord]:
    """The records of a batch. Damaged bytes that are not compressed are read as far as they make sense."""
    if attributes & _CODEC and not crc_ok:
        raise CorruptRecordException(_NOT_DECOMPRESSED)
    return iter(batch)


def _why(error: Exception) -> str:
    text = str(error).rpartition("CorruptRecordException: ")[2]
    # The parser takes lengths from behind the batch, where any bytes may lie, so its number says nothing.
    return f"cannot be read: {_BEHIND.sub('a record ends behind the batch', text)}"


def _problem(what: str, attributes: int, raw: bytes, why: str) -> str:
    codec = attributes & _CODEC
    name = CODECS[codec] if codec < len(CODECS) else f"codec {codec}"
    name = name if codec else "not compressed"
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
