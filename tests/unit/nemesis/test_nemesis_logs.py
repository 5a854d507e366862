"""Faults that damage the log files of replicas."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from harness.errors import InvalidRunError, UsageError
from harness.host_files import Folder
from harness.kafka.batches import parse
from harness.kafka.segments import raw_log
from harness.kafka.wire.produce import one_record_batch
from nemesis.storage import logs


def batch(offset: int) -> bytes:
    raw = bytearray(one_record_batch(b"value-%d" % offset))
    struct.pack_into(">q", raw, 0, offset)
    return bytes(raw)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Replica t/0 with offsets 0 to 5 in two segments, and an empty replica of a topic with a dash."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"".join(map(batch, (0, 1, 2))))
    (folder / "00000000000000000003.log").write_bytes(b"".join(map(batch, (3, 4, 5))))
    (folder / "00000000000000000003.index").write_bytes(b"\0" * 64)
    other = tmp_path / "a-b-12"
    other.mkdir()
    (other / "00000000000000000000.log").write_bytes(b"")
    return tmp_path


def offsets(data: Path) -> list[int]:
    return [record.offset for record in parse(b"".join(raw_log(Folder(data / "t-0")))).records]


def test_replicas_by_topic_and_partition(data: Path) -> None:
    assert set(logs.replicas(data)) == {("t", 0), ("a-b", 12)}


def test_wiped_folder_is_gone_and_the_other_stays(data: Path) -> None:
    size = sum(len(batch(offset)) for offset in range(6))
    assert logs.wipe(logs.replica_folder(data, "t", 0)) == size
    assert set(logs.replicas(data)) == {("a-b", 12)}


def test_wiping_what_is_not_there_names_what_is(data: Path) -> None:
    with pytest.raises(UsageError, match="there are: a-b-12, t-0"):
        logs.replica_folder(data, "t", 1)


@pytest.mark.parametrize("offset", [0, 2, 4])
def test_one_damaged_batch_and_no_other(data: Path, offset: int) -> None:
    folder = data / "t-0"
    assert logs.intact(folder, offset)
    *_, first_offset = logs.corrupt(folder, offset)
    assert first_offset == offset
    damaged = [b.offset for b in parse(b"".join(raw_log(Folder(folder)))).batches if not b.crc_ok]
    assert damaged == [offset]
    assert not logs.intact(folder, offset)
    with pytest.raises(InvalidRunError, match="damaged already"):
        logs.corrupt(folder, offset)


def test_damaging_an_offset_that_is_not_there(data: Path) -> None:
    with pytest.raises(UsageError, match="holds offset 6"):
        logs.corrupt(data / "t-0", 6)


@pytest.mark.parametrize(
    ("flushed", "left"), [(0, []), (1, [0]), (3, [0, 1, 2]), (5, [0, 1, 2, 3, 4]), (6, list(range(6)))]
)
def test_cut_back_to_the_last_flushed_batch(data: Path, flushed: int, left: list[int]) -> None:
    lost = logs.truncate_to_flushed(data, {("t", 0): flushed})
    assert offsets(data) == left
    assert lost == {"a-b/12": 0, "t/0": sum(len(batch(offset)) for offset in range(flushed, 6))}


def test_segments_that_were_never_flushed_go_with_their_indexes(data: Path) -> None:
    logs.truncate_to_flushed(data, {("t", 0): 3})
    assert sorted(path.name for path in (data / "t-0").iterdir()) == ["00000000000000000000.log"]


def test_without_a_flushed_offset_the_brokers_own_recovery_points_count(data: Path) -> None:
    (data / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    logs.truncate_to_flushed(data)
    assert offsets(data) == [0, 1]


def test_the_metadata_log_of_a_quorum_stays_whole(data: Path) -> None:
    """Nodes that are broker and controller keep it beside their replicas, and no recovery point names it."""
    shutil.copytree(data / "t-0", data / "__cluster_metadata-0")
    before = logs.log_bytes(data)["__cluster_metadata/0"]
    lost = logs.truncate_to_flushed(data)
    assert before > 0
    assert logs.log_bytes(data)["__cluster_metadata/0"] == before
    assert "__cluster_metadata/0" not in lost
    assert offsets(data) == []


def test_topics_that_flush_every_message_stay_whole(data: Path) -> None:
    """By `flush.messages` of the topic, which goes before the broker's interval."""
    shutil.copytree(data / "t-0", data / "flushing-0")
    lost = logs.truncate_to_flushed(data, flushes=lambda topic: topic == "flushing")
    assert offsets(data) == []
    assert "flushing/0" not in lost
    assert logs.log_bytes(data)["flushing/0"] == sum(len(batch(offset)) for offset in range(6))


def test_a_zero_filled_tail_is_no_data(data: Path) -> None:
    file = data / "t-0" / "00000000000000000003.log"
    file.write_bytes(batch(3) + b"\0" * 500)
    assert logs.log_bytes(data)["t/0"] == sum(len(batch(offset)) for offset in range(4))
    assert len(parse(file.read_bytes()).batches) == 1


def test_a_broker_that_flushes_each_message(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    assert not logs.flushes_every_message(properties)
    properties.write_text("a=b\nlog.flush.interval.messages = 1\n")
    assert logs.flushes_every_message(properties)
    properties.write_text("log.flush.interval.messages=1000\n")
    assert not logs.flushes_every_message(properties)
