"""Runs on a cluster of others, one after the other, each when every ISR is full; what has ended is judged."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Generic, Self

import msgspec

from harness.errors import UnfitError, WaitTimeoutError, cause_of
from harness.waiting import wait_until
from run.attached.guard import WHOLE_S, whole
from run.attached.hosts import AttachedHosts
from run.folder import RunFolder
from studies.attached.process import HostsOrder
from studies.series.fleet import FindingT, JudgedRun
from studies.series.job import Job
from studies.series.judging import JobRun, Judge
from studies.series.processes import LOG, LostClusterError
from studies.series.summary import RunSummary

_LIMIT_S = 900.0
_END_S = 120.0
"""How long a run may take to heal and to end when it is told to."""


@dataclass(kw_only=True)
class HostsFleet(Generic[FindingT]):
    """Carries out jobs; as `studies.series.fleet.Fleet` does, with one cluster that nobody here has made."""

    hosts: AttachedHosts
    runs: Path
    order: Callable[[Job, Path], HostsOrder | None]
    """The order for a job; None if it is not possible as the cluster is now, but may be later."""
    findings: Callable[[Job, Path], tuple[FindingT, ...]] = lambda job, folder: ()
    may_start: Callable[[Job], bool] = lambda job: True
    waiting: deque[Job] = field(default_factory=deque)
    _judge: Judge = field(default_factory=Judge)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.waiting.clear()

    @property
    def open(self) -> int:
        """Jobs that have not ended."""
        return len(self.waiting)

    def submit(self, *jobs: Job) -> None:
        """Add jobs."""
        self.waiting.extend(jobs)

    def judged_runs(self) -> Iterator[JudgedRun[FindingT]]:
        """Carry out all jobs that are possible; those that never were stay in `waiting`."""
        while (judged := self.next()) is not None:
            yield judged

    def next(self) -> JudgedRun[FindingT] | None:
        """Carry out the first job that is possible now, and judge it; None if there is none.

        Raises UnfitError if the cluster does not become whole, or outside of the window of the day.
        """
        if not self.waiting:
            return None
        self._require_whole()
        for job in tuple(self.waiting):
            folder = self._folder_of(job)
            order = self.order(job, folder)
            if order is None:
                continue
            self.waiting.remove(job)
            if not self.may_start(job):
                return self.next()
            return self._carried_out(job, order)
        return None

    def _folder_of(self, job: Job) -> Path:
        return self.runs / job.scenario

    def _carried_out(self, job: Job, order: HostsOrder) -> JudgedRun[FindingT]:
        folder = RunFolder.create(self.runs, job.scenario)
        folder.update(scenario=job.scenario, status="running", lab="attached")
        for name, data in job.files.items():
            (folder.path / name).write_bytes(data)
        order = msgspec.structs.replace(order, folder=str(folder.path))
        file = folder.path / "order.json"
        file.write_bytes(msgspec.json.encode(order))
        began = time.monotonic()
        with (folder.path / LOG).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "studies.attached.process", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            problem = _waited_for(process)
        if problem and folder.manifest().get("status") == "running":
            error = LostClusterError(f"The process of the run {problem}")
            said = f"{error.message}; see {folder.path / LOG}"
            folder.update(status="crashed", problem=said, cause=cause_of(error))
        run = JobRun(job, folder.path, time.monotonic() - began)
        summary: RunSummary = self._judge.judged(run)
        found = self.findings(job, folder.path) if summary.judged else ()
        return JudgedRun(job, summary, found)

    def _require_whole(self) -> None:
        self.hosts.fault_s()
        try:
            wait_until(
                lambda: whole(self.hosts.cluster),
                within_s=WHOLE_S,
                poll_s=1.0,
                awaiting="every ISR to be full",
            )
        except WaitTimeoutError:
            raise UnfitError(
                f"After {WHOLE_S:.0f} s not every ISR of the cluster is full: nothing further is broken."
            ) from None


def _waited_for(process: subprocess.Popen[bytes]) -> str:
    """What is wrong with how it ended, for the user; empty if nothing is."""
    try:
        status = process.wait(_LIMIT_S)
    except subprocess.TimeoutExpired:
        _end(process)
        return f"did not end within {_LIMIT_S:.0f} s"
    except BaseException:  # Ctrl-C reaches it as well: it heals first, and ends then
        _end(process)
        raise
    return f"ended with status {status}" if status else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()  # the dead man's switch of each host ends what is in force
        process.wait()
