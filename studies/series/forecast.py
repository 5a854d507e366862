"""How long a fleet takes for its jobs, before it starts and while it runs.

`Forecast` plays the choices of a fleet (`studies.series.fleet.next_job`) with the times that the start of a
cluster and each run should take. Every run that ends corrects them, by the medians of what was measured: the
machine may be slower, faster or busier than the one on which the times were measured first.
"""

from __future__ import annotations

import heapq
import itertools
import statistics
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import BadDataError
from run.folder import RunFolder
from studies.series.fleet import MOST_RUNS, JobKind, next_job
from studies.series.job import Job
from studies.series.summary import RunSummary

_STARTING = ("lab", "boot")
"""Phases of a run (`durations` of `run.json`) in which the cluster starts, unless it stands already."""
_DOWN_S = 1.5
"""Until a cluster is down."""


@dataclass(kw_only=True)
class Forecast:
    """The seconds that jobs take on ``parallel`` clusters side by side."""

    kind: JobKind[Any]
    parallel: int
    start_s: float
    """From the start of a cluster's process until the cluster is up."""
    again_s: float
    """From a run until its cluster is ready for the next one."""
    run_s: Callable[[Job], float]
    """A run on a cluster that is up."""
    rest_s: float
    """To judge the last run, and whatever follows."""
    each_s: float
    """What each run adds to that."""
    _starts: list[float] = field(default_factory=list)
    _agains: list[float] = field(default_factory=list)
    _paces: list[float] = field(default_factory=list)

    def ended(self, run: RunSummary) -> None:
        """Take note of how long a run took; one that is not judged says nothing."""
        if not run.judged:
            return
        try:
            durations = RunFolder(Path(run.folder)).manifest()["durations"]
        except (BadDataError, KeyError):
            return
        own_s = sum(took for phase, took in durations.items() if phase not in _STARTING)
        before = self._starts if "lab" in durations else self._agains
        before.append(run.seconds - own_s)
        self._paces.append(own_s / self.run_s(run.job))

    def seconds(self, job: Job) -> float:
        """A run on a cluster that is up, by what is known now."""
        return self.run_s(job) * statistics.median(self._paces or [1.0])

    def left_s(self, waiting: Iterable[Job], running: Iterable[tuple[Job, float]] = ()) -> float:
        """Until everything has ended. ``running`` has the jobs that run, and for how long they have.

        What follows the last run needs processors, as a start does, and so takes as much longer.
        """
        start_s = statistics.median(self._starts or [self.start_s])
        again_s = statistics.median(self._agains or [self.again_s])
        first_s = again_s if self._paces else start_s
        needs = self.kind.needs
        order = itertools.count()
        clusters = [
            (max(0.0, first_s + self.seconds(job) - so_far_s), next(order), job, 1)
            for job, so_far_s in running
        ]
        serving: Counter[Hashable] = Counter(needs(job) for _, _, job, _ in clusters)
        ends = [0.0, *(end_s for end_s, *_ in clusters)]
        free: list[tuple[float, int, Job | None, int]] = [*clusters]
        free += [(0.0, next(order), None, 0) for _ in range(self.parallel - len(free))]
        heapq.heapify(free)
        left = deque(waiting)
        while left:
            now_s, _, before, served = heapq.heappop(free)
            job = None
            if before is not None:
                if served < MOST_RUNS and not self.kind.alone(before):
                    job = next_job(left, needs, serving, before)
                if job is None:
                    serving[needs(before)] -= 1
                now_s += _DOWN_S if job is None else again_s
            if job is None:
                job, served = next_job(left, needs, serving), 0
                assert job is not None
                serving[needs(job)] += 1
                now_s += start_s
            left.remove(job)
            ends.append(now_s + self.seconds(job))
            heapq.heappush(free, (ends[-1], next(order), job, served + 1))
        runs = len(ends) - 1 + len(self._paces)
        return max(ends) + (self.rest_s + self.each_s * runs) * start_s / self.start_s
