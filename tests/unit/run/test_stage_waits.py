"""When a wait of a scenario ends, the history's latest view shows what was awaited: claims look back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from harness.clock import now_ns
from harness.cluster.timings import BASE
from harness.history.journal import Journal
from harness.kafka.model import OFFSET_OUT_OF_RANGE, PartitionState, Topic, TopicPartition
from harness.kafka.wire.logs import FetchResult
from harness.kafka.wire.offsets import Offset
from harness.observer.views import View, Views
from run.stage import Stage


def shows(source: str, *isr: int) -> View:
    state = PartitionState(leader=2, leader_epoch=1, isr=isr)
    return View(source=source, subject="partition", topic_partition=TopicPartition("t", 0), state=state)


def stage_of(views: Views, mode: str, partition: Callable[[str, int], PartitionState]) -> Stage:
    cluster = SimpleNamespace(
        mode=mode,
        poll_s=0.01,
        partition=partition,
        partitions=lambda keys: {key: partition(*key) for key in keys},
        check_alive=lambda: None,
    )
    return Stage(
        setup=Mock(timings=BASE),
        lab=Mock(),
        cluster=cluster,  # type: ignore[arg-type]
        processes=Mock(),
        observer=SimpleNamespace(views=views),  # type: ignore[arg-type]
        nemesis=Mock(),
        clients={},
        journal=Mock(mark=lambda *_: now_ns()),
        progress=Mock(),
        dialect=Mock(),
        topics=(),
    )


def test_the_late_word_of_a_lagging_broker_does_not_come_last(tmp_path: Path) -> None:
    """In KRaft mode a lagging broker may report the old ISR after another broker has reported the new one."""
    views = Views(Journal(tmp_path / "views.jsonl"))
    views.record([shows("broker2", 1, 2, 3)])
    views.record([shows("broker1", 2, 3)])
    asked = itertools.count()

    def partition(_topic: str, _partition: int) -> PartitionState:
        """The lagging broker catches up during the third call."""
        if next(asked) == 2:
            views.record([shows("broker1", 1, 2, 3)])
        return PartitionState(leader=2, leader_epoch=1, isr=(1, 2, 3))

    stage = stage_of(views, "kraft", partition)
    stage.wait_for_isr("t", 1, 2, 3)
    newest = views.of("broker").partition("t")
    assert newest is not None
    assert newest.isr == (1, 2, 3)


def test_a_node_that_lags_behind_does_not_make_the_old_state_the_newest(tmp_path: Path) -> None:
    """A run of offsets-commit-refused marked "shrunk" 55 ms before the first view with the smaller ISR."""
    views = Views(Journal(tmp_path / "views.jsonl"))
    views.record([shows("broker1", 1, 2, 3)])
    asked = itertools.count()

    def partition(_topic: str, _partition: int) -> PartitionState:
        """Only the first node that is asked knows the new state; later the observer hears of it."""
        number = next(asked)
        if number == 5:
            views.record([shows("broker1", 1)])
        return PartitionState(leader=2, leader_epoch=1, isr=(1,) if number in (0, 5) else (1, 2, 3))

    stage = stage_of(views, "kraft", partition)
    stage.wait_for_isr("t", 1)
    assert views.of("broker").isr("t") == (1,)


def test_convergence_waits_for_the_broker_that_hears_of_it_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller tells a broker of a new ISR after ZooKeeper has it: a mark must not come between."""
    views = Views(Journal(tmp_path / "views.jsonl"))
    views.record([shows("zookeeper1", 1, 2, 3), shows("broker2", 1, 2, 3), shows("broker3", 1, 2)])
    views.record([View(source=f"broker{number}", subject="reachable") for number in (2, 3)])
    asked = itertools.count()

    def partition(_topic: str, _partition: int) -> PartitionState:
        if next(asked) == 5:
            views.record([shows("broker3", 1, 2, 3)])
        return PartitionState(leader=2, leader_epoch=1, isr=(1, 2, 3))

    stage = stage_of(views, "zookeeper", partition)
    monkeypatch.setattr(stage, "_disagreement", lambda *_, **__: "")
    stage.wait_converged("t")
    assert views.of("broker3").isr("t") == (1, 2, 3)


def test_a_replicated_message_is_in_the_history_before_a_fault_may_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run lost the evidence for its claim: a follower was killed before the observer read its log again."""
    views = Views(Journal(tmp_path / "views.jsonl"))
    recorded = itertools.chain((1, 1, 1, 2), itertools.repeat(2))

    def recorded_end(broker: int, _key: TopicPartition) -> int | None:
        return next(recorded) if broker == 2 else None

    state = PartitionState(leader=1, leader_epoch=0, isr=(1, 2))
    stage = stage_of(views, "zookeeper", lambda _topic, _partition: state)
    stage.observer = Mock(recorded_end=recorded_end)
    log = Mock(error=0, high_watermark=2, log_end_offset=2, records=[Mock(offset=1, epoch=0, crc=7)])
    monkeypatch.setattr(stage, "own_log", lambda *_: log)
    stage.wait_replicated("t")
    assert next(recorded) == 2


def test_a_mark_waits_for_a_look_at_each_node_that_answers(tmp_path: Path) -> None:
    """What follows a mark, such as a heal, may change what the next look sees."""
    views = Views(Journal(tmp_path / "views.jsonl"))
    stage = stage_of(views, "zookeeper", Mock())
    answers = [View(source=f"broker{number}", subject="reachable") for number in (1, 2)]
    silent = View(source="broker2", subject="reachable", error="timed out")
    views.record(answers)
    asked = iter([lambda: None, lambda: views.record([answers[0]]), lambda: views.record([silent])])
    is_due = views.look_is_due

    def look_is_due(source: str = "") -> bool:
        next(asked)()
        return is_due(source)

    views.look_is_due = look_is_due  # type: ignore[method-assign]
    stage.mark("cut")
    assert next(asked, None) is None
    assert is_due() is False


def test_a_mark_shows_that_quiet_nodes_still_answer(tmp_path: Path) -> None:
    """Only changes of views are recorded, so the last row of a quiet cluster would be old."""
    journal = tmp_path / "views.jsonl"
    views = Views(Journal(journal))
    stage = stage_of(views, "zookeeper", Mock())
    answers = [View(source="broker1", subject="reachable"), View(source="broker2", subject="reachable")]
    views.record([*answers, shows("broker1", 1, 2)])
    views.record([View(source="broker2", subject="reachable", error="timed out")])
    before = now_ns()
    views.record([answers[0]])
    stage.mark("quiet")
    last = {row["source"]: row for row in map(json.loads, journal.read_text().splitlines())}
    assert last["broker1"]["subject"] == "reachable"
    assert last["broker1"]["ns"] >= before
    assert last["broker2"]["error"] == "timed out"


def test_the_own_log_of_a_replica_is_read_from_its_log_start_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention has removed all before offset 67, and nothing ever converged: 0 is out of range."""
    asked: list[int] = []

    def fetch(_target: object, _topic: str, _partition: int, offset: int = 0, **_: object) -> FetchResult:
        asked.append(offset)
        in_range = FetchResult(high_watermark=67, log_start=67)
        return in_range if offset >= 67 else FetchResult(error=OFFSET_OUT_OF_RANGE)

    def starts(*_: object, **__: object) -> dict[TopicPartition, Offset]:
        return {TopicPartition("t", 0): Offset(67, 0)}

    monkeypatch.setattr("run.stage.fetch_own_log", fetch)
    monkeypatch.setattr("run.stage.end_offsets", starts)
    state = PartitionState(leader=1, leader_epoch=0, isr=(1, 2, 3), replicas=(1, 2, 3))
    stage = stage_of(Mock(), "zookeeper", lambda *_: state)
    fetched = stage.own_log("broker1", "t")
    assert (fetched.error, fetched.log_end_offset, asked) == (0, 67, [0, 67])
    assert stage._disagreement("t", 0, full_isr=True) == ""


def test_a_deleted_topic_has_no_isr_to_wait_for() -> None:
    stage = stage_of(Mock(), "zookeeper", Mock(side_effect=AssertionError("asked for a deleted topic")))
    stage.topics = (Topic("gone", (1, 2)),)
    stage.nemesis.deleted_topics = frozenset({"gone"})  # type: ignore[misc]
    assert stage.incomplete_isrs() == []


def test_offsets_are_altered_once_the_coordinator_names_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As any operator action, it waits for its effect; a refused commit ends the run (`must_commit`)."""
    stage = stage_of(Mock(), "kraft", Mock())
    client = Mock()
    client.fetch.side_effect = [SimpleNamespace(offset=None), SimpleNamespace(offset=4)]
    monkeypatch.setattr(
        stage, "group_offsets", lambda az, group: client if (az, group) == ("az3", "g") else None
    )
    monkeypatch.setattr(stage, "group_coordinator", lambda group: "broker2")
    act = stage.nemesis.operator.return_value.act  # type: ignore[attr-defined]
    assert stage.alter_offsets("az3", "g", "t", 4, partition=1) is act.return_value
    asked = act.call_args.kwargs
    assert (asked["mechanism"], asked["targets"]) == (
        "alter_offsets",
        {"partitions": ["t/1"], "groups": ["g"], "offset": 4},
    )
    asked["action"]()
    client.must_commit.assert_called_once_with("t", 4, at="broker2", partition=1)
    assert [asked["accept"](asked["observe"]()) for _ in range(2)] == [False, True]


def test_ends_are_the_highest_that_any_broker_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """The final reader's time follows from them; the observer may be far behind."""
    keys = [TopicPartition("t", number) for number in range(3)]
    stated = {
        "broker1": {keys[0]: Offset(7, 0), keys[1]: Offset(-1, 6), keys[2]: Offset(-1, 3)},
        "broker3": {keys[0]: Offset(9, 0), keys[1]: Offset(4, 0), keys[2]: Offset(-1, 3)},
    }

    def end_offsets(endpoint: str, _keys: object, **_options: object) -> dict[TopicPartition, Offset]:
        if endpoint not in stated:
            raise ConnectionError("it does not answer")
        return stated[endpoint]

    monkeypatch.setattr("run.stage.end_offsets", end_offsets)
    stage = stage_of(Mock(), "zookeeper", Mock())
    stage.setup = Mock(brokers=(1, 2, 3))
    stage.lab = Mock(topology=Mock(host=lambda name: Mock(broker_endpoint=name)))
    assert stage.ends(keys) == {keys[0]: 9, keys[1]: 4, keys[2]: 0}
