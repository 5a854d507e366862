"""Batches of watched topics: their headers say all that is compared, and no record is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_bytes import batch, message

from harness.kafka.batches import parse

STORED = sorted((Path(__file__).parent / "batches").glob("*.bin"))


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_batches_are_those_that_reading_their_records_finds(file: Path) -> None:
    whole, headers = parse(file.read_bytes()), parse(file.read_bytes(), bodies=False)
    assert headers.batches == whole.batches
    assert [one.offset for one in headers.records] == [one.offset for one in whole.batches]
    assert all(one.key is one.value is None for one in headers.records)
    last_ms = max(one.timestamp_ms or 0 for one in whole.records)
    assert [one.timestamp_ms for one in headers.records] == [last_ms]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_have_headers_too(magic: int) -> None:
    raw = message(0, b"a", magic) + message(1, b"b", magic)
    headers = parse(raw, bodies=False)
    assert headers.batches == parse(raw).batches
    assert [(one.offset, one.epoch, one.value) for one in headers.records] == [
        (0, None, None),
        (1, None, None),
    ]


def test_a_damaged_batch_is_one() -> None:
    raw = bytearray(batch(0, b"abcdef") + batch(1, b"b"))
    raw[raw.index(b"abcdef")] ^= 1
    headers = parse(bytes(raw), bodies=False)
    assert [one.crc_ok for one in headers.batches] == [False, True]
    assert headers.problems == parse(bytes(raw)).problems


def test_batches_before_the_offset_asked_for_stand_for_no_record() -> None:
    raw = batch(0, b"a", b"b") + batch(2, b"c")
    headers = parse(raw, 1, bodies=False)
    assert [one.offset for one in headers.records] == [2]
    assert [one.offset for one in headers.batches] == [0, 2]
