"""What `acked assess` says while it runs: its time, whose messages are lost, and why it stops."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from cli.assess import _Watch, in_words
from cli.commands import app
from harness.cluster.settings import NO_SETTINGS
from harness.console import Console, Progress
from harness.errors import EXIT_UNKNOWN
from studies.assess import series
from studies.assess.series import Assessment, AssessmentPlan, forecast
from studies.series.budget import Budget
from studies.series.job import Job
from studies.series.summary import RunSummary

REASON = "Timed out after 60.0 s waiting for every producer to work; last observation: " + "[0, 462], " * 60
SLOW = {"error": "WaitTimeoutError", "place": "studies.assess.load.Load.warm_up"}


def failed(job: Job, cause: dict[str, str], folder: Path) -> RunSummary:
    path = folder / "runs" / job.scenario
    path.mkdir(parents=True, exist_ok=True)
    (path / "run.json").write_text(json.dumps({"cluster": f"clusters/of-{job.scenario}"}))
    return RunSummary(
        scenario=job.scenario,
        version=job.version,
        mode=job.mode,
        verdict="crashed",
        reasons=(f"{job.scenario}: {REASON}",),
        cause=cause,
        folder=str(path),
    )


Carry = Callable[[Job], RunSummary]


@pytest.fixture
def carry_out(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Carry], list[Job]]]:
    """Lets the runs of assessments end as a function says; returns the list of those that began."""

    def replace_runs(how: Carry) -> list[Job]:
        began: list[Job] = []

        def run(
            work: Assessment,
            parallel: int,
            ended: Callable[[RunSummary], None],
            may_start: Callable[[Job], bool],
        ) -> bool:
            for job in work.left():
                if may_start(job):
                    began.append(job)
                    work.series.add(how(job))
                    ended(work.series.runs[-1])
            return False

        monkeypatch.setattr(Assessment, "run", run)
        return began

    monkeypatch.setattr(series, "check", lambda *_: None)
    monkeypatch.setattr(series, "unfit", lambda _: {})
    yield replace_runs


def assess(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["assess", *map(str, arguments)], catch_exceptions=False)


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_two_failures_for_one_reason_stop_it_and_resuming_makes_them_again(
    tmp_path: Path, carry_out: Callable[[Carry], list[Job]]
) -> None:
    began = carry_out(lambda job: failed(job, SLOW, tmp_path))
    done = assess("--faults", "isolate-*,kill-broker1*", "--parallel", 2, "--runs", tmp_path)
    (folder,) = (tmp_path / "assess").iterdir()
    assert len(began) == 2 and done.exit_code == EXIT_UNKNOWN
    said = one_line(done.stderr)
    assert "nothing further was started, since 2 runs failed for one reason; 2 of 4 runs are left" in said
    assert one_line(f"reason: {began[1].scenario}: {REASON}") in said
    assert "remedy: run one cluster at a time, or end other programs" in said
    assert f"`acked assess --resume {folder} --parallel 1` makes the failed runs again" in said
    document = json.loads((folder / "assessment.json").read_text())
    assert document["repeated_failure"]["cause"] == SLOW
    assert document["topics"] == [{"name": "assessed", "alike": [], "described": 0, "partitions": 0}]
    again = carry_out(lambda job: failed(job, {"error": "LabError", "place": job.scenario}, tmp_path))
    done = assess("--resume", folder)
    assert len(again) == 4 and set(began) < set(again)
    assert "nothing further" not in done.stderr


def test_different_reasons_do_not_stop_it(tmp_path: Path, carry_out: Callable[[Carry], list[Job]]) -> None:
    began = carry_out(lambda job: failed(job, {**SLOW, "place": job.scenario}, tmp_path))
    done = assess("--faults", "isolate-*,kill-broker1*", "--runs", tmp_path)
    assert len(began) == 4
    assert "nothing further" not in done.stderr


def test_a_process_that_dies_is_not_blamed_on_other_clusters(
    tmp_path: Path, carry_out: Callable[[Carry], list[Job]]
) -> None:
    carry_out(lambda job: failed(job, {"error": "ProcessDiedError", "place": "x", "status": "1"}, tmp_path))
    said = one_line(assess("--faults", "isolate-*,kill-*", "--parallel", 2, "--runs", tmp_path).stderr)
    assert "remedy: remove the cause (the logs of the last cluster are below clusters/of-" in said
    assert "--parallel 1" not in said


@pytest.mark.parametrize(
    ("fates", "says"),
    [
        ([], "nothing lost"),
        (
            [("az1-assessed-acks=1", "lost", 139)],
            "0 lost with acks=all (described), 139 with acks=1 (comparison)",
        ),
        (
            [("az1-assessed-acks=1", "lost", 5), ("az2-assessed-acks=all", "lost_after_read", 2)],
            "2 lost with acks=all (described), 5 with acks=1 (comparison)",
        ),
    ],
)
def test_progress_says_whose_messages_are_lost(
    tmp_path: Path, fates: list[tuple[str, str, int]], says: str
) -> None:
    case = "isolate-az1.roles-az1"
    plan = AssessmentPlan(
        cases=(case,),
        version="2.7.1",
        mode="zookeeper",
        lab="embedded",
        settings=NO_SETTINGS.as_json(),
    )
    work = Assessment.create(tmp_path, plan, None)
    rows = [{"writer_name": name, "fate": fate, "count": count} for name, fate, count in fates]
    (tmp_path / "judgement.json").write_text(json.dumps({"fates_by_writer": rows}))
    (job,) = plan.jobs()
    run = RunSummary(
        scenario=case,
        version=job.version,
        mode=job.mode,
        verdict="as declared",
        lost=sum(count for *_, count in fates),
        folder=str(tmp_path),
        seconds=30.0,
    )
    stream = io.StringIO()
    expected = forecast(work.cases(), work.topology(), work.timings(), 1)
    progress = Progress(console=Console(file=stream, width=500))
    work.series.runs.append(run)
    watch = _Watch(work=work, forecast=expected, budget=Budget(), progress=progress)
    watch.ended(run)
    assert watch.state() == ["1 of 1 runs have ended; about 10 s left"]
    assert f"1 of 1: az1 isolated: {says} (30 s); about" in stream.getvalue()


def test_the_first_line_says_how_many_runs_and_how_long(
    tmp_path: Path, carry_out: Callable[[Carry], list[Job]]
) -> None:
    carry_out(lambda job: failed(job, SLOW, tmp_path))
    said = assess("--faults", "isolate-az1.roles-az1", "--runs", tmp_path).stderr
    assert re.search(r"1 run, 1 side by side, about \d+ (s|min)", said)
    said = one_line(assess("--parallel", 4, "--runs", tmp_path).stderr)
    assert re.search(r"50 runs, 4 side by side, about \d+ min", said)
    assert "with 4 side by side each run takes longer" in said


@pytest.mark.parametrize(("seconds", "words"), [(0, "5 s"), (43, "45 s"), (119, "120 s"), (150, "2 min")])
def test_times_are_about_right(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
