"""What a recording will do, and what it leaves for a process that carries it on."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from harness.cluster.attached import AttachedCluster, spread_over_azs, topology_of
from harness.console import Progress
from harness.errors import BadDataError, UsageError
from harness.history.tables import read_table
from harness.kafka.model import Endpoint
from harness.kafka.wire.dialect import MODERN
from harness.kafka.wire.metadata import AdvertisedBroker, AdvertisedCluster
from harness.lab.model import Host
from run.clients import UserClients
from run.folder import RunFolder
from run.recording.plan import RecordingPlan, plan_recording
from run.recording.record import Recording
from run.recording.stored import StoredRecording, boot, clean, delete_topics, keep, working_on


def hosts(*azs: str) -> list[Host]:
    """A broker for each letter, numbered from 0."""
    return [
        Host(name=f"broker{number}", role="broker", az=az, address="", node_id=number)
        for number, az in enumerate(azs)
    ]


class Recorded(AttachedCluster):
    """A cluster of which the topics are known, and each deletion is noted."""

    def __init__(self, *racks: str) -> None:
        brokers = tuple(
            AdvertisedBroker(node_id=number, host="127.0.0.1", port=9, rack=rack)
            for number, rack in enumerate(racks)
        )
        described = AdvertisedCluster(cluster_id="c", controller=0, brokers=brokers)
        topology = topology_of(described, Endpoint("127.0.0.1", 9))
        super().__init__(topology=topology, dialect=MODERN, mode="kraft", cluster_id="c")
        self.there: dict[str, UUID | None] = {}
        self.deleted: list[tuple[str, UUID | None]] = []

    def topic_ids(self, topics: Any = None) -> dict[str, UUID | None]:
        return {name: one for name, one in self.there.items() if topics is None or name in topics}

    def delete(self, topic: str, topic_id: UUID | None) -> None:
        self.deleted.append((topic, topic_id))
        if self.there.get(topic) == topic_id:
            del self.there[topic]


def plan(**more: Any) -> RecordingPlan:
    return plan_recording(Recorded("a", "b", "c"), **{"for_s": 60, "rate": 60, "size_bytes": 100, **more})


@pytest.mark.parametrize(
    ("azs", "partitions", "factor", "expected"),
    [
        (("a", "b", "c"), 3, 3, ((0, 1, 2), (1, 2, 0), (2, 0, 1))),
        (("a", "a", "b", "b"), 4, 2, ((0, 2), (2, 0), (1, 3), (3, 1))),
        (("a", "a", "a"), 3, 2, ((0, 1), (1, 2), (2, 0))),
        (("a", "a", "b"), 2, 3, ((0, 2, 1), (2, 0, 1))),
    ],
)
def test_replicas_span_the_azs(
    azs: tuple[str, ...], partitions: int, factor: int, expected: tuple[tuple[int, ...], ...]
) -> None:
    assert spread_over_azs(hosts(*azs), partitions=partitions, factor=factor) == expected


def test_a_rack_is_an_az_and_this_machine_another() -> None:
    topology = Recorded("eu-b", "eu-a", "eu-a").topology
    assert topology.az_names == {"az1": "eu-a", "az2": "eu-b", "here": "here"}
    assert [(one.name, one.az) for one in topology.hosts] == [
        ("broker0", "az2"),
        ("broker1", "az1"),
        ("broker2", "az1"),
        ("here", "here"),
    ]


def test_each_az_leads_a_partition() -> None:
    assert plan().assignment == ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    assert plan().topics[0].config == {}
    assert plan().broker_bytes_per_hour == 60 * 180 * 3600 * 3


def test_transactions_copy_to_a_second_topic() -> None:
    both = plan(transactions=True, topic="acked-x")
    assert [topic.name for topic in both.topics] == ["acked-x", "acked-x-copied"]
    assert {topic.assignment for topic in both.topics} == {both.assignment}
    assert both.broker_bytes_per_hour == 2 * plan().broker_bytes_per_hour
    assert RecordingPlan.from_json(both.as_json()) == both


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"rate": 1001}, "--no-caps"),
        ({"rate": 1000, "size_bytes": 1001}, "MB/s"),
        ({"replication_factor": 4}, "3 broker"),
        ({"topic": "orders"}, "acked-"),
    ],
)
def test_what_a_recording_must_not_do_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        plan(**more)


def test_caps_can_be_lifted() -> None:
    assert plan(rate=5000, uncapped=True).rate == 5000


PLAN = {"topic": "acked-x", "assignment": [[1]], "rate": 1.0, "size_bytes": 100, "for_s": 5.0}


def stored_in(folder: Path, **more: Any) -> RunFolder:
    run = RunFolder.create(folder, "record")
    run.update(status="running")
    values = {"plan": plan(topic="acked-x"), "bootstrap": "h:1", "cluster_id": "c", "began_ns": 1, **more}
    keep(run, StoredRecording(**values))
    return run


def test_a_stored_recording_is_read_back(tmp_path: Path) -> None:
    topic_id = str(UUID(int=7))
    run = stored_in(tmp_path, made=True, topic_ids={"acked-x": topic_id}, attempt=2, boot="b")
    stored = StoredRecording.of(run)
    assert stored.plan == plan(topic="acked-x")
    assert stored.topic_ids == {"acked-x": topic_id}
    assert (stored.made, stored.attempt, stored.boot) == (True, 2, "b")


@pytest.mark.parametrize(
    "damage",
    [
        {"recording": None},
        {"recording": {"plan": 7}},
        {"recording": {"plan": {"topic": "orders", "assignment": [[1]]}}},
        {"recording": {"plan": {"topic": "acked-x", "assignment": "none"}}},
        {"recording": {"plan": {**PLAN, "topic": "acked-/../../x"}}},
    ],
)
def test_a_damaged_recording_is_refused(tmp_path: Path, damage: dict[str, Any]) -> None:
    run = stored_in(tmp_path)
    run.update(**damage)
    with pytest.raises(BadDataError):
        StoredRecording.of(run)


def test_only_what_a_recording_has_made_is_deleted(tmp_path: Path) -> None:
    """A topic that existed before, or that somebody has created anew, stays."""
    cluster = Recorded("a", "b", "c")
    cluster.there = {"acked-x": UUID(int=1)}
    delete_topics(cluster, stored_in(tmp_path))
    assert cluster.deleted == []
    run = stored_in(tmp_path, made=True, topic_ids={"acked-x": str(UUID(int=7))})
    delete_topics(cluster, run)
    assert cluster.deleted == [("acked-x", UUID(int=7))]
    assert cluster.there == {"acked-x": UUID(int=1)}
    assert StoredRecording.of(run).deleted


def test_clean_leaves_topics_of_nobody_and_of_other_clusters_alone(tmp_path: Path) -> None:
    cluster = Recorded("a", "b", "c")
    cluster.there = {"acked-x": UUID(int=7), "acked-stranger": UUID(int=8), "orders": UUID(int=9)}
    stored_in(tmp_path, made=True, topic_ids={"acked-x": str(UUID(int=7))})
    stored_in(tmp_path, made=True, topic_ids={"acked-x": str(UUID(int=7))}, cluster_id="another")
    cleaned = clean(cluster, tmp_path)
    assert cleaned.deleted == ("acked-x",)
    assert cleaned.strangers == ("acked-stranger",)
    assert cluster.there.keys() == {"acked-stranger", "orders"}


def test_clean_leaves_recordings_alone_that_are_under_way(tmp_path: Path) -> None:
    cluster = Recorded("a", "b", "c")
    cluster.there = {"acked-x": UUID(int=7)}
    run = stored_in(tmp_path, made=True, topic_ids={"acked-x": str(UUID(int=7))})
    with working_on(run):
        cleaned = clean(cluster, tmp_path)
    assert cleaned.deleted == ()
    assert "another process" in cleaned.failed[0]
    assert cluster.deleted == []


@pytest.mark.parametrize("deleted", [False, True])
def test_a_recording_whose_logs_are_read_only_ends(tmp_path: Path, deleted: bool) -> None:
    """Its topic is gone, or goes now: nothing is recorded anew."""
    cluster = Recorded("a", "b", "c")
    topic_id = UUID(int=7)
    cluster.there = {} if deleted else {"acked-x": topic_id}
    ids = {"acked-x": str(topic_id)}
    run = stored_in(tmp_path, made=True, read=True, deleted=deleted, topic_ids=ids, boot=boot())
    (run.path / "nodes" / "here").mkdir()
    (run.path / "nodes" / "here" / "client.jsonl").write_text(
        '{"table":"marks","ns":5,"name":"x","text":"half","facts":"{}"}\n{"table":'
    )
    for attempt in ("-1", ""):  # of a process that was killed, and of the one that read the logs
        (run.path / "journal" / f"harness{attempt}.jsonl").write_text(
            '{"table":"marks","ns":6,"name":"isr-shrunk","text":"of one","facts":"{}"}\n{"table":"ma'
        )
    recording = Recording(cluster=cluster, folder=run, progress=Progress(quiet=True), user=UserClients())
    assert recording.go_on().status == "complete"
    assert cluster.deleted == ([] if deleted else [("acked-x", topic_id)])
    stored = StoredRecording.of(run)
    assert stored.deleted and stored.attempt == 1
    assert read_table(run.path, "marks")["text"].to_pylist() == ["half", "of one", "of one"]
    assert {name: n for name, n in run.manifest()["recording"]["seen"].items() if n} == {"isr-shrunk": 2}


def test_after_a_restart_of_the_machine_a_recording_cannot_go_on(tmp_path: Path) -> None:
    run = stored_in(tmp_path, boot="another")
    with pytest.raises(UsageError, match="started anew"):
        StoredRecording.of(run).require_same_boot(run.path)
