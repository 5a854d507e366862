"""The tables `copies` and `batches` are written while logs are read; replicas share their batches."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from harness.history.identity import encode
from harness.history.tables import history_dir, read_table
from harness.kafka.batches import parse
from harness.kafka.headers import Headers
from harness.kafka.model import TopicPartition
from harness.kafka.wire.produce import one_record_batch
from harness.observer.copies import Copies
from harness.observer.decoder import Decoded, Decoder, rows_of

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Counting(Decoder):
    """Counts the batches that it decodes, and how often it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = self.calls = 0

    def decode(self, log: Headers, which: np.ndarray) -> Decoded:
        self.batches += len(which)
        self.calls += 1
        return super().decode(log, which)


@cache
def stored(offset: int, epoch: int = 0, seq: int = 0) -> bytes:
    raw = bytearray(one_record_batch(encode(1, seq, "t", 0)))
    struct.pack_into(">q", raw, 0, offset)
    struct.pack_into(">i", raw, 12, epoch)
    return bytes(raw)


def log(*offsets: int) -> bytes:
    return b"".join(map(stored, offsets))


def damaged(raw: bytes) -> bytes:
    return raw[:-3] + bytes([raw[-3] ^ 1]) + raw[-2:]


@pytest.fixture
def decoder() -> Iterator[Counting]:
    decoder = Counting()
    yield decoder
    decoder.close()


@pytest.fixture
def copies(tmp_path: Path, decoder: Counting) -> Copies:
    return Copies(tmp_path, decoder)


def rows(run_dir: Path, table: str = "copies") -> list[tuple[object, ...]]:
    columns = ["partition", "broker", "offset"]
    return [tuple(row.values()) for row in read_table(run_dir, table).select(columns).to_pylist()]


def test_a_partitions_replicas_follow_each_other_in_one_file(
    tmp_path: Path, copies: Copies, decoder: Counting
) -> None:
    for broker in (1001, 7, 0):
        copies.begin(T0, broker)
        copies.add(T0, broker, log(0, 1))
        copies.add(T0, broker, log(2))
    copies.begin(T1, 7)
    copies.add(T1, 7, log(5))
    copies.finish()
    for table in ("copies", "batches"):
        assert sorted(file.name for file in (history_dir(tmp_path) / f"{table}.parquet").iterdir()) == [
            "00000.parquet",
            "00001.parquet",
        ]
        assert rows(tmp_path, table) == [
            *((0, broker, offset) for broker in (0, 7, 1001) for offset in (0, 1, 2)),
            (1, 7, 5),
        ]
    assert sorted(file.name for file in history_dir(tmp_path).iterdir()) == [
        "batches.parquet",
        "copies.parquet",
    ]
    assert decoder.batches == 4


def test_a_replica_that_is_read_again_replaces_what_was_read(
    tmp_path: Path, copies: Copies, decoder: Counting
) -> None:
    for offsets in ((0, 1), (0, 1, 2)):
        copies.begin(T0, 1)
        copies.add(T0, 1, log(*offsets))
    copies.finish()
    assert [offset for _, _, offset in rows(tmp_path)] == [0, 1, 2]
    assert decoder.batches == 3


def test_logs_that_differ_keep_their_own_batches(tmp_path: Path, copies: Copies, decoder: Counting) -> None:
    """Two leaders wrote at offset 1; the third replica was truncated there, and begins in the middle."""
    logs = {
        1: [stored(0), stored(1, epoch=0, seq=1), stored(2, epoch=0, seq=2)],
        2: [stored(0), stored(1, epoch=4, seq=9), stored(2, epoch=4, seq=8), stored(3, epoch=4, seq=7)],
        3: [stored(1, epoch=4, seq=9), stored(2, epoch=4, seq=8)],
    }
    for broker, batches in logs.items():
        copies.begin(T0, broker)
        for raw in batches:
            copies.add(T0, broker, raw)
    copies.finish()
    table = read_table(tmp_path, "copies")
    expected = [rows_of(parse(b"".join(batches)).records) for batches in logs.values()]
    assert table.select(expected[0].column_names).equals(pa.concat_tables(expected))
    assert table["broker"].to_pylist() == [1] * 3 + [2] * 4 + [3] * 2


def test_damage_is_of_one_replica_and_never_shared(tmp_path: Path, copies: Copies) -> None:
    problems = {}
    for broker, raw in {1: log(0), 2: damaged(log(0)), 3: log(0), 4: damaged(log(0))}.items():
        copies.begin(T0, broker)
        problems[broker] = copies.add(T0, broker, raw).problems
    copies.finish()
    assert {broker: len(of_broker) for broker, of_broker in problems.items()} == {1: 0, 2: 1, 3: 0, 4: 1}
    assert read_table(tmp_path, "copies")["intact"].to_pylist() == [True, False, True, False]
    assert read_table(tmp_path, "batches")["intact"].to_pylist() == [True, False, True, False]


def test_records_before_the_start_of_a_log_are_left_out(tmp_path: Path, copies: Copies) -> None:
    """DeleteRecords may move the log start offset into a batch."""
    whole = (Path(__file__).parents[1] / "wire" / "batches" / "librdkafka-zstd.bin").read_bytes()
    first, *_, last = (record.offset for record in parse(whole).records)
    for broker, start in ((1, 0), (2, last)):
        copies.begin(T0, broker)
        copies.add(T0, broker, whole, start)
    copies.finish()
    assert rows(tmp_path) == [*((0, 1, offset) for offset in range(first, last + 1)), (0, 2, last)]
    assert rows(tmp_path, "batches") == [(0, 1, first), (0, 2, first)]


def test_a_batch_says_how_it_was_written(tmp_path: Path, copies: Copies) -> None:
    whole = (Path(__file__).parents[1] / "wire" / "batches" / "librdkafka-lz4.bin").read_bytes()
    copies.begin(T0, 1)
    copies.add(T0, 1, whole)
    copies.finish()
    (row,) = read_table(tmp_path, "batches").to_pylist()
    records = parse(whole).records
    assert (row["offset"], row["last_offset"]) == (records[0].offset, records[-1].offset)
    assert (row["codec"], row["format"], row["intact"]) == ("lz4", 2, True)
    assert (row["records"], row["size_bytes"], row["crc"]) == (len(records), len(whole), records[0].crc)


def test_without_records_the_tables_are_empty(tmp_path: Path, copies: Copies) -> None:
    copies.begin(T0, 1)
    copies.finish()
    assert rows(tmp_path) == rows(tmp_path, "batches") == []
