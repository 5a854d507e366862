"""Record batches are read in all formats; the remains of a power cut are not read as records."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import cramjam
import pytest
from record_bytes import batch, message

from harness.host_files import Folder
from harness.kafka.batches import Record, is_at, parse
from harness.kafka.segments import high_watermarks, leader_epochs, raw_log


def test_format_2_shows_what_the_header_says() -> None:
    raw = batch(7, b"a", b"b", epoch=3, producer_id=9, producer_epoch=1, sequence=4, transactional=True)
    parsed = parse(raw)
    assert [(r.offset, r.value, r.epoch, r.sequence) for r in parsed.records] == [
        (7, b"a", 3, 4),
        (8, b"b", 3, 5),
    ]
    first = parsed.records[0]
    assert (first.batch_offset, first.producer_id, first.producer_epoch) == (7, 9, 1)
    assert first.crc_ok and first.transactional and not first.control
    assert parsed.next_offset == 9
    assert parsed.consumed_bytes == len(raw)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_have_no_epoch(magic: int) -> None:
    parsed = parse(message(0, b"a", magic) + message(1, b"b", magic))
    assert [(r.offset, r.value, r.epoch, r.crc_ok) for r in parsed.records] == [
        (0, b"a", None, True),
        (1, b"b", None, True),
    ]


def test_compressed_batches_are_read() -> None:
    assert [r.value for r in parse(batch(0, b"a", b"b", compression=1)).records] == [b"a", b"b"]


def test_records_below_the_offset_asked_for_are_left_out() -> None:
    parsed = parse(batch(0, b"a", b"b", b"c"), from_offset=2)
    assert [r.offset for r in parsed.records] == [2]
    assert parsed.batches[0].offset == 0


def test_reading_stops_at_a_batch_cut_short() -> None:
    whole, cut = batch(0, b"a"), batch(1, b"b")
    for missing in (1, len(cut) - 1):
        parsed = parse(whole + cut[:-missing])
        assert [r.offset for r in parsed.records] == [0]
        assert parsed.consumed_bytes == len(whole)


def test_reading_stops_at_a_zero_filled_tail() -> None:
    whole = batch(0, b"a")
    assert [r.offset for r in parse(whole + bytes(4096)).records] == [0]


def test_an_altered_byte_is_seen_by_its_crc() -> None:
    raw = bytearray(batch(0, b"aaaa"))
    raw[-3] ^= 0xFF
    (record,) = parse(bytes(raw)).records
    assert not record.crc_ok


def test_a_batch_that_cannot_be_read_is_one_record_without_a_value() -> None:
    raw = bytearray(batch(5, b"aaaa", b"bbbb", compression=1))
    raw[61:] = bytes(len(raw) - 61)
    (record,) = parse(bytes(raw) + batch(7, b"c")).records[:1]
    assert (record.offset, record.value, record.crc_ok) == (5, None, False)
    assert parse(bytes(raw) + batch(7, b"c")).next_offset == 8


def sealed(raw: bytes | bytearray) -> bytes:
    """A message of format 0 or 1 with the size and the checksum that its bytes have."""
    made = bytearray(raw)
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">I", made, 12, zlib.crc32(made[16:]))
    return bytes(made)


@pytest.mark.parametrize("size", [-2, -5, -(1 << 31), 1 << 20, (1 << 31) - 1])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("field", ["key", "value"])
@pytest.mark.parametrize("crc_ok", [False, True])
def test_a_size_that_cannot_be_is_a_damaged_message(magic: int, field: str, size: int, crc_ok: bool) -> None:
    raw = bytearray(message(5, b"aaaa", magic))
    struct.pack_into(">i", raw, (18 if magic == 0 else 26) + (4 if field == "value" else 0), size)
    damaged = sealed(raw) if crc_ok else bytes(raw)
    parsed = parse(damaged + message(6, b"b", magic))
    assert [(r.offset, r.value, r.crc_ok) for r in parsed.records] == [(5, None, False), (6, b"b", True)]
    (problem,) = parsed.problems
    assert problem.startswith(f"the message at offset 5 (not compressed, {len(raw)} bytes) cannot be read: ")
    assert f" {size} bytes" in problem


def wrapped(content: bytes, codec: int, offset: int, magic: int, *, attributes: int = 0) -> bytes:
    """A message that holds ``content``, which is compressed already."""
    return sealed(
        struct.pack(">qiIbb", offset, 0, 0, magic, codec | attributes)
        + (struct.pack(">q", 7000) if magic else b"")
        + struct.pack(">ii", -1, len(content))
        + content
    )


@pytest.mark.parametrize("attributes", [0, 0x08])
def test_messages_of_format_1_have_offsets_relative_to_their_last(attributes: int) -> None:
    inside = gzip.compress(message(0, b"a") + message(1, b"b"))
    parsed = parse(wrapped(inside, 1, 11, 1, attributes=attributes))
    stamp = 7000 if attributes else 1000
    assert [(r.offset, r.value, r.timestamp_ms) for r in parsed.records] == [
        (10, b"a", stamp),
        (11, b"b", stamp),
    ]
    assert (parsed.batches[0].offset, parsed.next_offset) == (10, 12)


def test_a_size_inside_a_compressed_message_that_cannot_be_ends_the_reading() -> None:
    """A size of -12 would lead back to the same message for ever."""
    inner = bytearray(message(0, b"a") + message(1, b"b"))
    for size in (-12, -13, 1 << 30):
        struct.pack_into(">i", inner, 26, size)
        (record,) = parse(wrapped(gzip.compress(bytes(inner)), 1, 9, 1)).records
        assert (record.offset, record.value, record.crc_ok) == (9, None, False)


def test_a_message_that_is_compressed_twice_is_damaged() -> None:
    twice = wrapped(gzip.compress(wrapped(gzip.compress(message(0, b"a")), 1, 0, 1)), 1, 3, 1)
    assert parse(twice).problems[0].endswith("cannot be read: it is compressed twice")


def test_a_codec_that_does_not_exist_is_a_damaged_message() -> None:
    for codec in (5, 6, 7):
        assert parse(wrapped(b"", codec, 3, 1)).problems[0].endswith(f"there is no codec {codec}")
        assert parse(wrapped(b"", codec, 3, 0)).problems[0].endswith(f"there is no codec {codec}")


def old_lz4(content: bytes, *, stored: bool) -> bytes:
    """A frame as Kafka writes it in format 0: its header's checksum covers the magic number too."""
    block = content if stored else cramjam.lz4.compress_block(content, store_size=False)
    size = len(block) | (1 << 31 if stored else 0)
    return struct.pack("<IBBBI", 0x184D2204, 0x60, 0x40, 0xA5, size) + bytes(block) + bytes(4)


@pytest.mark.parametrize("stored", [False, True])
def test_lz4_of_format_0_has_a_header_checksum_of_its_own(stored: bool) -> None:
    frame = old_lz4(message(3, b"a" * 90, 0) + message(4, b"b" * 90, 0), stored=stored)
    parsed = parse(wrapped(frame, 3, 4, 0))
    assert [(r.offset, r.value) for r in parsed.records] == [(3, b"a" * 90), (4, b"b" * 90)]
    for end in range(len(frame) - 4):
        cut = parse(wrapped(frame[:end], 3, 4, 0))
        assert [r.crc_ok for r in cut.records] == [False]


@pytest.mark.parametrize(
    "raw",
    [
        batch(5, b"a", b"b", epoch=2),
        batch(5, b"a", compression=3),
        message(5, b"a", 0),
        wrapped(gzip.compress(message(0, b"a") + message(1, b"b")), 1, 6, 1),
    ],
    ids=["v2", "v2 lz4", "v0", "v1 gzip"],
)
def test_a_batch_is_known_again_by_its_header(raw: bytes) -> None:
    (known,) = parse(raw).batches
    assert is_at(b"0" * 40 + raw, 40, known)
    for other in (
        batch(5, b"a", b"b", epoch=3),
        batch(5, b"a", b"c", epoch=2),
        batch(6, b"a", b"b", epoch=2),
        message(5, b"b", 0),
        message(5, b"a", 1),
        message(6, b"a", 0),
    ):
        assert not is_at(other, 0, known)


def test_segments_of_a_folder_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000002.log").write_bytes(batch(2, b"c"))
    (tmp_path / "00000000000000000000.log").write_bytes(batch(0, b"a", b"b"))
    assert [r.value for r in parse(b"".join(raw_log(Folder(tmp_path)))).records] == [b"a", b"b", b"c"]


def test_segments_are_read_in_chunks_of_whole_batches(tmp_path: Path) -> None:
    """A batch that is larger than a chunk is one; what a power cut left behind the last batch is not read."""
    small, large = batch(0, b"a"), batch(1, b"b" * 500)
    (tmp_path / f"{0:020}.log").write_bytes(small + large + batch(2, b"c") + bytes(5000))
    (tmp_path / f"{3:020}.log").write_bytes(batch(3, b"d") + small[:-1])
    chunks = list(raw_log(Folder(tmp_path), at_most=len(small) + 10))
    assert [[r.value for r in parse(chunk).records] for chunk in chunks] == [
        [b"a"],
        [b"b" * 500],
        [b"c"],
        [b"d"],
    ]


def test_checkpoint_files(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 17\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n2\nt 0 5\nother-topic 1 9\n")
    assert leader_epochs(Folder(tmp_path)) == [(0, 0), (3, 17)]
    assert high_watermarks(Folder(tmp_path)) == {("t", 0): 5, ("other-topic", 1): 9}
    assert leader_epochs(Folder(tmp_path / "absent")) is None


@pytest.mark.parametrize(
    ("key", "value", "crc_ok", "marker"),
    [
        (b"\0\0\0\1", b"\0\0\0\0\0\7", True, ("commit", 7)),
        (b"\0\0\0\0", b"\0\0\xff\xff\xff\xff", True, ("abort", -1)),
        (b"\0\0\0\1", b"", True, ("commit", None)),
        (b"\0\0\0\2", b"\0\0\0\0\0\7", True, None),  # LEADER_CHANGE, in KRaft's metadata log
        (b"\0\0\0\1", b"\0\0\0\0\0\7", False, None),
        (None, None, True, None),
    ],
)
def test_transaction_markers(
    key: bytes | None, value: bytes | None, crc_ok: bool, marker: tuple[str, int | None] | None
) -> None:
    record = Record(
        offset=3,
        epoch=1,
        batch_offset=3,
        crc=0,
        crc_ok=crc_ok,
        timestamp_ms=0,
        producer_id=1,
        producer_epoch=0,
        sequence=-1,
        control=True,
        transactional=True,
        key=key,
        value=value,
    )
    assert record.marker == marker
    assert record._replace(control=False).marker is None
