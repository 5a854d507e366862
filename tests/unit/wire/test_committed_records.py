"""The records that a consumer of committed records gives to its application."""

from __future__ import annotations

import struct

from harness.kafka.batches import Record
from harness.kafka.wire.logs import committed_records


def record(offset: int, producer: int = -1, end: str = "") -> Record:
    return Record(
        offset=offset,
        epoch=0,
        batch_offset=offset,
        crc=0,
        crc_ok=True,
        timestamp_ms=0,
        producer_id=producer,
        producer_epoch=0,
        sequence=-1,
        control=bool(end),
        transactional=producer >= 0,
        key=struct.pack(">hh", 0, int(end == "commit")) if end else None,
        value=struct.pack(">hi", 0, 0) if end else b"v",
    )


def test_aborted_records_and_markers_are_left_out() -> None:
    records = [
        record(0, 1),  # aborted
        record(1),
        record(2, 2),  # of another producer, which commits
        record(3, 1, "abort"),
        record(4, 1),  # the next transaction, which commits
        record(5, 1, "commit"),
        record(6, 2, "commit"),
        record(7, 2),  # aborted
        record(8, 2, "abort"),
    ]
    assert [one.offset for one in committed_records(records, ((1, 0), (2, 7)))] == [1, 2, 4]
