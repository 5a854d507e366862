"""A consumer's progress by the records that it received."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.identity import encode
from harness.history.journal import Journal
from harness.history.reads import write_reads
from harness.history.tables import read_table
from harness.kafka.model import Endpoint, TopicPartition
from workloads.agent.consumers.progress import ReadProgress
from workloads.protocol.spec import ConsumerSpec

PARTITION = TopicPartition("t", 0)


@pytest.mark.parametrize(("group", "recorded"), [("", None), ("g", "g")])
def test_only_members_have_a_group(group: str, recorded: str | None, tmp_path: Path) -> None:
    """librdkafka wants a name for a consumer with assigned partitions, too; it commits nothing under it."""
    spec = ConsumerSpec(reader=1, name="x", brokers=(Endpoint("a", 1),), partitions=(PARTITION,), group=group)
    with Journal(tmp_path / "journal" / "client1.jsonl") as journal:
        progress = ReadProgress(spec, journal)
    progress.journal.append([progress.received(PARTITION, offset=3, epoch=0, value=b"")])
    write_reads(tmp_path)
    assert read_table(tmp_path, "reads")["group"].to_pylist() == [recorded]
    assert spec.librdkafka_config()["group.id"] == (recorded or "x")


def test_a_poll_is_recorded_as_record_by_record(tmp_path: Path) -> None:
    """Also records of others, damaged ones, and those without a value or an epoch."""
    values = [
        encode(3, 1, "t", 0),
        encode(3, 2, "t", 1, "label"),
        None,
        b"foreign",
        encode(3, 4, "t", 0)[:-9],
    ]
    values += [
        b"acked1 3 x t/0 - - 00000000",
        b"acked1 3 5 t/0 - - 0000000g",
        encode(3, 6, "t", 0, size_bytes=90),
    ]
    records = [
        ("t", number % 3, 10 + number, None if number % 2 else number, value)
        for number, value in enumerate(values)
    ]
    tables, results = [], []
    for way in ("one by one", "together"):
        spec = ConsumerSpec(
            reader=1,
            name="x",
            brokers=(Endpoint("a", 1),),
            partitions=tuple(TopicPartition("t", number) for number in range(3)),
        )
        with Journal(tmp_path / way / "journal" / "client1.jsonl") as journal:
            progress = ReadProgress(spec, journal)
        progress.poll += 1
        if way == "together":
            progress.received_all(records, 7)
        else:
            progress.journal.append(
                progress.received(TopicPartition(topic, partition), offset, epoch, value, 7)
                for topic, partition, offset, epoch, value in records
            )
        write_reads(tmp_path / way)
        tables.append(read_table(tmp_path / way, "reads"))
        results.append(progress.result())
    assert tables[0].equals(tables[1]) and results[0] == results[1]
    assert sorted(tables[0]["seq"].drop_null().to_pylist()) == [1, 2, 6]
    assert tables[0].num_rows == len(values)
