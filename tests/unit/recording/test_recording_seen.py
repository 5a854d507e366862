"""What the observer of a recording sees to break by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.assemble import assemble
from harness.history.journal import Journal
from harness.history.tables import read_table
from harness.kafka.model import PartitionState, TopicPartition
from harness.observer.views import View, Views
from run.recording.seen import Seen

KEY = TopicPartition("acked-1", 0)


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    journal = Journal(tmp_path / "journal" / "harness.jsonl")
    return Seen(views=Views(journal), journal=journal, brokers=(0, 7), partitions=(KEY,))


def state(leader: int, epoch: int, *isr: int) -> PartitionState:
    return PartitionState(leader=leader, leader_epoch=epoch, isr=isr, replicas=(0, 7))


def look(seen: Seen, stated: PartitionState, *silent: int) -> None:
    """Both brokers state it, unless they are silent."""
    for broker in (0, 7):
        source = f"broker{broker}"
        error = "timed out" if broker in silent else None
        views = [View(source=source, subject="reachable", error=error)]
        if not error:
            views.append(View(source=source, subject="partition", topic_partition=KEY, state=stated))
        seen.views.record(views)
    seen.look()


def marks(seen: Seen, folder: Path) -> list[str]:
    seen.journal.close()
    assemble(folder)
    names: list[str] = read_table(folder, "marks")["name"].to_pylist()
    return names


def test_a_quiet_cluster_gives_no_marks(seen: Seen, tmp_path: Path) -> None:
    for _ in range(3):
        look(seen, state(0, 0, 0, 7))
    assert set(seen.as_json().values()) == {0}
    assert marks(seen, tmp_path) == []


def test_each_change_is_marked_once(seen: Seen, tmp_path: Path) -> None:
    look(seen, state(0, 0, 0, 7))
    look(seen, state(0, 0, 0, 7), 0)
    look(seen, state(0, 0, 0, 7), 0)
    look(seen, state(7, 1, 7), 0)
    look(seen, state(7, 1, 7))
    look(seen, state(7, 1, 0, 7))
    assert seen.as_json() == {"broker-silent": 1, "leader-changed": 1, "no-leader": 0, "isr-shrunk": 1}
    assert marks(seen, tmp_path) == [
        "broker-silent",
        "leader-changed",
        "isr-shrunk",
        "broker-answers",
        "isr-full",
    ]


def test_a_partition_without_a_leader_is_marked(seen: Seen) -> None:
    look(seen, state(0, 0, 0))
    look(seen, state(-1, 1, 0))
    look(seen, state(0, 2, 0))
    assert seen.as_json()["no-leader"] == 1
    assert seen.as_json()["leader-changed"] == 1
