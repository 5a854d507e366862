"""The machine of every command that makes many runs: jobs in, judged runs out.

Several clusters run side by side, each in a process of its own. A cluster serves one run, or several jobs
with the same needs, one after the other (`JobKind`). Every run has a folder, topics and clients of its own.
Runs are judged one after the other, as they end.

A cluster that serves several jobs is given another one only if

* the last run was complete, and no operator had to act in it;
* its judgement, which goes on during the next run, speaks of no broken promise and of no finding that no
  fault explains (`STRANGE`); otherwise the next run is made again on another cluster;
* the roles can be placed again, and no node logs anything more.
"""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from harness.errors import AckedError, cause_of, json_file
from run.folder import RunFolder
from studies.series.job import Job, Place
from studies.series.judging import JobRun, Judge
from studies.series.processes import LOG, ClusterProcess, ClusterProcesses, LostClusterError
from studies.series.serving import RunAnswer, RunOrder
from studies.series.summary import RunSummary

MOST_RUNS = 10
"""Runs on one cluster: topics of earlier ones stay, and logs grow."""
STRANGE = ("process_exit", "server_error", "not_converged", "config_mismatch", "diverged", "corrupt")
"""Classes of findings after which a cluster is not used again."""
UNJUDGED = 2
"""How many runs may wait to be judged, besides those that run; the judgements must keep up with the runs."""
_POLL_S = 0.2
_MOST_FAILURES = 3
"""How often in a row a cluster may fail before everything ends: its jobs are not the reason."""


class WeighedFinding(Protocol):
    """A group of findings of a run."""

    @property
    def weight(self) -> str:
        """How much it matters: `new` is what neither Kafka's promises nor a known bug explain."""


FindingT = TypeVar("FindingT", bound=WeighedFinding)


@dataclass(frozen=True, kw_only=True)
class JobKind(Generic[FindingT]):
    """What the jobs of one source have in common."""

    program: str
    """The module whose `main` serves a cluster with them (`studies.series.serving`)."""
    shared: bool = True
    """Whether a cluster serves several jobs. Otherwise it serves one and is kept in the folder of its run."""
    needs: Callable[[Job], Hashable] = lambda job: None
    """What a cluster must have for a job: jobs share one only if they need the same."""
    alone: Callable[[Job], bool] = lambda job: False
    """Whether a cluster serves no other job after this one."""
    findings: Callable[[Job, Path], tuple[FindingT, ...]] = lambda job, folder: ()
    """The findings of a judged run, in groups."""
    repeatable: bool = False
    """Whether `run.json` keeps the settings, the cluster file and the client, to repeat a run with."""


SCENARIOS: JobKind[Any] = JobKind(program="studies.series.process", shared=False)
"""Scenarios of the catalogue or of files."""


@dataclass(frozen=True)
class JudgedRun(Generic[FindingT]):
    """A job whose run has ended and was judged."""

    job: Job
    summary: RunSummary
    findings: tuple[FindingT, ...] = ()

    @property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self.summary.folder)

    @property
    def healthy(self) -> bool:
        """Whether nothing in it speaks against its cluster."""
        return (
            self.summary.judged
            and ordinary(self.folder)
            and all(finding.weight != "new" for finding in self.findings)
        )


def ordinary(folder: Path) -> bool:
    """Whether the judgement of a run speaks of no broken promise and of no strange finding."""
    judgement = json_file(folder / "judgement.json")
    strange = any(name in judgement["findings_by_class"] for name in STRANGE)
    return not strange and all(row["promise"] != "broken" for row in judgement["promises"])


@dataclass(frozen=True)
class _EndedRun:
    run: JobRun
    healthy: Future[bool] = field(default_factory=Future)
    """`JudgedRun.healthy`, once it is judged."""


class Fleet(Generic[FindingT]):
    """Clusters, and the runs on them; a context. Use it from one thread, which also judges."""

    def __init__(
        self,
        kind: JobKind[FindingT],
        place: Place,
        runs: Path,
        parallel: int,
        may_start: Callable[[Job], bool] = lambda job: True,
    ) -> None:
        """``runs`` gets the run folders, and a folder beside it those of clusters that serve several runs.

        ``may_start`` is asked, in the thread of a cluster, just before a run would start; a job that may not
        start is dropped.
        """
        self.place, self.runs = place, runs
        self._kind, self._parallel, self._may_start = kind, parallel, may_start
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._open = self._begun = 0
        """Jobs that were submitted and not reported yet; of these, jobs that have begun."""
        self._serving: Counter[Hashable] = Counter()
        """How many clusters run, by what they offer."""
        self._complete = False
        """No further job will be submitted."""
        self._closed = False
        self._ended: SimpleQueue[_EndedRun | BaseException] = SimpleQueue()
        self._stack = ExitStack()
        self._judge = Judge()

    def submit(self, *jobs: Job) -> None:
        """Carry out jobs when clusters are free, as far as possible in this order."""
        with self._changed:
            self._waiting.extend(jobs)
            self._open += len(jobs)
            self._changed.notify_all()

    @property
    def open(self) -> int:
        """Jobs that were submitted and whose end was not reported yet."""
        return self._open

    def forget_waiting(self) -> None:
        """Give up the jobs that have not begun."""
        with self._changed:
            self._open -= len(self._waiting)
            self._waiting.clear()

    def next(self) -> JudgedRun[FindingT] | None:
        """Wait for a run to end and judge it; None if no job is open. Raises what ended the processes."""
        if self._open:
            self._judge.start()
        while self._open:
            try:
                ended = self._ended.get(timeout=_POLL_S)
            except Empty:
                continue
            if isinstance(ended, BaseException):
                raise ended
            judged = self._judged(ended.run)
            ended.healthy.set_result(not self._kind.shared or judged.healthy)
            self._settle(reported=True)
            return judged
        return None

    def run(self, job: Job) -> JudgedRun[FindingT]:
        """Carry out a job while no other is open, and judge its run."""
        self.submit(job)
        judged = self.next()
        assert judged is not None
        return judged

    def judged_runs(self) -> Iterator[JudgedRun[FindingT]]:
        """The runs of all jobs, as they end; no further job may be submitted."""
        with self._changed:
            self._complete = True
            self._changed.notify_all()
        while (run := self.next()) is not None:
            yield run

    def _judged(self, run: JobRun) -> JudgedRun[FindingT]:
        summary = self._judge.judged(run)
        findings: tuple[FindingT, ...] = ()
        if summary.judged:
            try:
                findings = self._kind.findings(run.job, run.folder)
            except AckedError as error:
                summary = replace(summary, verdict="crashed", reasons=(error.message,), cause=cause_of(error))
        return JudgedRun(run.job, summary, findings)

    def _settle(self, *, reported: bool) -> None:
        """Let another job begin in place of one that begun; ``reported`` if that one is done with."""
        with self._changed:
            self._begun -= 1
            self._open -= reported
            self._changed.notify_all()

    # ---- in the threads of the clusters

    def _work(self, processes: ClusterProcesses) -> None:
        """Carry out jobs, on one cluster after the other, until none is left."""
        failures = 0
        try:
            carry_out = self._on_shared_cluster if self._kind.shared else self._on_its_cluster
            while (job := self._take()) is not None:
                needs = self._kind.needs(job)
                try:
                    carry_out(processes, job)
                    failures = 0
                except (AckedError, OSError):
                    failures += 1
                    if failures == _MOST_FAILURES:
                        raise
                finally:
                    with self._changed:
                        self._serving[needs] -= 1
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._ended.put(error)

    def _take(self, before: Job | None = None) -> Job | None:
        """The next job for a new cluster, preferably one that no running cluster can serve.

        After a job ``before`` on the same cluster, one with the same needs. Waits as long as no job is left,
        but others may be submitted. None: there is none for this cluster, or the fleet is closed.
        """
        while True:
            with self._changed:
                while not self._closed and (self._waiting or not self._complete) and not self._may_take():
                    self._changed.wait()
                job = (
                    None if self._closed else next_job(self._waiting, self._kind.needs, self._serving, before)
                )
                if job is None:
                    return None
                self._waiting.remove(job)
                self._begun += 1
                if before is None:
                    self._serving[self._kind.needs(job)] += 1
            if self._may_start(job):
                return job
            if before is None:
                with self._changed:
                    self._serving[self._kind.needs(job)] -= 1
            self._settle(reported=True)

    def _may_take(self) -> bool:
        return bool(self._waiting) and self._begun < self._parallel + UNJUDGED

    def _put_back(self, job: Job) -> None:
        with self._changed:
            self._waiting.appendleft(job)
        self._settle(reported=False)

    def _on_its_cluster(self, processes: ClusterProcesses, job: Job) -> None:
        """Carry out a job on a cluster that is kept in the folder of its run."""
        begun = [job]
        try:
            folder = self._new_folder(job, None)
            log = folder.path.absolute() / LOG
            with self._cluster(processes, job, None, log) as cluster:
                ended, _ = self._carry_out(cluster, job, folder)
            begun.clear()
            self._ended.put(ended)
        finally:
            for left in begun:
                self._put_back(left)

    def _on_shared_cluster(self, processes: ClusterProcesses, job: Job) -> None:
        """Carry out a job, and others that can follow it on its cluster."""
        begun = [job]
        """The job whose run has not ended."""
        path = _new_folder(self.runs.parent.absolute() / "clusters")
        last: _EndedRun | None = None
        usable = True
        try:
            with self._cluster(processes, job, path, path / LOG) as cluster:
                for number in range(1, MOST_RUNS + 1):
                    folder = self._new_folder(job, path)
                    ended, answer = self._carry_out(cluster, job, folder)
                    usable = not answer.refused and (last is None or self._passed(last.healthy))
                    if not usable:
                        shutil.rmtree(folder.path, ignore_errors=True)  # it is made again
                        break
                    begun.clear()
                    self._ended.put(ended)
                    last, usable = ended, answer.usable
                    following = None
                    if usable and number < MOST_RUNS and not self._kind.alone(job):
                        following = self._take(job)
                    if following is None:
                        break
                    begun.append(following)
                    job = following
        finally:
            for left in begun:
                self._put_back(left)
        _remove_data(path)
        if usable and last is not None:
            last.healthy.add_done_callback(partial(_remove_if_healthy, path))

    def _cluster(self, processes: ClusterProcesses, job: Job, path: Path | None, log: Path) -> ClusterProcess:
        return ClusterProcess(processes, self._kind.program, job, self.place, path=path, log=log)

    def _carry_out(self, cluster: ClusterProcess, job: Job, folder: RunFolder) -> tuple[_EndedRun, RunAnswer]:
        """Run a job. Its run folder says how it ended; if the process could not say so, it has crashed."""
        began = time.monotonic()
        order = RunOrder(folder=str(folder.path.absolute()), scenario=job.scenario, client=job.client)
        try:
            answer = cluster.carry_out(order)
        except LostClusterError as error:
            answer = RunAnswer()
            if folder.manifest().get("status") == "running":
                problem = f"{job} {error.message}; see {cluster.log}"
                folder.update(status="crashed", problem=problem, cause=cause_of(error))
        return _EndedRun(JobRun(job, folder.path, time.monotonic() - began)), answer

    def _passed(self, healthy: Future[bool]) -> bool:
        """Wait for the verdict on a run, on which the next one depends; False if there will be none."""
        while not self._closed or healthy.done():
            with suppress(TimeoutError):
                return healthy.result(timeout=_POLL_S)
        return False

    def _new_folder(self, job: Job, cluster: Path | None) -> RunFolder:
        folder = RunFolder.create(self.runs, job.scenario, job.file)
        folder.update(
            scenario=job.scenario, kafka=job.version, mode=job.mode, lab=self.place.lab, status="running"
        )
        if cluster is not None:
            folder.update(cluster=str(cluster))
        for name, content in job.files.items():
            (folder.path / name).write_bytes(content)
        if self._kind.repeatable:
            folder.update(place=self._as_json(job))
        return folder

    def _as_json(self, job: Job) -> dict[str, object]:
        """What `run.json` keeps of a run, so that it can be repeated."""
        file = self.place.cluster_file
        return {
            "kafka": job.version,
            "settings": self.place.settings,
            "cluster_file": None if file is None else str(file.absolute()),
            "client": job.client,
        }

    # ---- as a context

    def __enter__(self) -> Self:
        processes = self._stack.enter_context(ClusterProcesses())
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


def next_job(
    waiting: Sequence[Job],
    needs: Callable[[Job], Hashable],
    serving: Mapping[Hashable, int],
    before: Job | None = None,
) -> Job | None:
    """The job that a cluster gets after ``before``: one with the same needs; None if there is none.

    A new cluster gets one that none of those that run can serve, which ``serving`` counts by needs, or else
    the first.
    """
    if before is not None:
        return next((job for job in waiting if needs(job) == needs(before)), None)
    unserved = (job for job in waiting if not serving.get(needs(job)))
    return next(unserved, next(iter(waiting), None))


def _new_folder(parent: Path) -> Path:
    """A new folder for a cluster."""
    for number in itertools.count(1):
        with suppress(FileExistsError):
            (parent / str(number) / "nodes").mkdir(parents=True)
            break
    return parent / str(number)


def _remove_data(cluster: Path) -> None:
    """Remove the data of a cluster's nodes, and keep their logs."""
    for data in cluster.glob("nodes/*/data"):
        shutil.rmtree(data, ignore_errors=True)


def _remove_if_healthy(cluster: Path, healthy: Future[bool]) -> None:
    """Remove the rest of a cluster whose last run is judged, unless that speaks against it."""
    if healthy.result():
        shutil.rmtree(cluster, ignore_errors=True)
