"""Rights that are taken away, or given back, while a recording is under way."""

from __future__ import annotations

from collections.abc import Sequence
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
from run.recording import rights
from run.recording.rights import RightsOnTopic

ALL = frozenset({"read", "write", "describe", "delete"})


def looked(
    monkeypatch: pytest.MonkeyPatch, folder: Path, answers: Sequence[Any], silent: str = ""
) -> list[str]:
    """What is said while brokers state one answer after the other; an exception is raised."""
    stated = iter(answers)

    def state(*_: object, **__: object) -> Any:
        answer = next(stated)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(rights, "authorized_operations", state)
    monkeypatch.setattr(rights, "_EVERY_S", 0.0)
    brokers = tuple(AdvertisedBroker(node_id=number, host="h", port=1) for number in (0, 1))
    described = AdvertisedCluster(cluster_id="c", controller=0, brokers=brokers)
    topology = topology_of(described, Endpoint("h", 1))
    cluster = AttachedCluster(topology=topology, dialect=MODERN, mode="kraft", cluster_id="c")
    said: list[str] = []
    with Journal(folder / "journal" / "harness.jsonl") as journal:
        watched = RightsOnTopic(cluster=cluster, topic="acked-x", journal=journal, say=said.append)
        for _ in answers:
            watched.look(lambda host: host != silent)
    assemble(folder)
    assert read_table(folder, "marks")["text"].to_pylist() == said
    return said


def test_a_right_that_is_taken_away_is_named_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without = ALL - {"write"}
    assert looked(monkeypatch, tmp_path, [ALL, ALL, without, without, ALL]) == [
        "the user lacks WRITE on the topic acked-x from now on",
        "the user has WRITE on the topic acked-x again",
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
