"""Record batches are read in all formats; the remains of a power cut are not read as records."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_bytes import batch, message

from harness.host_files import Folder
from harness.kafka.batches import Record, parse
from harness.kafka.segments import high_watermarks, leader_epochs, read_folder


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


def test_segments_of_a_folder_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000002.log").write_bytes(batch(2, b"c"))
    (tmp_path / "00000000000000000000.log").write_bytes(batch(0, b"a", b"b"))
    assert [r.value for r in read_folder(Folder(tmp_path)).records] == [b"a", b"b", b"c"]
    assert [r.value for r in read_folder(Folder(tmp_path), from_offset=2).records] == [b"c"]


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
