"""`acked record` on brokers that acked did not start: it finds what is lost, and leaves nothing behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from harness.cluster.attached import attach
from harness.history.identity import encode
from harness.history.tables import read_table
from harness.host_files import Folder
from harness.kafka.model import Topic, TopicPartition
from harness.kafka.wire.dialect import dialect
from harness.kafka.wire.metadata import metadata
from harness.observer.copies import Copies
from harness.observer.replica_log import read_broker
from harness.observer.targets import Node
from harness.waiting import wait_until
from tests.cluster.conftest import acked
from tests.cluster.foreign import IDS, ForeignCluster
from tests.cluster.recorder import Recorder, held_alone, inventory

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", params=["3.9.1", pytest.param("2.7.1", marks=pytest.mark.long)])
def foreign(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ForeignCluster]:
    version = request.param
    folder = tmp_path_factory.mktemp(f"foreign-{version}")
    with ForeignCluster(folder=folder, kafka=version, network=7) as cluster:
        yield cluster


def topics(cluster: ForeignCluster) -> set[str]:
    """Those of clients."""
    known = metadata(cluster.endpoint(IDS[1]), None, dialect=dialect(cluster.kafka)).partitions
    return {key.topic for key in known if not key.topic.startswith("__")}


def test_rights_are_listed_without_a_trace(foreign: ForeignCluster, tmp_path: Path) -> None:
    done = acked("record", "--bootstrap", foreign.bootstrap, "--check-only", "--json", "--runs", tmp_path)
    listed = done.json()
    assert [one["id"] for one in listed["brokers"]] == sorted(IDS)
    assert {one["az"] for one in listed["brokers"]} == {"eu-a", "eu-b", "eu-c"}
    assert all(one["presence"] != "no" for one in listed["rights"]), listed
    assert (topics(foreign), list(tmp_path.iterdir())) == (set(), [])


@pytest.mark.long
def test_without_a_fault_nothing_is_found(foreign: ForeignCluster, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "--bootstrap", foreign.bootstrap, "--for", "10s", "--yes")
    topic = recorder.wait_recording()
    done = recorder.end()
    judgement = done.json()
    assert (judgement["verdict"], judgement["findings_by_class"]) == ("as declared", {}), done.stderr
    assert set(judgement["seen"].values()) == {0}
    assert judgement["fates"]["kept"] == judgement["messages"] > 100
    assert topic not in topics(foreign)
    copies = pq.read_table(recorder.folder / "history" / "copies.parquet")
    assert set(copies["broker"].to_pylist()) == set(IDS)


def test_logs_by_wire_are_those_on_disk(foreign: ForeignCluster, tmp_path: Path) -> None:
    """Identity, epoch and CRC of every record, on the leader and on followers."""
    cluster = attach([foreign.endpoint(0)])
    topic = Topic("acked-disk", IDS)
    cluster.create_topics((topic,))
    try:
        producer = Producer({"bootstrap.servers": foreign.bootstrap, "acks": "all", "linger.ms": 5})
        for seq in range(2000):
            producer.produce(topic.name, encode(1, seq, topic.name, 0), partition=0)
        assert producer.flush(30) == 0
        tables = {}
        for name in ("wire", "disk"):
            copies = Copies(tmp_path / name)
            for broker in IDS:
                data = Folder(foreign.data(broker)) if name == "disk" else None
                node = Node(f"broker{broker}", broker, foreign.endpoint(broker), data)
                (log,) = read_broker(
                    node, topic.topic_partitions, cluster.dialect, copies, stopped=name == "disk"
                )
                assert (log.complete, log.leo, log.error) == (True, 2000, None)
            copies.finish()
            tables[name] = read_table(tmp_path / name, "copies")
        assert tables["wire"].num_rows == 3 * 2000
        assert tables["wire"].equals(tables["disk"])
    finally:
        cluster.delete(topic.name, cluster.topic_ids([topic.name])[topic.name])


def test_what_a_leader_acknowledged_alone_is_lost_and_found(foreign: ForeignCluster, tmp_path: Path) -> None:
    """Both followers hang, the leader is killed: acks=1 loses what they had not copied, acks=all nothing."""
    recorder = Recorder(tmp_path, "--bootstrap", foreign.bootstrap, "--for", "40s", "--yes")
    topic = recorder.wait_recording()
    key = TopicPartition(topic, 0)
    leader = metadata(foreign.endpoint(0), [topic], dialect=dialect(foreign.kafka)).partitions[key].leader
    others = [broker for broker in IDS if broker != leader]
    hosts = ",".join(f"broker{broker}" for broker in others)
    marked = acked("mark", "they hang", "--fault", "pause", "--hosts", hosts, "--runs", tmp_path)
    assert (marked.status, marked.stdout) == (0, "marked, 1 stated fault(s)\n")
    held_alone(foreign, [recorder], leader, others)
    wait_until(
        lambda: (
            metadata(foreign.endpoint(others[0]), [topic], dialect=dialect(foreign.kafka))
            .partitions[key]
            .leader
            in others
        ),
        within_s=60,
        awaiting="another leader",
    )
    foreign.start(leader)
    done = recorder.end()
    foreign.wait_registered()
    judgement = done.json()
    assert judgement["verdict"] == "as declared", (judgement["reasons"], done.stderr)
    assert judgement["findings_by_class"]["lost"] > 0
    by_acks = {row["acks"] for row in judgement["fates_by_writer"] if row["fate"] == "lost"}
    assert by_acks == {1}
    assert {row["row"] for row in judgement["promises"] if row["class"] == "lost"} == {"acks-1-leader"}
    assert all(one["offset"] is not None for one in judgement["findings"])
    # In ZooKeeper mode a broker that hangs may be deposed as well, and lose what it acknowledges after it.
    assert all(one["acked_by"] == leader for one in judgement["findings"] if one["partition"] == 0)
    assert judgement["seen"]["broker-silent"] >= 1 and judgement["seen"]["leader-changed"] >= 1
    faults = pq.read_table(recorder.folder / "history" / "faults.parquet").to_pylist()
    assert [(one["name"], one["stated"]) for one in faults] == [("they hang", True)]
    assert topic not in topics(foreign)


@pytest.mark.long
def test_a_killed_recording_goes_on(foreign: ForeignCluster, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "--bootstrap", foreign.bootstrap, "--for", "25s", "--yes")
    topic = recorder.wait_recording()
    recorder.process.kill()
    recorder.process.communicate()
    assert topic in topics(foreign)
    done = Recorder(tmp_path, "--resume", str(recorder.folder)).end()
    judgement = done.json()
    assert judgement["verdict"] == "as declared", (judgement["reasons"], done.stderr)
    assert {row["writer"] for row in judgement["fates_by_writer"]} == {1, 2, 11, 12}
    assert judgement["seen"]["interrupted"] == 1
    away = [row for row in judgement["unobserved"] if row["broker"] is None]
    assert away and all(row["late"] and row["since_ns"] < row["ns"] for row in away), "it was killed"
    assert topic not in topics(foreign)


@pytest.mark.long
def test_a_recording_that_is_killed_behind_its_final_logs_is_ended(
    foreign: ForeignCluster, tmp_path: Path
) -> None:
    recorder = Recorder(tmp_path, "--bootstrap", foreign.bootstrap, "--for", "10m", "--yes")
    topic = recorder.wait_recording()
    recorder.process.send_signal(signal.SIGTERM)
    wait_until(
        lambda: recorder.manifest()["recording"]["read"],
        within_s=120,
        poll_s=0.001,
        awaiting="the final logs to be read",
    )
    recorder.killed()
    assert recorder.status() == "running"
    done = Recorder(tmp_path, "--resume", str(recorder.folder)).end()
    judgement = done.json()
    assert judgement["verdict"] == "as declared", (judgement["reasons"], done.stderr)
    assert {row["writer"] for row in judgement["fates_by_writer"]} == {1, 2}
    assert (judgement["fates"]["kept"], judgement["seen"]["interrupted"]) == (judgement["messages"], 0)
    assert topic not in topics(foreign)
    again = acked("record", "--resume", recorder.folder)
    assert again.status == 254 and "has ended; acked check" in again.stderr


def test_what_a_killed_recording_left_is_removed(foreign: ForeignCluster, tmp_path: Path) -> None:
    before = inventory(foreign)
    recorder = Recorder(tmp_path, "--bootstrap", foreign.bootstrap, "--for", "60s", "--yes")
    topic = recorder.wait_recording()
    assert inventory(foreign) != before
    recorder.process.kill()
    recorder.process.communicate()
    done = acked("record", "--bootstrap", foreign.bootstrap, "--clean", "--json", "--runs", tmp_path)
    assert done.json() == {"deleted": [topic], "failed": [], "strangers": []}
    assert inventory(foreign) == before


@pytest.mark.long
def test_a_signal_ends_a_recording_with_a_verdict(foreign: ForeignCluster, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "--bootstrap", foreign.bootstrap, "--for", "10m", "--yes")
    topic = recorder.wait_recording()
    recorder.process.send_signal(signal.SIGTERM)  # a shell lets jobs in the background ignore SIGINT
    done = recorder.end()
    assert (done.status, done.json()["verdict"]) == (0, "as declared"), done.stderr
    assert topic not in topics(foreign)
