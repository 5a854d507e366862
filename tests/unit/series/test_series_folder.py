"""The folder of a series: a line per run, written when it ends, so that the series can be resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import BadDataError, UsageError
from studies.series.folder import PLANNED, SeriesFolder, earlier_runs
from studies.series.summary import FILE, RunSummary, append, seconds_by_job

RUN = RunSummary(
    scenario="no-fault", version="2.7.1", mode="zookeeper", verdict="as declared", seconds=3.0, folder="x"
)


def test_a_resumed_series_has_the_runs_that_ended(tmp_path: Path) -> None:
    """A line that was being written when the series was killed is left out."""
    series = SeriesFolder.create(tmp_path, "all")
    series.add(RUN)
    with series.file.open("a") as lines:
        lines.write('{"scenario": "bri')
    resumed = SeriesFolder.resume(series.path)
    assert resumed.runs == [RUN]
    later = replace(RUN, folder="y")
    resumed.add(later)
    assert SeriesFolder.resume(series.path).runs == [RUN, later]


def test_a_series_knows_what_it_has_not_run(tmp_path: Path) -> None:
    series = SeriesFolder.create(tmp_path, "all")
    other = replace(RUN.job, client="java")
    series.plan([RUN.job, other, RUN.job])
    series.add(RUN)
    assert SeriesFolder(series.path).not_run() == [other, RUN.job]


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "{",
        "{}",
        "[" * 9**5,
        '{"a":' * 9**5,
        '{"scenario": ["no-fault"], "version": "2.7.1", "mode": "zookeeper"}',
    ],
)
def test_a_damaged_plan_is_refused(tmp_path: Path, line: str) -> None:
    series = SeriesFolder.create(tmp_path, "all")
    (series.path / PLANNED).write_text(f"{line}\n")
    with pytest.raises(BadDataError, match=r"planned\.jsonl cannot be read .* Remove it"):
        series.not_run()


@pytest.mark.parametrize(("jobs", "stopped", "left"), [(1, False, True), (1, True, False), (0, False, False)])
def test_the_plan_stays_where_all_of_it_was_left_out(
    tmp_path: Path, *, jobs: int, stopped: bool, left: bool
) -> None:
    series = SeriesFolder.create(tmp_path, "all")
    series.plan([RUN.job] * jobs)
    series.remove_if_empty(stopped=stopped)
    assert series.path.exists() == left


def test_a_series_that_was_killed_before_its_first_run_ended_is_resumed(tmp_path: Path) -> None:
    series = SeriesFolder.create(tmp_path, "all")
    series.plan([RUN.job, RUN.job])
    resumed = SeriesFolder.resume(series.path)
    assert (resumed.runs, resumed.not_run()) == ([], [RUN.job, RUN.job])
    resumed.add(RUN)
    assert SeriesFolder.resume(series.path).not_run() == [RUN.job]


def test_a_plan_is_there_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill while it is written leaves the one before."""
    series = SeriesFolder.create(tmp_path, "all")
    series.plan([RUN.job])

    def killed(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        series.plan([])
    assert SeriesFolder.resume(series.path).planned() == [RUN.job]


def test_a_folder_without_a_plan_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(BadDataError, match=r"has neither runs\.jsonl nor planned\.jsonl"):
        SeriesFolder.resume(tmp_path)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--runs"):
        SeriesFolder.create(tmp_path / "file", "all")


def test_a_series_without_a_run_leaves_nothing(tmp_path: Path) -> None:
    """It was interrupted before the end of its first run."""
    series = SeriesFolder.create(tmp_path, "all")
    series.remove_if_empty()
    assert not series.path.exists()


def test_earlier_series_tell_how_long_runs_take(tmp_path: Path) -> None:
    """Runs that were not judged do not count, and a damaged file is ignored."""
    crashed = RunSummary(scenario="canary", version="2.7.1", mode="zookeeper", verdict="crashed", seconds=1.0)
    for name in ("good", "bad"):
        file = tmp_path / "all" / name / FILE
        file.parent.mkdir(parents=True)
        if name == "good":
            append(file, RUN)
            append(file, crashed)
        else:
            file.write_text("{}\n")
    assert seconds_by_job(earlier_runs(tmp_path)) == {RUN.job: 3.0}
