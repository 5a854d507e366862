"""Carrying out schedules on several clusters side by side, and judging each run as it ends.

A cluster is used for up to ten runs, each with topics and clients of its own. Its health is checked before
each: the roles are back on their hosts, no node logs anything more, and the previous run was complete, ended
with every replica in sync, and showed nothing that speaks against the cluster. A run is judged while the next
one goes on. If the judgement speaks against the cluster, the next run is repeated on another one.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from harness.errors import AckedError
from harness.lab.model import Topology
from run.folder import RunFolder
from studies.assess.clusters import ordinary
from studies.search.cell import ScheduleOrder
from studies.search.findings import Finding, findings_of
from studies.search.scenario import NAME
from studies.search.schedule import FILE, Schedule
from studies.series.plan import Cell
from studies.series.pool import CellRun, RunProcesses, judge_cell
from studies.series.serving import RunAnswer
from studies.series.standing import LostClusterError, StandingProcess, passed
from studies.series.summary import RunSummary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = "studies.search.cell"
MOST_RUNS = 10
"""Runs on one cluster: topics of earlier ones stay, and logs grow."""
SUMMARY = (FILE, "run.json", "judgement.json")
"""The files that a thinned run keeps."""
_POLL_S = 0.2
_JUDGED_TRIES = 2
_MOST_FAILURES = 3
"""How often in a row a cluster may fail before a search gives up: another reason than its schedule."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where schedules are carried out."""

    version: str
    mode: str
    topology: Topology
    settings: Mapping[str, object]
    """What the user has set, as data."""
    cluster_file: Path | None = None
    lab: str = "embedded"
    client: str = ""
    """The client library, as `--client` takes it; empty: librdkafka."""

    def as_json(self) -> dict[str, object]:
        """What `run.json` keeps, so that a run can be repeated."""
        file = None if self.cluster_file is None else str(self.cluster_file.absolute())
        return {
            "kafka": self.version,
            "settings": self.settings,
            "cluster_file": file,
            "client": self.client,
        }


@dataclass(frozen=True, kw_only=True)
class ScheduleJob:
    """A schedule to carry out."""

    schedule: Schedule
    number: int = 0
    """The caller's number for the job."""
    parent: int | None = None
    """The number of the schedule from which it was mutated."""


@dataclass(frozen=True, kw_only=True)
class JudgedRun:
    """A job whose run has ended and was judged."""

    job: ScheduleJob
    folder: Path
    seconds: float
    verdict: str
    reasons: tuple[str, ...]
    judged: bool
    findings: tuple[Finding, ...] = ()


@dataclass
class _Run:
    job: ScheduleJob
    folder: Path
    seconds: float
    verdict: Future[bool] = field(default_factory=Future)
    """Whether nothing speaks against its cluster."""


class Fleet:
    """Clusters, and the runs on them; a context. Use it from one thread, which also judges."""

    def __init__(self, place: Place, runs: Path, parallel: int) -> None:
        """``runs`` gets the run folders, and a folder beside it those of the clusters."""
        self.place, self.runs = place, runs
        self._parallel = parallel
        self._waiting: deque[ScheduleJob] = deque()
        self._changed = threading.Condition()
        self._open = 0
        self._closed = False
        self._ended: SimpleQueue[_Run | BaseException] = SimpleQueue()
        self._stack = ExitStack()
        self._session: SparkSession | None = None

    def submit(self, job: ScheduleJob) -> None:
        """Carry out a job when a cluster is free."""
        with self._changed:
            self._waiting.append(job)
            self._open += 1
            self._changed.notify()

    @property
    def open(self) -> int:
        """Jobs that were submitted and whose end was not reported yet."""
        return self._open

    def forget_waiting(self) -> int:
        """Give up the jobs that have not begun; returns how many."""
        with self._changed:
            count = len(self._waiting)
            self._waiting.clear()
            self._open -= count
        return count

    def next(self) -> JudgedRun:
        """Wait for a run to end, and judge it. Raises what has ended the processes."""
        while True:
            try:
                run = self._ended.get(timeout=_POLL_S)
                break
            except Empty:
                continue
        if isinstance(run, BaseException):
            raise run
        self._open -= 1
        ended = self._judge(run)
        healthy = ended.judged and ordinary(run.folder) and all(one.weight != "new" for one in ended.findings)
        run.verdict.set_result(healthy)
        return ended

    def _judge(self, run: _Run) -> JudgedRun:
        summary = self._summarised(run)
        findings: tuple[Finding, ...] = ()
        if summary.judged:
            try:
                findings = findings_of(run.folder, run.job.schedule)
            except AckedError as error:
                summary = replace(summary, verdict="crashed", reasons=(error.message,))
        return JudgedRun(
            job=run.job,
            folder=run.folder,
            seconds=summary.seconds,
            verdict=summary.verdict,
            reasons=summary.reasons,
            judged=summary.judged,
            findings=findings,
        )

    def _summarised(self, run: _Run) -> RunSummary:
        """Judge a run. If Spark's JVM has ended, judge it once more with another one."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from checkers.spark.session import forget_session, session_ended, start_session

        cell = Cell(scenario=NAME, version=self.place.version, mode=self.place.mode, client=self.place.client)
        reason = ""
        for _ in range(_JUDGED_TRIES):
            if self._session is None:
                self._session = start_session()
            try:
                summary = judge_cell(self._session, CellRun(cell, run.folder, run.seconds))
                if summary.judged or not session_ended():
                    return summary
                reason = next(iter(summary.reasons), "")
            except (Py4JError, PySparkException, OSError) as error:
                reason = (
                    f"The run could not be judged ({type(error).__name__}); see `acked check {run.folder}`."
                )
            forget_session()
            self._session = None
        return RunSummary(
            scenario=NAME,
            version=cell.version,
            mode=cell.mode,
            client=cell.client,
            verdict="crashed",
            seconds=round(run.seconds, 1),
            folder=str(run.folder),
            reasons=(reason,),
        )

    # ---- in the threads of the clusters

    def _work(self, processes: RunProcesses) -> None:
        failures = 0
        try:
            while (job := self._take()) is not None:
                begun = [job]
                try:
                    self._on_one_cluster(processes, begun)
                    failures = 0
                except (AckedError, OSError):
                    failures += 1
                    if failures == _MOST_FAILURES:
                        raise
                    for left in begun:
                        self._put_back(left)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._ended.put(error)

    def _take(self) -> ScheduleJob | None:
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            return None if self._closed else self._waiting.popleft()

    def _put_back(self, job: ScheduleJob) -> None:
        with self._changed:
            self._waiting.appendleft(job)
            self._changed.notify()

    def _on_one_cluster(self, processes: RunProcesses, begun: list[ScheduleJob]) -> None:
        """Carry out a job and those that follow it; ``begun`` holds the one whose run has not ended."""
        job: ScheduleJob | None = begun[0]
        before: _Run | None = None
        healthy = True
        with self._cluster(processes) as cluster:
            for _ in range(MOST_RUNS):
                if job is None:
                    break
                folder = self._folder(job, cluster.path)
                began = time.monotonic()
                answer = self._carry_out(cluster, folder)
                healthy = before is None or self._passed(before)
                if answer.refused or not healthy:
                    shutil.rmtree(folder.path, ignore_errors=True)
                    begun.clear()
                    self._put_back(job)
                    break
                before = _Run(job, folder.path, time.monotonic() - began)
                begun.clear()
                self._ended.put(before)
                if not answer.usable:
                    healthy = False
                    break
                job = self._take()
                begun += [] if job is None else [job]
            else:
                if job is not None:
                    begun.clear()
                    self._put_back(job)
        if healthy and before is not None and self._passed(before):
            cluster.remove()
        else:
            _remove_data(cluster.path)

    def _carry_out(self, cluster: StandingProcess, folder: RunFolder) -> RunAnswer:
        order = msgspec.json.encode(
            ScheduleOrder(folder=str(folder.path.absolute()), client=self.place.client)
        )
        try:
            return msgspec.json.decode(cluster.carry_out(order), type=RunAnswer)
        except LostClusterError as error:
            if folder.manifest().get("status") == "running":
                folder.update(status="crashed", problem=f"the run {error}; see {cluster.log}")
            return RunAnswer()

    def _folder(self, job: ScheduleJob, cluster: Path) -> RunFolder:
        folder = RunFolder.create(self.runs, NAME)
        (folder.path / FILE).write_bytes(job.schedule.encode())
        folder.update(
            scenario=NAME,
            kafka=self.place.version,
            mode=self.place.mode,
            lab=self.place.lab,
            status="running",
            place=self.place.as_json(),
            cluster=str(cluster),
        )
        return folder

    def _cluster(self, processes: RunProcesses) -> StandingProcess:
        place = self.place
        return StandingProcess(
            processes,
            PROGRAM,
            version=place.version,
            mode=place.mode,
            lab=place.lab,
            settings=place.settings,
            cluster_file=place.cluster_file,
            runs=self.runs,
        )

    def _passed(self, run: _Run) -> bool:
        return passed(run.verdict, lambda: self._closed)

    # ---- as a context

    def __enter__(self) -> Self:
        processes = self._stack.enter_context(RunProcesses())
        threads = [
            threading.Thread(target=self._work, args=(processes,), name=f"cluster-{number}")
            for number in range(self._parallel)
        ]
        for thread in threads:
            thread.start()

        def end() -> None:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            processes.end_all()
            for thread in threads:
                thread.join()

        self._stack.callback(end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def thin(folder: Path) -> None:
    """Remove everything of a run except what `SUMMARY` names."""
    for path in folder.iterdir():
        if path.name in SUMMARY:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def _remove_data(cluster: Path) -> None:
    """Remove the data of a cluster's nodes, and keep their logs."""
    for data in cluster.glob("nodes/*/data"):
        shutil.rmtree(data, ignore_errors=True)
