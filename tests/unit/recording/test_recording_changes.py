"""Rights, settings and quotas that change while a recording is under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.attached import AttachedCluster, topology_of
from harness.history.assemble import assemble
from harness.history.journal import Journal
from harness.history.tables import read_table
from harness.kafka.model import Endpoint
from harness.kafka.wire.dialect import MODERN
from harness.kafka.wire.metadata import AdvertisedBroker, AdvertisedCluster
from run.recording import changes
from run.recording.changes import Changes

CONFIG = {"min.insync.replicas": "2", "retention.ms": "1"}
ALL = frozenset({"read", "write", "describe", "delete"})


def looked(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    answers: Sequence[Any],
    silent: str = "",
    configs: Sequence[Any] = (),
    delays: Sequence[Mapping[str, int]] = (),
    begins: int = 0,
) -> list[str]:
    """What is marked while brokers state one answer after the other; an exception is raised.

    ``begins`` of the answers are those at the beginning.
    """
    states = {"rights": iter(answers), "configs": iter(configs or [LookupError()] * len(answers))}
    delayed = iter(delays or [{}] * len(answers))

    def state(of: str) -> Any:
        answer = next(states[of])
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(changes, "authorized_operations", lambda *_, **__: state("rights"))
    monkeypatch.setattr(changes, "describe_configs", lambda *_, **__: state("configs"))
    monkeypatch.setattr(changes, "_EVERY_S", 0.0)
    brokers = tuple(AdvertisedBroker(node_id=number, host="h", port=1) for number in (0, 1))
    described = AdvertisedCluster(cluster_id="c", controller=0, brokers=brokers)
    topology = topology_of(described, Endpoint("h", 1))
    cluster = AttachedCluster(topology=topology, dialect=MODERN, mode="kraft", cluster_id="c")
    said: list[str] = []
    with Journal(folder / "journal" / "harness.jsonl") as journal:
        watched = Changes(
            cluster=cluster,
            topic="acked-x",
            journal=journal,
            mark=journal.mark,
            say=said.append,
            config=CONFIG if configs else {},
            throttled_ms=lambda: next(delayed),
        )
        if begins:
            watched.begin()
        for _ in answers[begins:]:
            watched.look(lambda host: host != silent)
    assemble(folder)
    marked: list[str] = read_table(folder, "marks")["text"].to_pylist()
    assert set(said) <= set(marked)
    return marked


def test_a_right_that_is_taken_away_is_named_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without = ALL - {"write"}
    assert looked(monkeypatch, tmp_path, [ALL, ALL, without, without, ALL]) == [
        "the user lacks WRITE on the topic acked-x from now on",
        "the user has WRITE on the topic acked-x again",
    ]


def test_a_right_that_is_gone_at_the_first_look_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers = [ConnectionError("away"), ALL, ALL - {"read"}]
    assert looked(monkeypatch, tmp_path, answers, begins=2) == [
        "the user lacks READ on the topic acked-x from now on"
    ]


def test_without_describe_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = looked(monkeypatch, tmp_path, [ALL, frozenset()])
    assert [text.split()[3] for text in said] == ["READ", "WRITE", "DESCRIBE", "DELETE"]


@pytest.mark.parametrize("nothing", [None, ConnectionError("away")])
def test_what_is_not_told_is_no_news(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nothing: object
) -> None:
    assert looked(monkeypatch, tmp_path, [nothing, ALL, nothing, ALL]) == []


def test_brokers_that_are_away_are_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert looked(monkeypatch, tmp_path, [ALL, frozenset()], silent="broker1") == []


def test_a_setting_that_changes_is_stated_with_both_values(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    changed = {**CONFIG, "min.insync.replicas": "1"}
    states = [CONFIG, changed, LookupError(), changed]
    assert looked(monkeypatch, tmp_path, [None] * 4, configs=states) == [
        "min.insync.replicas of the topic acked-x is 1 from now on, and was 2"
    ]
    rows = read_table(tmp_path, "configs").to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [("min.insync.replicas", "1")]


def test_settings_that_were_not_told_at_first_are_not_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert looked(monkeypatch, tmp_path, [None, None]) == []


def test_quotas_that_delay_producers_are_marked_when_they_begin_and_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    delays = [{"p": 0}, {"p": 50}, {"p": 90}, {"p": 90}, {"p": 91}]
    assert looked(monkeypatch, tmp_path, [None] * 5, delays=delays) == [
        "quotas of the cluster delay answers to p",
        "quotas of the cluster delay no answer any more",
        "quotas of the cluster delay answers to p",
    ]
