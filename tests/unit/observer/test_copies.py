"""The table `copies` is written while logs are read: memory holds one FETCH."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from harness.history.identity import encode
from harness.history.tables import history_dir, read_table
from harness.kafka.batches import Record, parse
from harness.kafka.model import TopicPartition
from harness.kafka.wire.produce import one_record_batch
from harness.observer.copies import Copies

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def records(*offsets: int) -> list[Record]:
    (one,) = parse(one_record_batch(encode(1, 0, "t", 0))).records
    return [one._replace(offset=offset) for offset in offsets]


def test_a_partitions_replicas_follow_each_other_in_one_file(tmp_path: Path) -> None:
    copies = Copies(tmp_path)
    for broker in (1001, 7, 0):
        copies.begin(T0, broker)
        copies.add(T0, broker, records(0, 1))
        copies.add(T0, broker, records(2))
        copies.end(T0, broker)
    copies.begin(T1, 7)
    copies.add(T1, 7, records(5))
    copies.end(T1, 7)
    copies.finish()
    assert sorted(file.name for file in (history_dir(tmp_path) / "copies.parquet").iterdir()) == [
        "t-0.parquet",
        "t-1.parquet",
    ]
    assert [file.name for file in history_dir(tmp_path).iterdir()] == ["copies.parquet"]
    rows = read_table(tmp_path, "copies").select(["partition", "broker", "offset"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        *((0, broker, offset) for broker in (0, 7, 1001) for offset in (0, 1, 2)),
        (1, 7, 5),
    ]


def test_a_replica_that_is_read_again_replaces_what_was_read(tmp_path: Path) -> None:
    copies = Copies(tmp_path)
    for offsets in ((0, 1), (0, 1, 2)):
        copies.begin(T0, 1)
        copies.add(T0, 1, records(*offsets))
    copies.end(T0, 1)
    copies.finish()
    assert read_table(tmp_path, "copies")["offset"].to_pylist() == [0, 1, 2]


def test_what_was_read_is_on_disk_before_the_next_is_read(tmp_path: Path) -> None:
    """A row group for each call, so that no more than one is in memory."""
    copies = Copies(tmp_path)
    copies.begin(T0, 1)
    for offset in range(4):
        copies.add(T0, 1, records(offset))
    copies.end(T0, 1)
    (file,) = (history_dir(tmp_path) / "copies.unfinished").glob("*.parquet")
    assert pq.ParquetFile(file).num_row_groups == 4


def test_without_records_the_table_is_empty(tmp_path: Path) -> None:
    copies = Copies(tmp_path)
    copies.begin(T0, 1)
    copies.end(T0, 1)
    copies.finish()
    assert read_table(tmp_path, "copies").num_rows == 0
