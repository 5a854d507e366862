"""What `acked search` shows at its end, its exit code, and when it begins no further schedule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.searching import Limits, compare, search
from harness.cluster.settings import NO_SETTINGS
from harness.console import Progress
from harness.errors import EXIT_AS_DECLARED, EXIT_UNKNOWN, EXIT_VIOLATED, StoppedError
from studies.search.comparison import SearchComparison
from studies.search.findings import RunFinding
from studies.search.hunt import Search, SearchPlan, TriedSchedule
from studies.search.rules import read
from studies.series.budget import Budget
from studies.steps.step import described
from tests.unit.search.conftest import World

PLAN = SearchPlan(seed=7, version="4.3.1", mode="kraft", settings=dict(NO_SETTINGS.as_json()))
LATE = RunFinding(name="torn_transaction", weight="known", promise="broken", known_bug="KAFKA-17754")
QUIET = Progress(quiet=True)


def both(world: World) -> SearchComparison:
    return SearchComparison.create(world.path, [("librdkafka", PLAN), ("java", PLAN)], None)


def limits(most: int) -> Limits:
    return Limits(parallel=1, budget=Budget(), most=most)


def test_a_comparison_ends_with_its_document(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.finds = lambda schedule, turn: (LATE,) if turn == 2 else ()
    assert compare(both(world), QUIET, limits(3), [], as_json=True) == EXIT_VIOLATED
    document = json.loads(capsys.readouterr().out)
    assert (document["sides"], document["schedules"]) == (["librdkafka", "java"], 3)
    assert [one["number"] for one in document["differences"]] == [2]


def test_a_comparison_is_shown_in_a_table(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.finds = lambda schedule, turn: (LATE,) if turn <= 9 else ()
    compare(both(world), QUIET, limits(9), [], as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["finding", "with", "≠", "weight", "librdkafka", "java"]
    assert lines[1].startswith("torn transaction (known bug: KAFKA-17754)  ")
    assert lines[1].endswith("  ≠  known   9 of 9 (70% to 100%)  0 of 9 (0% to 30%)")
    assert any(line.startswith("• librdkafka and java: 9 schedules on all sides") for line in lines)


def test_the_exit_code_is_that_of_the_worst(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(both(world), QUIET, limits(2), [], as_json=True) == EXIT_AS_DECLARED
    assert search(Search.create(world.path, PLAN, None), QUIET, limits(2), [], as_json=True) == 0
    world.crashes = {2}
    assert compare(both(world), QUIET, limits(2), [], as_json=True) == EXIT_UNKNOWN
    assert search(Search.create(world.path, PLAN, None), QUIET, limits(2), [], as_json=True) == 2
    world.finds = lambda schedule, turn: (LATE,)
    assert search(Search.create(world.path, PLAN, None), QUIET, limits(2), [], as_json=True) == 1


def test_each_finding_names_its_run_and_the_commands_to_go_on(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one that matters less is named with --finding. The schedule's steps are there in words."""
    stuck = RunFinding(name="no-recovery", weight="new")
    world.finds = lambda schedule, turn: (stuck, LATE) if turn == 2 else ()
    hunt = Search.create(world.path, PLAN, None)
    search(hunt, QUIET, limits(3), [], as_json=False)
    shown = capsys.readouterr().out.splitlines()
    run = hunt.records[1]
    at = shown.index(f"schedule 2: {run.folder}")
    steps = [described(step) for step in read(Path(run.folder) / "schedule.json").steps]
    assert shown[at + 1 :][: len(steps) + 7] == [
        *(f"  {number}. {step}" for number, step in enumerate(steps, start=1)),
        f"    acked report {run.folder}",
        "  finding: no recovery",
        f"    acked replay {run.folder}",
        f"    acked shrink {run.folder}",
        "  finding: torn transaction (known bug: KAFKA-17754)",
        f"    acked replay {run.folder} --finding torn_transaction",
        f"    acked shrink {run.folder} --finding torn_transaction",
    ]


def test_an_interrupted_comparison_says_how_to_continue(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.stops_after = 3
    work = both(world)
    with pytest.raises(StoppedError, match=f"interrupted after 1 schedules.*--resume {work.path}"):
        compare(work, QUIET, limits(2), [], as_json=True)


def test_no_schedule_begins_that_would_end_too_late() -> None:
    took = TriedSchedule(number=1, digest="", folder="", verdict="as declared", seconds=10.0)
    now = [0.0]
    limits = Limits(parallel=2, budget=Budget(130.0, clock=lambda: now[0]), most=None)
    now[0] = 100.0
    assert not limits.may_start(0), "before a run was measured, one is taken to need 40 s"
    limits.ran(took)
    assert limits.may_start(0)
    assert limits.may_start(0, runs=4)
    assert not limits.may_start(0, runs=8)
    assert not Limits(parallel=2, budget=Budget(), most=3).may_start(3)
