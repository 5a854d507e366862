"""A search, a replay and a shrinking on a simulated fleet: corpus, groups, thinning, resuming, deciding."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest
from msgspec.structs import replace

from harness.cluster.settings import NO_SETTINGS
from harness.cluster.timings import BASE
from harness.errors import BadDataError, InvalidRunError, UsageError
from harness.lab.layout import THREE_AZS
from studies.search import shrinking
from studies.search.findings import RunFinding
from studies.search.grammar import fresh
from studies.search.hunt import Search, SearchPlan, TriedSchedule, corpus_of
from studies.search.repeat import repeat, until_decided
from studies.search.runs import schedule_of
from studies.search.schedule import FILE, Producer, Schedule, TopicPlan
from studies.search.shrinking import Shrinking
from studies.search.space import space_of
from studies.series import planned as plans
from studies.series.folder import PLAN
from studies.series.job import Job
from studies.steps.step import Moment, Step
from tests.unit.search.conftest import SimulatedFleet, World

TOPOLOGY = THREE_AZS.topology("kraft")
SPACE = space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE)
LOST = RunFinding(name="lost", weight="new", promise="broken", row="committed", settings="acks=all")
EXPECTED = RunFinding(name="lost", weight="not promised", promise="not promised", row="acks-1-leader")


def planned(world: World, **changes: Any) -> Search:
    plan = SearchPlan(seed=7, version="3.6.2", mode="kraft", settings=dict(NO_SETTINGS.as_json()))
    return Search.create(world.path, replace(plan, **changes), None)


def searched(search: Search, count: int) -> list[TriedSchedule]:
    said: list[TriedSchedule] = []
    assert search.run(1, said.append, lambda begun: begun < count) is False
    return said


def test_the_same_seed_searches_the_same_schedules(world: World) -> None:
    once = [record.digest for record in searched(planned(world), 12)]
    again = [record.digest for record in searched(planned(world), 12)]
    assert once == again
    assert len(set(once)) > 10


def test_what_reached_something_new_is_mutated(world: World) -> None:
    search = planned(world)
    records = searched(search, 40)
    assert search.corpus.keys() == {record.number for record in records if record.new}
    parents = [record.parent for record in records if record.parent]
    assert 5 < len(parents) < 35
    assert set(parents) <= search.corpus.keys()
    assert {path.name for path in (search.path / "corpus").iterdir()} == {
        f"{number:05}.json" for number in search.corpus
    }
    assert corpus_of(search.path) == [search.corpus[number] for number in sorted(search.corpus)]


def test_clean_runs_are_thinned_and_failures_kept(world: World) -> None:
    world.finds = lambda schedule, turn: (LOST,) if turn == 3 else (EXPECTED,) if turn >= 4 else ()
    records = searched(planned(world), 10)
    whole = [(Path(record.folder) / "life.parquet").exists() for record in records]
    assert whole == [False, False, True, True, True, True, False, False, False, False]
    assert all((Path(record.folder) / FILE).exists() for record in records)


def test_findings_are_grouped_with_count_first_and_rate(world: World) -> None:
    world.finds = lambda schedule, turn: (
        *((LOST,) if turn in (5, 8) else ()),
        *((EXPECTED,) if turn % 2 else ()),
    )
    world.crashes = {10}
    search = planned(world)
    searched(search, 10)
    first, second = search.groups()
    assert (first.finding.signature, first.runs, first.of, first.first) == (LOST.signature, 2, 9, 5)
    assert first.low < 2 / 9 < first.high
    assert (second.finding.weight, second.runs) == ("not promised", 5)
    document = search.document(3600.0)
    assert document["not_judged"] == {"crashed": 1}
    assert document["skipped_steps"] == 9
    assert document["promises"] == {"committed": 9}
    assert "power-loss-flushed" in document["not_exercised"]
    assert "committed" not in document["not_exercised"]


def test_a_search_is_resumed_where_it_was_interrupted(world: World) -> None:
    straight = [record.digest for record in searched(planned(world), 20)]
    search = planned(world)
    world.stops_after = len(world.ran) + 8
    assert search.run(1, lambda record: None, lambda begun: begun < 20) is True
    with (search.path / "schedules.jsonl").open("ab") as lines:
        lines.write(b'{"number":')
    world.stops_after = 10**9
    resumed = Search.resume(search.path)
    assert len(resumed.records) == 8
    assert resumed.corpus == search.corpus
    searched(resumed, 12)
    assert [record.digest for record in resumed.records] == straight
    assert [record.digest for record in Search.resume(search.path).records] == straight
    assert resumed.document(3600.0)["per_hour"] == 12  # the eight of before took their own time


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_a_line_that_was_cut_short_is_left_out_once(world: World, cut: int) -> None:
    """However much of the line is missing, and however often the search is ended and resumed."""
    search = planned(world)
    searched(search, 3)
    file = search.path / "schedules.jsonl"
    file.write_bytes(file.read_bytes()[:-cut])
    resumed = Search.resume(search.path)
    assert resumed.records == search.records[:2]
    searched(resumed, 4)
    again = Search.resume(search.path)
    assert again.records == resumed.records
    assert [record.number for record in again.records] == [1, 2, 3, 4, 5, 6]


def test_what_was_under_way_when_a_search_was_ended_is_removed(world: World) -> None:
    search = planned(world)
    searched(search, 2)
    kept = search.path / "runs" / "schedule" / Path(search.records[0].folder).name
    ended = search.path / "runs" / "schedule" / "2026-11-24T00-00-00"
    for folder in (kept, ended):
        (folder / "nodes").mkdir(parents=True, exist_ok=True)
    (search.path / "runs" / "schedule" / "latest").symlink_to(kept)
    Search.resume(search.path)
    assert kept.is_dir()
    assert not ended.exists()
    assert (search.path / "runs" / "schedule" / "latest").is_symlink()


def test_no_fault_makes_no_step(world: World) -> None:
    searched(planned(world, faults="no-fault"), 10)
    assert all(not schedule_of(job).steps for job in world.ran)


def test_what_is_no_search_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(BadDataError, match="holds no search to resume"):
        Search.resume(tmp_path)
    with pytest.raises(BadDataError, match="holds no schedule"):
        corpus_of(tmp_path)


@pytest.mark.parametrize("plan", ["{", "7", "[" * 9**5, '{"a":' * 9**5], ids=lambda text: text[:20])
def test_a_damaged_search_cannot_be_resumed(tmp_path: Path, plan: str) -> None:
    (tmp_path / PLAN).write_text(plan)
    with pytest.raises(BadDataError, match="holds no search to resume"):
        Search.resume(tmp_path)


SCHEDULE = fresh(SPACE, 1, 7)


def job(schedule: Schedule, number: int = 0) -> Job:
    return Job(
        scenario="schedule", version="3.6.2", mode="kraft", files={FILE: schedule.encode()}, number=number
    )


def replayed(world: World, shows: Callable[[int], bool], parallel: int = 2) -> Any:
    world.finds = lambda schedule, turn: (LOST,) if shows(turn) else ()
    fleet = SimulatedFleet(world, world.path / "runs")
    return repeat(
        fleet,  # type: ignore[arg-type]
        job(SCHEDULE),
        parallel=parallel,
        most=20,
        enough=until_decided(),
        kind=LOST.kind,
    )


def test_a_replay_stops_when_it_is_decided(world: World) -> None:
    tally = replayed(world, lambda turn: True)
    assert (tally.hits, tally.runs, tally.decision) == (2, 2, "comes back")
    world.ran.clear()


def test_runs_of_another_schedule_do_not_count(world: World) -> None:
    """Those of a candidate that was decided while they were under way."""
    world.finds = lambda schedule, turn: (LOST,)
    fleet = SimulatedFleet(world, world.path / "runs")
    fleet.submit(job(LARGE, number=1))
    tally = repeat(
        fleet,  # type: ignore[arg-type]
        job(SCHEDULE, number=2),
        parallel=1,
        most=3,
        enough=lambda tally: False,
        kind=LOST.kind,
    )
    assert (tally.hits, tally.runs) == (3, 3)
    assert len(world.ran) == 4


def test_a_replay_of_what_does_not_come_back(world: World) -> None:
    tally = replayed(world, lambda turn: False, parallel=1)
    assert (tally.hits, tally.runs, tally.decision) == (0, 5, "does not come back")


def test_a_replay_that_is_never_decided_ends(world: World) -> None:
    tally = replayed(world, lambda turn: turn % 4 == 0)
    assert tally.runs <= 20
    document = tally.document(LOST.kind)
    assert document["hits"] == tally.hits


LARGE = Schedule(
    kafka="3.6.2",
    mode="kraft",
    controller="controller2",
    made_by="seed 7, number 3",
    topics=(TopicPlan(name="t1", partitions=2), TopicPlan(name="t2")),
    producers=(
        Producer(az="az1"),
        Producer(az="az2", acks=1, idempotent=False),
        Producer(az="az3", starts=2),
    ),
    steps=(
        Step(fault="kill", targets=("leader",), when=Moment(after_s=1.0)),
        Step(fault="cut", targets=("controller2",), toward=("az1", "az3"), until=Moment(after_s=12.0)),
        Step(fault="pause", targets=("broker1", "broker3"), when=Moment(after_s=12.0, event="isr-full")),
        Step(fault="reassign", until=Moment()),
        Step(fault="cut", targets=("az1",), toward=("others",)),
    ),
)


def shows(schedule: Schedule, turn: int) -> tuple[RunFinding, ...]:
    """The zombie: the controller is cut from both others for six seconds, while a producer uses acks=1."""
    shown = any(
        step.fault == "cut"
        and "controller2" in step.targets
        and step.arrow == "<->"
        and step.until.after_s >= 6
        for step in schedule.steps
    ) and any(producer.acks == 1 for producer in schedule.producers)
    return (LOST,) if shown and turn % 3 else ()


def to_shrink(world: World) -> Shrinking:
    world.finds = shows
    plan = shrinking.ShrinkPlan(
        finding=LOST, version="3.6.2", mode="kraft", settings=dict(NO_SETTINGS.as_json())
    )
    return Shrinking.create(world.path, plan, LARGE, None)


def test_shrinking_ends_with_the_one_step_that_matters(world: World) -> None:
    work = to_shrink(world)
    smallest = work.run(2, lambda test, schedule: None)
    (step,) = smallest.steps
    assert (step.fault, step.targets, step.arrow, step.until) == (
        "cut",
        ("controller2",),
        "<->",
        Moment(after_s=6.0),
    )
    assert [producer.acks for producer in smallest.producers] == [1]
    assert len(smallest.partitions) == 1
    assert work.smallest() == smallest
    file = shrinking.finish(work, smallest)
    text = file.read_text()
    assert "Found by `acked search` (seed 7, number 3)" in text.replace("\n", " ")


def test_a_broken_promise_is_shrunk_although_its_row_and_cause_change(world: World) -> None:
    """Which row of the table a loss breaks depends on the other faults of the run."""
    work = to_shrink(world)
    other = replace(LOST, row="partition", cause="not known")
    world.finds = lambda schedule, turn: (
        () if not shows(schedule, 1) else (LOST,) if len(schedule.steps) > 1 else (other,)
    )
    smallest = work.run(2, lambda test, schedule: None, steps_only=True)
    assert [step.fault for step in smallest.steps] == ["cut"]
    assert smallest.producers[:2] == LARGE.producers[:2]
    expected = replace(LOST, weight="not promised", promise="not promised")
    assert (LOST.essence, expected.essence) == ("lost: broken", "lost: not promised: committed")


def test_a_known_bug_is_the_same_finding_with_another_row_and_cause() -> None:
    """The row depends on the acks of the producer, and the cause on what was seen of the message."""
    one = RunFinding(
        name="lost", weight="known", promise="not promised", row="acks-0", known_bug="B", cause="not known"
    )
    other = replace(one, promise="broken", row="acks-1-leader", cause="truncated")
    another = replace(one, known_bug="C")
    assert one.kind != other.kind
    assert one.essence == other.essence != another.essence
    assert replace(one, name="duplicated").essence != one.essence


def test_an_interrupted_shrinking_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count()
    monkeypatch.setattr(shrinking.time, "monotonic", lambda: float(next(clock)))
    straight = to_shrink(world).run(1, lambda test, schedule: None)
    world.ran.clear()
    work = to_shrink(world)
    world.stops_after = 25
    with pytest.raises(KeyboardInterrupt):
        work.run(1, lambda test, schedule: None)
    tried = len(work.tests)
    world.stops_after = 10**9
    again: list[str] = []
    resumed = Shrinking.resume(work.path)
    assert len(resumed.tests) == tried
    assert resumed.run(1, lambda test, schedule: again.append(test.digest)).steps == straight.steps
    assert not set(again) & set(work.tests), "what was tried before the interruption is not tried again"
    assert resumed.seconds == len(resumed.tests) > tried  # each test took a second


def test_what_does_not_come_back_is_not_shrunk(world: World) -> None:
    work = to_shrink(world)
    world.finds = lambda schedule, turn: ()
    with pytest.raises(InvalidRunError, match="did not come back in 5 runs"):
        work.run(1, lambda test, schedule: None)


def test_two_processes_do_not_work_in_one_folder(world: World) -> None:
    search = planned(world)
    holds = (
        f"import fcntl, os; folder = os.open({str(search.path)!r}, os.O_RDONLY); "
        "fcntl.flock(folder, fcntl.LOCK_EX); "
    )
    command = [sys.executable, "-c", holds + "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        with (
            pytest.raises(UsageError, match="Another process works in"),
            plans.alone(search.path, within_s=0.3),
        ):
            pytest.fail("the folder is not free")
        other.stdin.close()
    with plans.alone(search.path):
        pass
    assert len(searched(search, 2)) == 2
