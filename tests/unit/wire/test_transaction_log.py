"""What coordinators write about transactions: the format of `TransactionLogKey` and `TransactionLogValue`."""

from __future__ import annotations

import struct

from harness.kafka.batches import Record
from harness.kafka.transaction_log import LoggedTransaction, newest


def record(offset: int, name: str, value: bytes | None) -> Record:
    key = struct.pack(">hh", 0, len(name)) + name.encode()
    return Record(
        offset=offset,
        epoch=0,
        batch_offset=offset,
        crc=0,
        crc_ok=True,
        timestamp_ms=0,
        producer_id=-1,
        producer_epoch=-1,
        sequence=-1,
        control=False,
        transactional=False,
        key=key,
        value=value,
    )


def value(state: int, *, version: int = 0, epoch: int = 0) -> bytes:
    return struct.pack(">hqhib", version, 7, epoch, 60_000, state) + b"\xff\xff\xff\xff" + bytes(16)


def test_the_newest_record_of_an_id_counts() -> None:
    records = [
        record(0, "orders", value(0)),
        record(1, "orders", value(1)),
        record(2, "order", value(3)),
        record(3, "orders", value(2)),
        record(4, "orders", value(4, version=1, epoch=1)),
        record(5, "orders-2", value(1)),
    ]
    assert newest(records, "orders") == LoggedTransaction("CompleteCommit", 7, 1, 4)
    assert newest(records[:4], "orders") == LoggedTransaction("PrepareCommit", 7, 0, 3)
    assert newest(records, "order") == LoggedTransaction("PrepareAbort", 7, 0, 2)


def test_what_says_nothing_is_left_out() -> None:
    records = [record(0, "orders", value(1)), record(1, "orders", None), record(2, "orders", value(99))]
    assert newest(records, "orders") == LoggedTransaction("Ongoing", 7, 0, 0)
    assert newest(records, "nobody") is None
