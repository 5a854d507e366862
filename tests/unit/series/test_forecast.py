"""How long jobs take on clusters side by side, and how finished runs correct that."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from studies.series.fleet import MOST_RUNS, JobKind
from studies.series.forecast import Forecast
from studies.series.job import Job
from studies.series.summary import RunSummary

START_S, AGAIN_S, DOWN_S, REST_S = 10.0, 4.0, 1.5, 7.0


def job(name: str) -> Job:
    return Job(scenario=name, version="2.7.1", mode="kraft")


def forecast(parallel: int = 1, **kind: Any) -> Forecast:
    """Jobs need what the first letter of their names says; those with an `!` are alone; each takes 20 s."""
    shared: dict[str, Any] = {
        "needs": lambda one: one.scenario[0],
        "alone": lambda one: "!" in one.scenario,
        **kind,
    }
    return Forecast(
        kind=JobKind(program="", **shared),
        parallel=parallel,
        start_s=START_S,
        again_s=AGAIN_S,
        run_s=lambda one: 20.0,
        rest_s=REST_S,
        each_s=0.0,
    )


@pytest.mark.parametrize(
    ("names", "parallel", "seconds"),
    [
        ([], 1, 0.0),
        (["a"], 1, START_S + 20),
        (["a1", "a2", "a3"], 1, START_S + 3 * 20 + 2 * AGAIN_S),
        (["a", "b"], 1, 2 * (START_S + 20) + DOWN_S),
        (["a!", "a"], 1, 2 * (START_S + 20) + DOWN_S),
        (["a", "b"], 2, START_S + 20),
        (["a1", "a2", "b1", "b2"], 2, START_S + 20 + AGAIN_S + 20),
        (["a"] * (MOST_RUNS + 1), 1, 2 * START_S + (MOST_RUNS + 1) * 20 + (MOST_RUNS - 1) * AGAIN_S + DOWN_S),
    ],
)
def test_clusters_are_started_for_jobs_that_need_them(
    names: list[str], parallel: int, seconds: float
) -> None:
    assert forecast(parallel).left_s([job(name) for name in names]) == pytest.approx(seconds + REST_S)


def test_runs_that_go_on_count_with_what_is_left_of_them() -> None:
    one = forecast()
    assert one.left_s([], [(job("a"), 12.0)]) == pytest.approx(START_S + 20 - 12 + REST_S)
    assert one.left_s([], [(job("a"), 500.0)]) == REST_S
    follows = START_S + 20 - 12 + AGAIN_S + 20
    assert one.left_s([job("a2")], [(job("a"), 12.0)]) == pytest.approx(follows + REST_S)


def ended(folder: Path, name: str, seconds: float, durations: dict[str, float]) -> RunSummary:
    path = folder / name
    path.mkdir()
    (path / "run.json").write_text(json.dumps({"durations": durations}))
    return RunSummary(
        scenario=name, version="2.7.1", mode="kraft", verdict="unknown", seconds=seconds, folder=str(path)
    )


def test_finished_runs_correct_it(tmp_path: Path) -> None:
    """By their medians: of starts, of times between runs, and of the runs themselves."""
    one = forecast()
    one.ended(ended(tmp_path, "a1", 50.0, {"lab": 1.0, "boot": 16.0, "scenario": 29.0, "history": 1.0}))
    assert one.seconds(job("x")) == pytest.approx(30.0)
    assert one.left_s([job("b")]) == pytest.approx(20.0 + 30.0 + 2 * REST_S)
    one.ended(ended(tmp_path, "a2", 37.0, {"boot": 1.0, "scenario": 28.0, "history": 2.0}))
    assert one.left_s([job("b1"), job("b2")]) == pytest.approx(20.0 + 30.0 + 7.0 + 30.0 + 2 * REST_S)
    one.ended(ended(tmp_path, "a3", 27.0, {"scenario": 20.0}))
    one.ended(ended(tmp_path, "a4", 29.0, {"scenario": 22.0}))
    assert one.seconds(job("x")) == pytest.approx(26.0)


def test_every_run_adds_to_what_follows_the_last_one(tmp_path: Path) -> None:
    one = replace(forecast(), each_s=3.0)
    assert one.left_s([job("a1"), job("a2")]) - forecast().left_s([job("a1"), job("a2")]) == 6.0
    one.ended(ended(tmp_path, "a1", 30.0, {"lab": 1.0, "boot": 9.0, "scenario": 20.0}))
    assert one.left_s([]) == REST_S + 3.0


def test_a_run_that_failed_says_nothing(tmp_path: Path) -> None:
    one = forecast()
    crashed = ended(tmp_path, "a", 400.0, {"lab": 1.0, "scenario": 390.0})
    one.ended(RunSummary(**{**crashed.__dict__, "verdict": "crashed"}))
    assert one.seconds(job("x")) == 20.0
