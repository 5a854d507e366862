"""Real processes of clusters: their answers, their ends, and that none is left. They start no cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from run.folder import RunFolder
from studies.series import processes as module
from studies.series.fleet import SCENARIOS, Fleet
from studies.series.job import Job, Place
from studies.series.processes import ClusterProcess, ClusterProcesses, LostClusterError
from studies.series.serving import RunAnswer, RunOrder

pytestmark = pytest.mark.usefixtures("no_process_left")

PROGRAM = "tests.unit.series.stand_in_process"


def job(name: str) -> Job:
    return Job(scenario=name, version="3.9.1", mode="kraft")


@pytest.fixture
def processes(no_process_left: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterProcesses]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))  # for `PROGRAM`
    with ClusterProcesses() as started:
        yield started


def carry_out(processes: ClusterProcesses, folder: Path, *names: str) -> list[RunAnswer]:
    """Answers of one process without namespaces, whose cluster outlasts its runs."""
    (folder / "run").mkdir()
    (folder / "run" / "run.json").write_text("{}")
    place = Place(lab="compose")
    with ClusterProcess(processes, PROGRAM, job("a"), place, path=folder, log=folder / "log") as cluster:
        return [cluster.carry_out(RunOrder(folder=str(folder / "run"), scenario=name)) for name in names]


def test_a_process_answers_each_order(processes: ClusterProcesses, tmp_path: Path) -> None:
    assert carry_out(processes, tmp_path, "first", "second") == [RunAnswer(), RunAnswer()]
    assert RunFolder.open(tmp_path / "run").manifest()["problem"] == "second is not run."


def test_what_a_run_prints_is_no_answer(processes: ClusterProcesses, tmp_path: Path) -> None:
    """And it does not read the orders."""
    assert len(carry_out(processes, tmp_path, "prints-and-reads", "prints-and-reads")) == 2
    assert (tmp_path / "log").read_text() == "run 1 reads ''\nrun 2 reads ''\n"


@pytest.mark.parametrize(("name", "status"), [("ends", 3), ("fails", 255)])
def test_the_end_of_a_process_is_told_with_its_status(
    processes: ClusterProcesses, tmp_path: Path, name: str, status: int
) -> None:
    with pytest.raises(LostClusterError, match=f"^ended with its process, whose status is {status}$"):
        carry_out(processes, tmp_path, name)
    assert ("RuntimeError: a mistake" in (tmp_path / "log").read_text()) == (name == "fails")


def test_a_run_that_takes_too_long_is_ended(
    processes: ClusterProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIMIT_S", 1.0)
    with pytest.raises(LostClusterError, match="^did not end within 1 s$"):
        carry_out(processes, tmp_path, "hangs")


def test_an_interruption_ends_the_run(processes: ClusterProcesses, tmp_path: Path) -> None:
    timer = threading.Timer(0.5, processes.end_all)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        carry_out(processes, tmp_path, "hangs")
    timer.join()


def test_nothing_starts_after_an_interruption(processes: ClusterProcesses, tmp_path: Path) -> None:
    """A thread that is about to start its run finds that all were ended."""
    processes.end_all()
    with pytest.raises(KeyboardInterrupt):
        carry_out(processes, tmp_path, "first")


def test_a_job_that_cannot_start_ends_as_crashed_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing hangs, and the run folder has the error of its process."""
    monkeypatch.setattr("checkers.spark.session.start_session", lambda: None)
    with Fleet(SCENARIOS, Place(), tmp_path / "runs", 1) as fleet:
        summary = fleet.run(job("no-such-scenario")).summary
    assert summary.verdict == "crashed"
    manifest = RunFolder.open(Path(summary.folder)).manifest()
    assert manifest["status"] == "crashed"
    assert "There is no scenario 'no-such-scenario'" in manifest["problem"]
