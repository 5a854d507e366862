"""A simulated fleet: the test decides what its runs find and reach."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from studies.search import hunt, shrinking
from studies.search.findings import Finding
from studies.search.fleet import JudgedRun, Place, ScheduleJob
from studies.search.schedule import FILE, Schedule


class World:
    """What a simulated fleet does with schedules."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path
        self.ran: list[ScheduleJob] = []
        self.finds: Callable[[Schedule, int], tuple[Finding, ...]] = lambda schedule, turn: ()
        self.reaches: Callable[[Schedule], set[str]] = lambda schedule: {
            step.fault for step in schedule.steps
        }
        self.crashes: set[int] = set()
        self.stops_after = 10**9
        self.version = ""
        """The Kafka version of the current run."""

    def fleet(self, place: Place, runs: Path, parallel: int) -> SimulatedFleet:
        return SimulatedFleet(self, place.version, runs)


class SimulatedFleet:
    def __init__(self, world: World, version: str, runs: Path) -> None:
        self.world, self.version, self.runs = world, version, runs
        self.waiting: deque[ScheduleJob] = deque()

    def __enter__(self) -> SimulatedFleet:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def submit(self, job: ScheduleJob) -> None:
        self.waiting.append(job)

    @property
    def open(self) -> int:
        return len(self.waiting)

    def forget_waiting(self) -> int:
        count = len(self.waiting)
        self.waiting.clear()
        return count

    def next(self) -> JudgedRun:
        job = self.waiting.popleft()
        if len(self.world.ran) >= self.world.stops_after:
            raise KeyboardInterrupt
        self.world.ran.append(job)
        self.world.version = self.version
        folder = self.runs / f"{len(self.world.ran):04}"
        folder.mkdir(parents=True)
        for name in (FILE, "run.json", "judgement.json", "life.parquet"):
            (folder / name).write_bytes(job.schedule.encode())
        crashed = job.number in self.world.crashes
        return JudgedRun(
            job=job,
            folder=folder,
            seconds=1.0,
            verdict="crashed" if crashed else "as declared",
            reasons=("it fell over",) if crashed else (),
            judged=not crashed,
            findings=() if crashed else self.world.finds(job.schedule, len(self.world.ran)),
        )


MARKS = pa.table({"name": ["begin", "skipped-1"], "facts": [None, '{"skipped": 1}']})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World(tmp_path)

    def reached(folder: Path) -> frozenset[str]:
        return frozenset(made.reaches(made.ran[int(folder.name) - 1].schedule))

    monkeypatch.setattr(hunt, "Fleet", made.fleet)
    monkeypatch.setattr(shrinking, "Fleet", made.fleet)
    monkeypatch.setattr("studies.search.reached.reached", reached)
    monkeypatch.setattr("studies.search.reached.exercised", lambda folder: Counter({"committed": 2}))
    monkeypatch.setattr("checkers.tables.source.open_source", lambda folder: folder)
    monkeypatch.setattr("checkers.tables.source.read_small", lambda source, table: MARKS)
    return made
