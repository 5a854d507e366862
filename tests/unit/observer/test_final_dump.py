"""The final dump records for every replica whether it was read completely."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from harness.history.identity import encode
from harness.history.tables import read_table
from harness.host_files import Folder
from harness.kafka.model import OFFSET_OUT_OF_RANGE, Endpoint, PartitionState, TopicPartition
from harness.kafka.wire.dialect import MODERN
from harness.kafka.wire.logs import FetchResult
from harness.kafka.wire.offsets import EARLIEST, LATEST, Offset
from harness.kafka.wire.produce import one_record_batch
from harness.observer.copies import Copies
from harness.observer.dump import final_dump
from harness.observer.replica_log import ReplicaLog, read_broker
from harness.observer.targets import Node

T0 = TopicPartition("t", 0)
ASSIGNMENT = {T0: (1, 2)}
STATES = {T0: PartitionState(leader=1, leader_epoch=0, isr=(1,))}


@pytest.fixture
def broker(tmp_path: Path) -> Node:
    """A broker that does not answer; its log has two messages, a foreign record and a damaged one."""
    folder = tmp_path / "data" / "t-0"
    folder.mkdir(parents=True)
    values = [encode(1, 0, "t", 0, "a"), encode(1, 1, "t", 0), b"foreign", encode(1, 2, "t", 0)]
    log = b""
    for offset, value in enumerate(values):
        raw = bytearray(one_record_batch(value))
        struct.pack_into(">q", raw, 0, offset)
        struct.pack_into(">i", raw, 12, 0)
        if offset == 3:
            raw[-12] ^= 1
        log += raw
    (folder / "00000000000000000000.log").write_bytes(log)
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (folder.parent / "replication-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint(*listener.getsockname()[:2])
    return Node("broker1", 1, endpoint, Folder(tmp_path / "data"))


def test_a_stopped_broker_is_read_whole_from_its_files(tmp_path: Path, broker: Node) -> None:
    logs = final_dump(tmp_path, [broker], ASSIGNMENT, STATES, stopped=["broker1"])
    assert all(log.complete for log in logs)
    copies = read_table(tmp_path, "copies").to_pylist()
    assert [(c["offset"], c["writer"], c["seq"], c["intact"]) for c in copies][:3] == [
        (0, 1, 0, True),
        (1, 1, 1, True),
        (2, None, None, None),
    ]
    assert copies[3]["intact"] is False
    (replica,) = read_table(tmp_path, "replicas").to_pylist()
    assert (replica["leo"], replica["high_watermark"], replica["log_start"]) == (4, 3, 0)
    assert replica["leader"] and replica["in_sync"] and replica["complete"]
    assert replica["epochs"] == [{"epoch": 0, "start_offset": 0}]


def test_a_broker_that_does_not_answer_is_not_complete(tmp_path: Path, broker: Node) -> None:
    logs = final_dump(tmp_path, [broker], ASSIGNMENT, STATES)
    (replica,) = logs
    assert not replica.complete
    assert "cannot be reached" in str(replica.error)
    assert read_table(tmp_path, "copies").num_rows == 4


def test_replicas_are_read_where_the_final_state_is_not_known(tmp_path: Path, broker: Node) -> None:
    """The metadata store does not answer at the end: leader and ISR are not known, the logs are read."""
    final_dump(tmp_path, [broker], ASSIGNMENT, {}, stopped=["broker1"])
    (replica,) = read_table(tmp_path, "replicas").to_pylist()
    assert (replica["leader"], replica["in_sync"], replica["complete"]) == (None, None, True)
    assert read_table(tmp_path, "copies").num_rows == 4


def test_a_broker_without_files_gives_an_empty_replica(tmp_path: Path, broker: Node) -> None:
    elsewhere = Node("broker2", 2, broker.endpoint)
    final_dump(tmp_path, [elsewhere], ASSIGNMENT, STATES)
    (row,) = read_table(tmp_path, "replicas").to_pylist()
    assert (row["complete"], row["leo"], row["in_sync"]) == (False, None, False)
    assert read_table(tmp_path, "copies").num_rows == 0


def test_a_broker_that_is_paused_costs_one_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def never(_target: object, partitions: list[TopicPartition], **_options: object) -> object:
        asked.append(partitions[0][0])
        raise TimeoutError("timed out")

    monkeypatch.setattr("harness.observer.replica_log.end_offsets", never)
    logs = read_broker(
        Node("broker1", 1, Endpoint("127.0.0.1", 9)),
        [TopicPartition("a", 0), TopicPartition("b", 0)],
        MODERN,
        Copies(tmp_path),
    )
    assert asked == ["a"]
    assert [log.error for log in logs] == ["timed out", "timed out"]


BROKERS = [Node(f"broker{number}", number, Endpoint("127.0.0.1", 9)) for number in (1, 2, 3)]
BEHIND = {T0: PartitionState(leader=1, leader_epoch=0, isr=(1, 2))}


@pytest.mark.parametrize(
    ("ends", "read", "reads"),
    [
        pytest.param({1: [4], 2: [3, 3, 4], 3: [2]}, [4, 4, 2], 3, id="a follower that catches up"),
        pytest.param({1: [3, 4], 2: [4], 3: [4]}, [4, 4, 4], 2, id="a leader that is read before it appends"),
        pytest.param({1: [4], 2: [4], 3: [3]}, [4, 4, 3], 1, id="a follower that is not in sync"),
        pytest.param({1: [4], 2: [None], 3: [4]}, [4, None, 4], 1, id="a broker that does not answer"),
    ],
)
def test_in_sync_replicas_are_read_again_until_they_end_at_the_same_offset(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ends: dict[int, list[int | None]],
    read: list[int | None],
    reads: int,
) -> None:
    """A broker may append a client's last request while the logs are being read."""
    asked = _reading(monkeypatch, ends)
    logs = final_dump(tmp_path, BROKERS, {T0: (1, 2, 3)}, BEHIND)
    assert [log.leo for log in logs] == read
    assert asked.count(1) == reads
    assert [row["leo"] for row in read_table(tmp_path, "replicas").to_pylist()] == read


def test_an_in_sync_replica_that_stays_behind_is_written_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _reading(monkeypatch, {1: [4], 2: [3], 3: [4]})
    logs = final_dump(tmp_path, BROKERS, {T0: (1, 2, 3)}, BEHIND, within_s=0.5)
    assert [log.leo for log in logs] == [4, 3, 4]
    assert asked.count(2) > 1


def test_the_files_of_a_stopped_broker_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _reading(monkeypatch, {1: [4], 2: [3], 3: [4]})
    final_dump(tmp_path, BROKERS, {T0: (1, 2, 3)}, BEHIND, stopped=["broker2"])
    assert asked.count(2) == 1


def _reading(monkeypatch: pytest.MonkeyPatch, ends: dict[int, list[int | None]]) -> list[int]:
    """Let the reads of each broker find these log end offsets, then the last one; None: no answer."""
    asked: list[int] = []

    def read(broker: Node, partitions: list[TopicPartition], *_: object, **__: object) -> list[ReplicaLog]:
        left = ends[broker.node_id]
        asked.append(broker.node_id)
        end = left[min(asked.count(broker.node_id), len(left)) - 1]
        return [
            ReplicaLog(topic_partition=key, broker=broker.node_id, leo=end, complete=end is not None)
            for key in partitions
        ]

    monkeypatch.setattr("harness.observer.dump.read_broker", read)
    return asked


def test_a_topic_that_is_gone_hides_no_policy_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe(_target: object, _scope: str, name: str, **_: object) -> dict[str, str]:
        if name == "gone":
            raise LookupError(name)
        return {"cleanup.policy": "compact"}

    monkeypatch.setattr("harness.observer.dump.describe_configs", describe)
    _reading(monkeypatch, {1: [4]})
    brokers = [Node("broker1", 1, Endpoint("198.18.0.1", 9092))]
    assignment = {TopicPartition("gone", 0): (1,), TopicPartition("t", 0): (1,)}
    final_dump(tmp_path, brokers, assignment, {})
    rows = read_table(tmp_path, "replicas").to_pylist()
    assert {row["topic"]: row["cleanup"] for row in rows} == {"gone": None, "t": "compact"}


@pytest.mark.parametrize(
    ("end_error", "complete", "error"),
    [(0, True, None), (6, False, "Kafka error 6 for the offset of the log's end")],
)
def test_a_start_that_retention_removes_meanwhile_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end_error: int, complete: bool, error: str | None
) -> None:
    """The starts of all logs are asked for at once, and the end of each after it was read."""
    keys = [TopicPartition("a", number) for number in range(3)]
    starts, asked = dict.fromkeys(keys, 0), list[tuple[int, int]]()

    def offsets(
        _target: object, wanted: list[TopicPartition], *, at: int, **_options: object
    ) -> dict[TopicPartition, Offset]:
        asked.append((at, len(wanted)))
        answers = {key: Offset(starts[key] if at == EARLIEST else 4, 0) for key in wanted}
        starts[keys[1]] = 3
        if at == EARLIEST:
            return answers
        return {key: Offset(-1, end_error) if end_error else one for key, one in answers.items()}

    def fetch(
        _target: object, topic: str, partition: int, offset: int, _size: int, **_options: object
    ) -> FetchResult:
        start = starts[TopicPartition(topic, partition)]
        if offset < start:
            return FetchResult(error=OFFSET_OUT_OF_RANGE, log_start=start)
        raw = b"".join(_batch(number) for number in range(offset, 4))
        return FetchResult(raw=raw, offset=offset, log_start=start, size_bytes=len(raw), to_end=True)

    monkeypatch.setattr("harness.observer.replica_log.end_offsets", offsets)
    monkeypatch.setattr("harness.observer.replica_log.fetch_own_log", fetch)
    copies = Copies(tmp_path)
    logs = read_broker(Node("broker1", 1, Endpoint("127.0.0.1", 9)), keys, MODERN, copies)
    copies.finish()
    assert [(log.complete, log.error) for log in logs] == [(complete, error)] * 3
    assert asked == [(EARLIEST, 3), (LATEST, 1), (EARLIEST, 1), (LATEST, 1), (LATEST, 1)]
    read = read_table(tmp_path, "copies").to_pylist()
    assert [(row["partition"], row["offset"]) for row in read] == [
        *((0, offset) for offset in range(4)),
        (1, 3),
        *((2, offset) for offset in range(4)),
    ]


def _batch(offset: int) -> bytes:
    raw = bytearray(one_record_batch(encode(1, offset, "a", 0)))
    struct.pack_into(">q", raw, 0, offset)
    return bytes(raw)
