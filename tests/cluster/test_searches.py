"""Real searches and replays: without faults nothing is found; a schedule that loses acks=1 does so again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.search.rules import read
from harness.search.schedule import FILE, Moment, Producer, Schedule, Step, TopicPlan
from tests.cluster.conftest import acked

pytestmark = [pytest.mark.cluster, pytest.mark.long]

ISOLATED = Schedule(
    kafka="2.7.1",
    mode="zookeeper",
    controller="broker2",
    quorum_leader="zookeeper2",
    topics=(TopicPlan(name="t"),),
    producers=(Producer(az="az1", acks=1, idempotent=False), Producer(az="az2")),
    steps=(Step(fault="cut", targets=("az1",), toward=("others",), until=Moment(after_s=12.0)),),
)


def test_schedules_without_a_fault_find_nothing(tmp_path: Path) -> None:
    """On one cluster, whose runs are thinned to their summary; the same seed makes the same schedules."""
    done = acked(
        *("search", "--faults", "no-fault", "--seed", "1", "--count", "2"),
        *("--parallel", "1", "--runs", tmp_path, "--json"),
    )
    assert done.status == 0, done.stderr
    document = done.json()
    assert (document["schedules"], document["judged"], document["groups"]) == (2, 2, [])
    folders = sorted(file.parent for file in tmp_path.glob(f"search/*/runs/schedule/2*/{FILE}"))
    assert len(folders) == 2
    assert {path.name for path in folders[0].iterdir()} == {FILE, "run.json", "judgement.json"}
    assert sorted(read(folder / FILE).made_by for folder in folders) == [
        "seed 1, number 1",
        "seed 1, number 2",
    ]


def test_a_loss_that_is_not_promised_comes_back(tmp_path: Path) -> None:
    """What the isolated leader acknowledged with acks=1 is lost; nothing with acks=all is."""
    file = tmp_path / FILE
    file.write_bytes(ISOLATED.encode())
    done = acked("replay", file, "--repeat", "2", "--parallel", "1", "--runs", tmp_path, "--json")
    assert done.status in (0, 1), done.stderr  # a busy machine may leave an unexplained ERROR
    document = done.json()
    lost = [one for one in document["findings"] if one["example"]["name"] == "lost"]
    assert {one["example"]["row"] for one in lost} == {"acks-1-leader"}, document
    assert max(one["runs"] for one in lost) == 2, document
    assert all("acks=1" in one["signature"] for one in lost)
    (kept,) = tmp_path.glob("replay/*/replay.json")
    assert json.loads(kept.read_text()) == document
