"""Log lines of Kafka 0.10 to 4.x that are events, and lines that are not."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from harness.clock import Anchor
from harness.observer.broker_log import parse_line, read_log, read_logs

_DELETING = "Deleting segment LogSegment(baseOffset=18, size=999, lastModifiedTime=1795779047517"
_TIMESTAMP = "largestRecordTimestamp=1795778886674) due to"
TEXT = {
    # Kafka 2.7.1
    f"[Log partition=t-0, dir=/d] {_DELETING}, largestRecordTimestamp=Some(1795779047523)) due to retention "
    "time 3000ms breach based on the largest record timestamp in the segment (Log)": (
        "segment_expired",
        "t",
        0,
        18,
    ),
    f"[Log partition=t-0, dir=/d] {_DELETING}, largestRecordTimestamp=Some(1795779047523)) due to retention "
    "size 3000 breach. Log size after deletion will be 4218. (Log)": ("segment_oversized", "t", 0, 18),
    "[Log partition=t-0, dir=/d] Incremented log start offset to 20 due to client delete records request "
    "(Log)": ("records_deleted", "t", 0, 20),
    "[Topic Deletion Manager 2] Deletion of topic t successfully completed (TopicDeletionManager)": (
        "topic_deleted",
        "t",
        None,
        None,
    ),
    # Kafka 3.9.1 and 4.3.1
    "[QuorumController id=1] Replayed RemoveTopicRecord for topic t with ID fJ2-1ZuOQ4GyZ0g1k7iDQA. "
    "(org.apache.kafka.controller.ReplicationControlManager)": ("topic_deleted", "t", None, None),
    # Kafka 3.9.1
    f"[UnifiedLog partition=t-0, dir=/d] {_DELETING}, {_TIMESTAMP} log retention time 3000ms breach based on "
    "the largest record timestamp in the segment (UnifiedLog)": ("segment_expired", "t", 0, 18),
    "[UnifiedLog partition=t-0, dir=/d] Incremented log start offset to 36 due to segment deletion "
    "(UnifiedLog)": ("log_start", "t", 0, 36),
    "[UnifiedLog partition=t-0, dir=/d] Incremented log start offset to 20 due to leader offset increment "
    "(UnifiedLog)": ("log_start", "t", 0, 20),
    "[Log partition=t-0, dir=/d] Truncating to offset 2 (Log)": ("truncated", "t", 0, 2),
    "[UnifiedLog partition=my-topic-11, dir=/d] Truncating to offset 7 (UnifiedLog)": (
        "truncated",
        "my-topic",
        11,
        7,
    ),
    "Truncating log t-0 to offset 3. (Log)": ("truncated", "t", 0, 3),
    "[ReplicaFetcher replicaId=3, leaderId=2, fetcherId=0] Truncating partition old-0 to local high "
    "watermark 1 (ReplicaFetcherThread)": ("truncated_to_hw", "old", 0, 1),
    "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Truncating partition t-1 with "
    "TruncationState(offset=0, completed=true) due to local high watermark 0 (ReplicaFetcherThread)": (
        "truncated_to_hw",
        "t",
        1,
        0,
    ),
    "[Partition t-0 broker=1] Shrinking ISR from 1,2,3 to 1. Leader: (highWatermark: 2, endOffset: 5). "
    "(Partition)": ("isr_shrinking", "t", 0, None),
    "Partition [t,0] on broker 1: Shrinking ISR for partition [t,0] from 1,2 to 1 (Partition)": (
        "isr_shrinking",
        "t",
        0,
        None,
    ),
    "[Partition t-0 broker=1] Expanding ISR from 1 to 1,2 (Partition)": ("isr_expanding", "t", 0, None),
    "[Partition t-0 broker=1] ISR updated from AlterIsr to 1,2 and version updated to [3] (Partition)": (
        "isr_updated",
        "t",
        0,
        None,
    ),
    "[Partition t-0 broker=1] ISR updated to 1,2 and version updated to 5 (Partition)": (
        "isr_updated",
        "t",
        0,
        None,
    ),
    "[Broker id=2] Leader t-0 starts at leader epoch 1 from offset 2 with high watermark 2 ISR [2,3] "
    "(logger)": ("became_leader", "t", 0, 2),
    "[Broker id=2] Leader t-0 with topic id Some(x) starts at leader epoch 1 from offset 2 with partition "
    "epoch 0 (logger)": ("became_leader", "t", 0, 2),
    "[Partition t-0 broker=0] t-0 starts at Leader Epoch 0 from offset 0. Previous Leader Epoch was: -1 "
    "(Partition)": ("became_leader", "t", 0, 0),
    "[Broker id=1] Follower t-0 starts at leader epoch 1 from offset 5 with high watermark 2. (logger)": (
        "became_follower",
        "t",
        0,
        5,
    ),
    "[GroupMetadataManager brokerId=2] Removed 1 expired offsets in 2 milliseconds. (Manager)": (
        "offsets_expired",
        None,
        None,
        None,
    ),
    "[GroupCoordinator id=1 topic=__consumer_offsets partition=0] Generated 2 tombstone records while "
    "cleaning up group metadata in 1 milliseconds. (GroupCoordinatorShard)": (
        "offsets_expired",
        None,
        None,
        None,
    ),
    "[ZooKeeperClient Kafka server] Session expired. (ZooKeeperClient)": (
        "session_expired",
        None,
        None,
        None,
    ),
    "Session establishment complete on server 198.18.0.11/198.18.0.11:2181, sessionid = 0x10000d35bee0000, "
    "negotiated timeout = 4000 (ClientCnxn)": ("session_connected", None, None, None),
    "zookeeper state changed (Expired) (ZkClient)": ("session_expired", None, None, None),
    "[Controller id=2] Resigned (KafkaController)": ("resigned", None, None, None),
    "[RaftManager id=1] Completed transition to ResignedState(localId=1, epoch=2) (QuorumState)": (
        "resigned",
        None,
        None,
        None,
    ),
    "[QuorumController id=1] UNCLEAN partition change for t-0 with topic ID x (ReplicationControlManager)": (
        "unclean_election",
        "t",
        0,
        None,
    ),
}


@pytest.mark.parametrize("line", TEXT)
def test_lines_that_matter(line: str) -> None:
    event = parse_line(line)
    assert event is not None
    kind, row = event
    assert (kind, row.get("topic"), row.get("partition"), row.get("offset")) == TEXT[line]


@pytest.mark.parametrize(
    "line",
    [
        "[Log partition=t-0, dir=/d] Truncating to 5 has no effect as the largest offset is 4 (Log)",
        "[ReplicaAlterLogDirsThread-1]: Truncating partition t-0 with TruncationState(offset=0, "
        "completed=true) due to local high watermark 0 (ReplicaAlterLogDirsThread)",
        "[KafkaServer id=1] started (KafkaServer)",
        "[Controller id=2] Starting replica leader election (PREFERRED) for partitions (KafkaController)",
    ],
)
def test_lines_that_do_not(line: str) -> None:
    assert parse_line(line) is None


def test_times_are_placed_on_the_monotonic_clock(tmp_path: Path) -> None:
    file = tmp_path / "broker1" / "server.log"
    file.parent.mkdir()
    file.write_text(
        "2026-01-02 03:04:05,678 INFO [Log partition=t-0, dir=/d] Truncating to offset 2 (Log)\n"
        "2026-01-02 03:04:05,700 TRACE [Broker id=1] Leader t-0 starts at leader epoch 1 from offset 2 (l)\n"
        "2026-01-02 03:04:06,000 ERROR Something broke (KafkaServer)\n"
        "java.lang.Exception: ERROR of a stack trace\n"
        "2026-01-02 03:04:0"
    )
    wall = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    anchor = Anchor(monotonic_ns=1000, wall_ns=int(wall.timestamp()) * 10**9)
    first, second = read_logs(tmp_path, anchor, dt.UTC)
    assert (first["host"], first["kind"], first["ns"]) == ("broker1", "truncated", 1000 + 678_000_000)
    assert (second["kind"], second["ns"]) == ("error", 1000 + 1_000_000_000)


def test_a_deletion_that_a_controller_replays_later_counts_once(tmp_path: Path) -> None:
    """Controllers log a deletion when they replay its record: each of them, and again when it starts."""
    for host, lines in {
        "controller1": (("05,700", "t", "A1_-"), ("09,000", "t", "A1_-"), ("08,000", "t", "B2")),
        "controller2": (("05,600", "t", "A1_-"), ("06,000", "t-2", "C3")),
    }.items():
        (tmp_path / host).mkdir()
        (tmp_path / host / "server.log").write_text(
            "".join(
                f"2026-01-02 03:04:{second} INFO [QuorumController id=1] Replayed RemoveTopicRecord for "
                f"topic {topic} with ID {identity}. (org.apache.kafka.controller.ReplicationControlManager)\n"
                for second, topic, identity in lines
            )
        )
    wall = dt.datetime(2026, 1, 2, 3, 4, 0, tzinfo=dt.UTC)
    rows = read_logs(tmp_path, Anchor(monotonic_ns=0, wall_ns=int(wall.timestamp()) * 10**9), dt.UTC)
    deletions = [(row["ns"], row["host"], row["topic"]) for row in rows if row["kind"] == "topic_deleted"]
    assert deletions == [
        (5_600_000_000, "controller2", "t"),
        (6_000_000_000, "controller2", "t-2"),
        (8_000_000_000, "controller1", "t"),
    ]


def test_local_time_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    now = dt.datetime.now().replace(microsecond=0)
    file.write_text(f"{now:%Y-%m-%d %H:%M:%S},000 FATAL broken (X)\n")
    (row,) = read_log(file, "broker1", Anchor(0, int(now.timestamp()) * 10**9))
    assert row["ns"] == 0


def test_a_broker_that_repeats_itself_is_cut_short(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text("2026-01-02 03:04:06,000 ERROR Something broke (KafkaServer)\n" * 2000)
    assert len(list(read_log(file, "broker1", Anchor(0, 0)))) == 500
