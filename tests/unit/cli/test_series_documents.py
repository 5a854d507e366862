"""What a series writes for a CI job, and what it does with the folders of its runs; without clusters."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from cli import series as module
from cli.commands import app
from cli.options import PlaceOptions, SeriesOptions
from cli.series import (
    Night,
    Series,
    SeriesCluster,
    exit_code,
    open_series,
    run_series,
    write_documents,
)
from harness.cluster.settings import NO_SETTINGS
from harness.console import Progress
from harness.errors import UsageError
from run.folder import RunFolder
from studies.series.fleet import JudgedRun
from studies.series.folder import SeriesFolder
from studies.series.job import Job
from studies.series.planned import alone
from studies.series.summary import FILE, RunSummary, append

A, B, C = (Job(scenario=name, version="2.7.1", mode="zookeeper") for name in "abc")
Verdicts = dict[Job, list[str]]


def run(job: Job, verdict: str, folder: Path | str = "", ended: str = "2026-01-05") -> RunSummary:
    return RunSummary(
        scenario=job.scenario,
        version=job.version,
        mode=job.mode,
        verdict=verdict,
        folder=str(folder),
        ended=ended,
        seconds=20.0,
        reasons=() if verdict == "as declared" else ("why",),
    )


def opened_series(
    planned: Sequence[Job], runs: Path, old: SeriesFolder | None, options: SeriesOptions
) -> Series:
    """A series of jobs that need no checks."""
    cluster = SeriesCluster(place=PlaceOptions(runs=runs), settings=NO_SETTINGS, file=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "require", lambda *_: None)
        patch.setattr(module, "misfits", lambda *_: {})
        return open_series("all", planned, [], cluster, Night.read(options), 1, Progress(quiet=True), old)


@pytest.fixture
def carry_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Series]:
    """Carry out a series whose runs end as told; returns it."""

    class StandInFleet:
        def __init__(
            self, _kind: object, _place: object, runs: Path, _: int, may_start: Callable[[Job], bool]
        ) -> None:
            self.runs, self.may_start = runs, may_start
            self.jobs: list[Job] = []

        def __enter__(self) -> StandInFleet:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def submit(self, *jobs: Job) -> None:
            self.jobs.extend(jobs)

        def judged_runs(self) -> Iterator[JudgedRun]:
            for job in filter(self.may_start, self.jobs):
                verdict = verdicts[job].pop(0)
                if verdict == "Ctrl-C":
                    raise KeyboardInterrupt
                if verdict == "Spark":
                    raise ConnectionError(verdict)
                yield JudgedRun(job, run(job, verdict, RunFolder.create(self.runs, job.scenario).path))

    verdicts: Verdicts = {}
    monkeypatch.setattr(module, "Fleet", StandInFleet)
    monkeypatch.setattr(module, "add_page", lambda *_: None)

    def carry_out(
        planned: Sequence[Job], ends: Verdicts, old: SeriesFolder | None = None, **options: Any
    ) -> Series:
        verdicts.update(ends)
        files = {"junit": tmp_path / "junit.xml", "summary": tmp_path / "summary.md"}
        opened = opened_series(planned, tmp_path / "runs", old, SeriesOptions(**files, **options))
        run_series(opened, Progress(quiet=True))
        write_documents(opened)
        return opened

    return carry_out


def summary(folder: Path) -> str:
    return (folder / "summary.md").read_text()


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ((), ["canary", "no-fault", "canary"]),
        (("--filter", "no-fault"), ["no-fault"]),
        (("--repeat", "3"), ["canary", "no-fault"] * 2 + ["canary"]),
    ],
)
def test_a_resumed_series_runs_what_it_planned_unless_it_is_given_other_scenarios(
    words: tuple[str, ...], left: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two scenarios, two runs each, of which one run has ended; not the whole catalogue."""
    names = "canary", "no-fault"
    canary, no_fault = (Job(scenario=name, version="2.7.1", mode="zookeeper") for name in names)
    folder = SeriesFolder.create(tmp_path, "all")
    folder.plan([canary, no_fault] * 2)
    folder.add(run(no_fault if "--filter" not in words else canary, "as declared"))
    carried_out: list[str] = []

    def run_series(series: Series, _progress: object) -> bool:
        carried_out.extend(job.scenario for job in series.left)
        return False

    monkeypatch.setattr(module, "run_series", run_series)
    for name in ("require_lab", "prepare"):
        monkeypatch.setattr(f"run.session.{name}", lambda *_, **__: None)
    monkeypatch.setattr("harness.artifacts.resolve_all", lambda *_, **__: None)
    monkeypatch.setattr("run.claims.require_sql", lambda *_, **__: None)
    CliRunner().invoke(app, ["run", "--resume", str(folder.path), *words], catch_exceptions=False)
    assert sorted(carried_out) == sorted(left)


def test_a_series_at_work_is_not_resumed_by_another_process(
    tmp_path: Path, carry_out: Callable[..., Series], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its plan nor its documents are touched, although the other one replaced the plan before."""
    at_work = carry_out([A, B], {A: ["as declared"], B: ["Ctrl-C"]})
    monkeypatch.setattr(module, "alone", partial(alone, within_s=0.0))
    before = {file: file.read_bytes() for file in at_work.folder.path.iterdir()}
    other = os.open(at_work.folder.path, os.O_RDONLY)  # as if another process had opened it
    fcntl.flock(other, fcntl.LOCK_EX)
    try:
        at_work.folder.plan([A, B])
        with pytest.raises(UsageError, match="Another process works in"):
            carry_out([B], {B: ["as declared"]}, SeriesFolder.resume(at_work.folder.path))
    finally:
        os.close(other)
    assert {file: file.read_bytes() for file in at_work.folder.path.iterdir()} == before
    carry_out([A, B], {B: ["as declared"]}, SeriesFolder.resume(at_work.folder.path))


def test_a_series_that_is_resumed_with_other_options_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the globs of its first command, a resumed series would run the whole catalogue silently."""
    said: list[str] = []
    monkeypatch.setattr(Progress, "say", lambda self, text: said.append(text))
    monkeypatch.setattr(module, "_run_left", lambda *_: False)

    def opened(planned: Sequence[Job], old: SeriesFolder | None) -> SeriesFolder:
        said.clear()
        series = opened_series(planned, tmp_path, old, SeriesOptions())
        run_series(series, Progress(quiet=True))
        return series.folder

    folder = opened([A, A, B], None)
    assert not any("the same options" in text for text in said)
    folder = opened([B, A, A], folder)
    assert not any("the same options" in text for text in said)
    opened([A, B, C, C], folder)
    assert any("was to have 3 runs, and this command plans 4 runs" in text for text in said), said


def test_a_night_with_all_that_can_happen(carry_out: Callable[..., Series], tmp_path: Path) -> None:
    """A violation, a flaky case, an unfit one: each is where a CI system looks for it."""
    verdicts = {A: ["as declared", "violated"], B: ["invalid", "unknown"], C: ["unfit", "as declared"]}
    night = carry_out([A, B, C] * 2, verdicts, keep_failed=True)
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "1",
        "errors": "2",
        "skipped": "1",
    }
    assert "- a on 2.7.1 zookeeper: 1 as declared, 1 violated\n" in summary(tmp_path)
    assert len(night.folder.runs) == 6, "nothing was repeated"
    kept = {one: len(list((tmp_path / "runs" / one).glob("2*"))) for one in "abc"}
    assert kept == {"a": 1, "b": 2, "c": 1}, "folders of runs that are not as declared"
    assert exit_code(night) == 2
    page = (night.folder.path / "index.html").read_text()
    assert page.count('class="flicker"') == 3


def test_summary_and_junit_link_the_pages_that_there_are(
    carry_out: Callable[..., Series], tmp_path: Path
) -> None:
    """By a path relative to the document, wherever it is."""
    night = carry_out([A, B], {A: ["violated"], B: ["violated"]})
    page = Path(night.folder.runs[0].folder) / "report.html"
    page.write_text("")
    (tmp_path / "ci").mkdir()
    elsewhere = replace(night.night, junit=tmp_path / "ci" / "j.xml", summary=tmp_path / "ci" / "s.md")
    for place, up in ((night, ""), (replace(night, night=elsewhere), "../")):
        write_documents(place)
        address = f"{up}runs/a/{page.parent.name}/report.html"
        assert place.night.summary is not None
        assert place.night.junit is not None
        assert place.night.summary.read_text().count(f"[page]({address})") == 1
        assert place.night.junit.read_text().count(f"page: {address}</failure>") == 1
        assert "[page]" not in place.night.summary.read_text().partition("**b on")[2]


def test_the_longest_unseen_run_within_the_budget(carry_out: Callable[..., Series], tmp_path: Path) -> None:
    """B ran last week, A yesterday, and C never: what is left out is named."""
    file = tmp_path / "runs.jsonl"
    append(file, run(A, "as declared", ended="2026-01-04"))
    append(file, run(B, "violated", ended="2025-12-28"))
    night = carry_out([A, B, C], {one: ["as declared"] for one in (A, B, C)}, earlier=[file], budget="21s")
    assert [run.job for run in night.folder.runs] == [C, B, A]
    assert "| b on 2.7.1 zookeeper | ✗✓ |" in summary(tmp_path)
    night = carry_out([A, B, C], {}, earlier=[file], budget="19s")
    assert "### Not run\n\n- a on 2.7.1 zookeeper\n- b on" in summary(tmp_path)
    assert ElementTree.parse(tmp_path / "junit.xml").getroot()[0].get("skipped") == "3"


def test_a_share_of_the_plan_alone_is_run(carry_out: Callable[..., Series], tmp_path: Path) -> None:
    night = carry_out([A, B, C] * 2, {B: ["as declared"] * 2}, shard="2/3")
    assert [run.job for run in night.folder.runs] == [B, B]
    assert "not run" not in summary(tmp_path)


def test_a_share_with_nothing_in_it_passes(carry_out: Callable[..., Series], tmp_path: Path) -> None:
    night = carry_out([A], {}, shard="2/2")
    assert exit_code(night) == 0
    night.folder.remove_if_empty(stopped=False)
    assert not night.folder.path.exists()


def test_an_interruption_and_what_a_resumed_series_adds(
    carry_out: Callable[..., Series], tmp_path: Path
) -> None:
    night = carry_out([A, B, C], {A: ["violated"], B: ["Ctrl-C"]})
    assert "- b on 2.7.1 zookeeper\n- c on" in summary(tmp_path)
    assert SeriesFolder(night.folder.path).not_run() == [B, C]
    resumed = SeriesFolder.resume(night.folder.path)
    again = carry_out([A, B, C], {B: ["as declared"], C: ["as declared"]}, old=resumed)
    assert [run.verdict for run in again.folder.runs] == ["violated", "as declared", "as declared"]
    assert "not run" not in summary(tmp_path)
    assert exit_code(again) == 1


def test_an_interruption_as_a_run_ends_leaves_no_folder_of_a_good_run(
    carry_out: Callable[..., Series], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(folder: SeriesFolder, summary: RunSummary) -> None:
        add(folder, summary)
        raise KeyboardInterrupt

    add = SeriesFolder.add
    monkeypatch.setattr(SeriesFolder, "add", interrupted)
    night = carry_out([A, B], {A: ["as declared"]}, keep_failed=True)
    assert [run.verdict for run in night.folder.runs] == ["as declared"]
    assert not list((tmp_path / "runs" / "a").iterdir())


def test_a_series_that_breaks_off_leaves_its_documents(
    carry_out: Callable[..., Series], tmp_path: Path
) -> None:
    with pytest.raises(ConnectionError):
        carry_out([A, B], {A: ["violated"], B: ["Spark"]})
    assert summary(tmp_path).startswith("## acked: 1 run: 1 violated; 1 not run\n")
    assert ElementTree.parse(tmp_path / "junit.xml").getroot()[0].get("failures") == "1"


def test_the_next_series_in_the_folder_shows_the_runs_of_the_one_before(
    carry_out: Callable[..., Series], tmp_path: Path
) -> None:
    """Without `--earlier`: an agent that keeps its workspace knows the nights before. No run counts twice."""
    before = tmp_path / "runs" / "all" / "2026-01-04"
    before.mkdir(parents=True)
    append(before / FILE, run(A, "violated", ended="2026-01-04"))
    carry_out([A], {A: ["as declared"]})
    assert re.findall(r"^\| a .*? \| (.*?) \|", summary(tmp_path), re.MULTILINE) == ["✗✓"]


def test_the_summary_of_a_series_that_ran_nothing_names_what_it_left_out(tmp_path: Path) -> None:
    """The budget of a shard may be over before its first run."""
    series = SeriesFolder.create(tmp_path / "runs", "all")
    series.plan([A, B])
    done = CliRunner().invoke(app, ["summary", str(series.path)])
    assert "### Not run\n\n- a on 2.7.1 zookeeper\n- b on" in done.stdout
