"""A consumer's progress by the records that it received."""

from __future__ import annotations

from pathlib import Path

import pytest

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
