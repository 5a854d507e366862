"""A simulated fleet: the test decides what its runs find and reach."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from studies.search import hunt, shrinking
from studies.search.findings import RunFinding
from studies.search.runs import schedule_of
from studies.search.schedule import FILE, Schedule
from studies.series.fleet import JobKind, JudgedRun
from studies.series.job import Job, Place
from studies.series.summary import RunSummary


class World:
    """What a simulated fleet does with schedules."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path
        self.ran: list[Job] = []
        self.finds: Callable[[Schedule, int], tuple[RunFinding, ...]] = lambda schedule, turn: ()
        self.reaches: Callable[[Schedule], set[str]] = lambda schedule: {
            step.fault for step in schedule.steps
        }
        self.crashes: set[int] = set()
        self.stops_after = 10**9
        self.version = ""
        """The Kafka version of the current run."""

    def fleet(self, kind: JobKind[RunFinding], place: Place, runs: Path, parallel: int) -> SimulatedFleet:
        return SimulatedFleet(self, runs)


class SimulatedFleet:
    def __init__(self, world: World, runs: Path) -> None:
        self.world, self.runs = world, runs
        self.waiting: deque[Job] = deque()

    def __enter__(self) -> SimulatedFleet:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def submit(self, job: Job) -> None:
        self.waiting.append(job)

    @property
    def open(self) -> int:
        return len(self.waiting)

    def forget_waiting(self) -> int:
        count = len(self.waiting)
        self.waiting.clear()
        return count

    def next(self) -> JudgedRun[RunFinding] | None:
        if not self.waiting:
            return None
        job = self.waiting.popleft()
        if len(self.world.ran) >= self.world.stops_after:
            raise KeyboardInterrupt
        self.world.ran.append(job)
        self.world.version = job.version
        folder = self.runs / f"{len(self.world.ran):04}"
        folder.mkdir(parents=True)
        schedule = schedule_of(job)
        for name in (FILE, "run.json", "judgement.json", "life.parquet"):
            (folder / name).write_bytes(schedule.encode())
        crashed = job.number in self.world.crashes
        summary = RunSummary(
            scenario=job.scenario,
            version=job.version,
            mode=job.mode,
            verdict="crashed" if crashed else "as declared",
            folder=str(folder),
            seconds=1.0,
            reasons=("it fell over",) if crashed else (),
        )
        findings = () if crashed else self.world.finds(schedule, len(self.world.ran))
        return JudgedRun(job, summary, findings)


MARKS = pa.table({"name": ["begin", "skipped-1"], "facts": [None, '{"skipped": 1}']})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World(tmp_path)

    def reached(folder: Path) -> frozenset[str]:
        return frozenset(made.reaches(schedule_of(made.ran[int(folder.name) - 1])))

    monkeypatch.setattr(hunt, "Fleet", made.fleet)
    monkeypatch.setattr(shrinking, "Fleet", made.fleet)
    monkeypatch.setattr("studies.search.reached.reached", reached)
    monkeypatch.setattr("studies.search.reached.exercised", lambda folder: Counter({"committed": 2}))
    monkeypatch.setattr("checkers.tables.source.open_source", lambda folder: folder)
    monkeypatch.setattr("checkers.tables.source.read_small", lambda source, table: MARKS)
    return made
