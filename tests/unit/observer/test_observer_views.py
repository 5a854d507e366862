"""Views: changes are recorded; queries concern one source, or the latest view of a kind of source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.clock import now_ns
from harness.history.journal import Journal
from harness.history.schema import TABLES
from harness.kafka.model import PartitionState, TopicPartition
from harness.observer.views import View, Views


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "views.jsonl")


def rows(tmp_path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (tmp_path / "views.jsonl").read_text().splitlines()]


def leads(source: str, leader: int, epoch: int = 0, order: int = 0) -> View:
    state = PartitionState(leader=leader, leader_epoch=epoch, isr=(1, 2))
    key = TopicPartition("t", 0)
    return View(source=source, subject="partition", topic_partition=key, state=state, order=order)


def test_only_changes_are_recorded(journal: Journal, tmp_path: Path) -> None:
    views = Views(journal)
    for leader in (1, 1, 2, 2):
        views.record([leads("broker1", leader)])
    assert [row["leader"] for row in rows(tmp_path)] == [1, 2]
    assert set(rows(tmp_path)[0]) - {"table"} <= set(TABLES["views"].arrow().names)


def test_a_znode_rewritten_with_the_same_content_is_no_change(journal: Journal, tmp_path: Path) -> None:
    views = Views(journal)
    views.record([leads("zookeeper1", 1, order=5)])
    views.record([leads("zookeeper1", 1, order=6)])
    assert len(rows(tmp_path)) == 1


def test_becoming_unreachable_and_back(journal: Journal, tmp_path: Path) -> None:
    views = Views(journal)
    for error in (None, "refused", None):
        views.record([View(source="broker1", subject="reachable", error=error)])
    assert [row.get("error") for row in rows(tmp_path)] == [None, "refused", None]
    assert views.of("broker1").reachable()


def test_the_last_answer_before_silence_is_recorded(journal: Journal, tmp_path: Path) -> None:
    views = Views(journal)
    times = []
    for error in (None, None, "refused", "refused", None):
        before = now_ns()
        views.record([View(source="zookeeper1", subject="reachable", error=error)])
        times.append((before, now_ns()))
    recorded = rows(tmp_path)
    assert [row.get("error") for row in recorded] == [None, None, "refused", None]
    for row, (since, until) in zip(recorded, (times[0], times[1], times[2], times[4]), strict=True):
        assert isinstance(row["ns"], int)
        assert since <= row["ns"] <= until


def test_the_first_look_that_begins_after_a_mark_is_recorded(journal: Journal, tmp_path: Path) -> None:
    """A look that began before the mark may show what was so before it, however late its answer comes."""
    views = Views(journal)
    answer, other = (View(source=name, subject="reachable") for name in ("broker1", "broker2"))
    start = now_ns()
    views.record([answer], start)
    views.record([other], start)
    mark = now_ns()
    views.confirm(mark)
    views.record([answer], mark - 1)
    for asked in (mark, mark + 1):
        views.record([answer], asked)
    views.record([View(source="broker2", subject="reachable", error="timed out")], mark + 2)
    views.record([other], mark + 3)
    recorded = [(row["source"], row["asked_ns"], row.get("error")) for row in rows(tmp_path)]
    assert recorded == [
        ("broker1", start, None),
        ("broker2", start, None),
        ("broker1", start, None),
        ("broker2", start, None),
        ("broker1", mark, None),
        ("broker2", mark + 2, "timed out"),
        ("broker2", mark + 3, None),
    ]


def test_the_newest_znode_counts_whoever_shows_it(journal: Journal) -> None:
    views = Views(journal)
    views.record([leads("zookeeper1", 1, epoch=0, order=10)])
    views.record([leads("zookeeper2", 2, epoch=1, order=20)])
    views.record([leads("zookeeper10", 1, epoch=0, order=10)])
    assert views.of("zookeeper").leader("t") == 2
    assert views.of("zookeeper1").leader("t") == 1


def test_among_brokers_the_highest_epoch_counts(journal: Journal) -> None:
    views = Views(journal)
    views.record([leads("broker1", 1, epoch=4), leads("broker2", 2, epoch=5)])
    assert views.of("broker").leader("t") == 2
    assert views.of("broker").epoch("t") == 5


def test_a_source_that_is_silent_does_not_outlive_a_topic_that_was_created_again(journal: Journal) -> None:
    """The leader epochs of the new topic begin at 0; a dead broker stated a higher one of the old topic."""
    views = Views(journal)
    for number, error in ((1, None), (3, "refused")):
        views.record([View(source=f"broker{number}", subject="reachable", error=error)])
    views.record([leads("broker3", 3, epoch=8), leads("broker1", 1, epoch=0)])
    assert views.of("broker").epoch("t") == 0
    assert views.of("broker3").epoch("t") == 8
    views.record([View(source="broker1", subject="reachable", error="refused")])
    assert views.of("broker").epoch("t") == 8, "nobody answers: the newest statement counts"


def test_what_no_source_has_stated_is_none(journal: Journal) -> None:
    view = Views(journal).of("broker1")
    assert (view.leader("t"), view.isr("t"), view.controller(), view.brokers()) == (None,) * 4
    assert not view.reachable()
