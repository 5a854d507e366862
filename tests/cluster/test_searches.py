"""Real searches and replays: without faults nothing is found; a schedule that loses acks=1 does so again."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from checkers.tables.source import open_source, read_small
from studies.search.rules import read
from studies.search.schedule import FILE, Group, Member, Producer, Schedule, TopicPlan
from studies.steps.step import Moment, Step
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


EVERYTHING = Schedule(
    kafka="4.3.1",
    mode="kraft",
    controller="controller2",
    topics=(TopicPlan(name="t", partitions=2), TopicPlan(name="u", replicas=2, min_insync=1)),
    producers=(
        Producer(az="az1"),
        Producer(az="az1", transactional=True),
        Producer(az="az2", transactional=True, starts=1, succeeds=2),
    ),
    groups=(Group(members=(Member(az="az1"), Member(az="az3", starts=1, stops=3))),),
    steps=(
        Step(fault="configure", when=Moment(after_s=2.0), until=Moment(after_s=3.0)),
        Step(
            fault="cut",
            targets=("controller",),
            toward=("other-controllers",),
            when=Moment(after_s=5.0),
            until=Moment(after_s=4.0),
        ),
        Step(
            fault="pause",
            targets=("group-coordinator",),
            when=Moment(event="marker-written", after_s=20.0),
            until=Moment(after_s=4.0),
        ),
    ),
)
"""What version 3 of the format added."""


def test_groups_successors_and_changed_settings_are_carried_out(tmp_path: Path) -> None:
    """No step is skipped or late, the successor fences the first producer, and the group is handed over."""
    file = tmp_path / FILE
    file.write_bytes(EVERYTHING.encode())
    done = acked("replay", file, "--repeat", "1", "--parallel", "1", "--runs", tmp_path, "--json")
    assert done.status in (0, 1), done.stderr  # a busy machine may leave an unexplained ERROR
    assert done.json()["runs"] == 1, done.stderr
    (folder,) = (one.parent for one in tmp_path.glob("replay/*/runs/schedule/2*/history"))
    source = open_source(str(folder / "history"))
    marks = [str(row["name"]) for row in read_small(source, "marks").to_pylist()]
    assert [name for name in marks if name.startswith(("skipped-", "late-", "finding-"))] == []
    assert {"step-1", "ended-1", "step-2", "ended-2", "step-3", "ended-3", "recovered"} <= set(marks)
    faults = read_small(source, "faults").to_pylist()
    changes = [
        row["name"] for row in faults if row["mechanism"] == "configure" and row["moment"] == "injected"
    ]
    assert [name.rpartition("=")[2] for name in changes] == ["3", "2"]
    cut = {
        link
        for row in faults
        if row["mechanism"] == "cut" and row["moment"] == "injected"
        for link in json.loads(row["targets"])["links"]
    }
    assert len(cut) == 4 and all(link.count("controller") == 2 for link in cut)
    ends = read_small(source, "transactions").to_pylist()
    names = {row["writer"]: row["name"] for row in read_small(source, "writers").to_pylist()}
    by_name = {(names[row["writer"]], row["event"]) for row in ends}
    assert ("producer-3-1", "committed") in by_name
    assert {name for name, _ in by_name if name.startswith("producer-2")} == {"producer-2-1"}
    groups = read_small(source, "groups").to_pylist()
    assert len({row["reader"] for row in groups if row["event"] == "committed"}) >= 2


SHARED = Schedule(
    kafka="4.4.0",
    mode="kraft",
    controller="controller2",
    topics=(TopicPlan(name="t", partitions=2),),
    producers=(Producer(az="az1"), Producer(az="az2", transactional=True)),
    groups=(Group(members=(Member(az="az1"), Member(az="az3", starts=1)), answers=("accept", "release")),),
    steps=(
        Step(fault="disk_stalled", targets=("leader",), when=Moment(after_s=2.0), until=Moment(after_s=3.0)),
        Step(fault="pause", targets=("share-coordinator",), when=Moment(after_s=6.0)),
    ),
)


def test_a_share_group_and_a_stalled_disk_are_carried_out(tmp_path: Path) -> None:
    """Both members are handed records, each answer is given, and what is stored at the end is noted."""
    file = tmp_path / FILE
    file.write_bytes(SHARED.encode())
    done = acked("replay", file, "--repeat", "1", "--parallel", "1", "--runs", tmp_path, "--json")
    assert done.status in (0, 1), done.stderr  # a busy machine may leave an unexplained ERROR
    (folder,) = (one.parent for one in tmp_path.glob("replay/*/runs/schedule/2*/history"))
    source = open_source(str(folder / "history"))
    marks = [str(row["name"]) for row in read_small(source, "marks").to_pylist()]
    assert [name for name in marks if name.startswith(("skipped-", "late-", "finding-", "note"))] == []
    shares = read_small(source, "shares").to_pylist()
    assert len({row["reader"] for row in shares if row["event"] == "acquired"}) == 2
    answered = {row["answer"] for row in shares if row["event"] == "answered" and row["error"] == 0}
    assert answered == {"accept", "release"}
    states = read_small(source, "share_states").to_pylist()
    assert {row["partition"] for row in states} == {0, 1}


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


@pytest.mark.timeout(3600)
def test_a_planted_bug_of_two_faults_is_found_and_shrunk_to_them(tmp_path: Path) -> None:
    """The seed is one whose first five schedules show the bug in the simulation of `test_planted_bug`."""
    client = f"{sys.executable} {Path(__file__).with_name('forgetful_client.py')}"
    done = acked(
        *("search", "--kafka", "4.3.1", "--mode", "kraft-combined", "--safe", "--faults", "pause,kill"),
        *("--client", client, "--seed", "718", "--count", "5", "--parallel", "2"),
        *("--runs", tmp_path, "--json"),
        timeout_s=1800,
    )
    assert done.status == 1, done.stderr
    lost = [group for group in done.json()["groups"] if group["finding"]["name"] == "lost"]
    assert [(group["finding"]["weight"], group["finding"]["promise"]) for group in lost] == [
        ("new", "broken")
    ]
    few = acked(
        *("shrink", lost[0]["folder"], "--steps", "--finding", "lost: broken", "--parallel", "2"),
        *("--runs", tmp_path, "--json"),
        timeout_s=1800,
    )
    assert few.status == 0, few.stderr
    left = [re.search(r": (\S+)", step) for step in few.json()["steps"]]
    assert [step and step[1] for step in left] == ["pause", "kill"], few.stdout
