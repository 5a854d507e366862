"""`acked shrink`: the smallest schedule that still shows a finding, and the scenario that it becomes.

The folder `runs/shrink/<UTC time>` holds `plan.json` (what is shrunk), `tests.jsonl` (a line for each
schedule that was tried, from which an interrupted shrinking continues), `smallest.json`,
`shrink.json` with a page, and at the end the scenario file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import InvalidRunError
from harness.lab.model import Topology
from studies.search.findings import RunFinding, findings_of
from studies.search.minimise import shrink
from studies.search.rates import Sequential, misses_that_tell
from studies.search.repeat import Tally, repeat
from studies.search.rules import decode, read
from studies.search.runs import SCHEDULES, job_of
from studies.search.schedule import Schedule
from studies.search.score import score, score_before
from studies.search.sizes import size
from studies.series import planned
from studies.series.fleet import Fleet, JudgedRun
from studies.steps.step import described

TESTS, ORIGINAL, SMALLEST = "tests.jsonl", "original.json", "smallest.json"
MEASURED = 8
"""How many runs at most measure the rate of the original."""


class ShrinkPlan(planned.Plan, frozen=True, kw_only=True):
    """What is shrunk."""

    finding: RunFinding


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that was tried. The first line is the original, with its measured rate."""

    digest: str
    passes: bool
    hits: int
    runs: int
    steps: int
    size: int
    folder: str = ""
    """A run that showed the finding."""
    seconds: float = 0.0
    """How long its runs took."""


@dataclass
class Shrinking:
    """A shrinking in its folder."""

    path: Path
    plan: ShrinkPlan
    original: Schedule
    tests: dict[str, Test] = field(default_factory=dict)

    @classmethod
    def create(cls, runs: Path, plan: ShrinkPlan, original: Schedule, cluster: Path | None) -> Shrinking:
        """Make the folder. Raises UsageError if it cannot be made."""
        series = planned.create(runs, "shrink", plan, cluster)
        series.keep(ORIGINAL, original.encode().decode())
        return cls(series.path, plan, original)

    @classmethod
    def resume(cls, path: Path) -> Shrinking:
        """A shrinking that was interrupted. Raises BadDataError if the folder holds none."""
        plan = planned.read_plan(path, ShrinkPlan, what="shrinking", kind="shrink")
        tests = planned.read_lines(path, TESTS, Test, what="shrinking", kind="shrink")
        return cls(path, plan, read(path / ORIGINAL), {test.digest: test for test in tests})

    def run(
        self,
        parallel: int,
        tried: Callable[[Test, Schedule], None],
        ended: Callable[[JudgedRun[RunFinding], bool, Tally], None] = lambda ended, hit, tally: None,
        *,
        steps_only: bool = False,
    ) -> Schedule:
        """Shrink; with ``steps_only``, only remove steps.

        Raises InvalidRunError if the original does not show the finding again.
        """
        place = self.plan.place(self.path)
        topology = place.topology(self.plan.mode)
        number = 0
        with (
            planned.alone(self.path),
            Fleet(SCHEDULES, place, self.path / "runs", parallel) as fleet,
        ):

            def runs(schedule: Schedule, most: int, enough: Callable[[Tally], bool]) -> Test:
                nonlocal number
                number += 1
                began = time.monotonic()
                tally = repeat(
                    fleet,
                    job_of(self.plan, schedule, number),
                    parallel=parallel,
                    most=most,
                    enough=enough,
                    kind=self.plan.finding.essence,
                    ended=ended,
                    keep=False,
                )
                return self._add(schedule, tally, topology, time.monotonic() - began)

            measured = self.tests.get(self.original.digest)
            if measured is None:
                test = Sequential()
                measured = runs(
                    self.original, MEASURED, lambda tally: test.decide(tally.hits, tally.runs) != ""
                )
                tried(measured, self.original)
            if not measured.passes:
                raise InvalidRunError(
                    f"The finding did not come back in {measured.runs} runs of the schedule, so there is "
                    f"nothing to shrink; `acked replay` measures how often it comes back."
                )
            # Laplace's estimate: two hits of two do not mean that it comes back every time.
            most = misses_that_tell((measured.hits + 1) / (measured.runs + 2))

            def passes(candidate: Schedule) -> bool:
                test = self.tests.get(candidate.digest)
                if test is None:
                    test = runs(candidate, most, lambda tally: tally.hits > 0)
                    tried(test, candidate)
                if test.passes:
                    (self.path / SMALLEST).write_bytes(candidate.encode())
                return test.passes

            return shrink(self.original, topology, passes, steps_only=steps_only)

    def _add(self, schedule: Schedule, tally: Tally, topology: Topology, seconds: float) -> Test:
        test = Test(
            digest=schedule.digest,
            passes=tally.hits > 0,
            hits=tally.hits,
            runs=tally.runs,
            steps=len(schedule.steps),
            size=size(schedule, topology),
            folder=str(tally.shown or ""),
            seconds=round(seconds, 1),
        )
        self.tests[test.digest] = test
        planned.append(self.path / TESTS, test)
        return test

    @property
    def seconds(self) -> float:
        """How long all runs took, also those before an interruption."""
        return sum(test.seconds for test in self.tests.values())

    def smallest(self) -> Schedule:
        """The smallest schedule so far."""
        file = self.path / SMALLEST
        return decode(file.read_bytes(), str(file)) if file.exists() else self.original


def document(work: Shrinking, smallest: Schedule, scenario: Path | None = None) -> dict[str, Any]:
    """What `shrink.json` holds; ``scenario`` is the file that the schedule has become, at the end."""
    test = work.tests.get(smallest.digest)
    return {
        "finding": work.plan.finding.kind,
        "weight": work.plan.finding.weight,
        "kafka": work.plan.version,
        "mode": work.plan.mode,
        "steps_before": len(work.original.steps),
        "steps": [described(step) for step in smallest.steps],
        "score_before": score_before(work.original, smallest),
        "score": score(smallest),
        "tests": [msgspec.to_builtins(one) for one in work.tests.values()],
        "tried": len(work.tests),
        "runs": sum(one.runs for one in work.tests.values()),
        "seconds": round(work.seconds, 1),
        "run": test.folder if test is not None else "",
        "scenario": str(scenario or ""),
        "scenario_name": scenario.name if scenario is not None else "",
    }


def finish(work: Shrinking, smallest: Schedule, *, with_story: bool = True) -> Path:
    """Write the scenario file of a shrunk schedule, beside the folder's other files; returns its path.

    Without ``with_story``, the file lacks the story of a message, which needs a Spark session.
    """
    from studies.search.written import scenario_text

    test = work.tests[smallest.digest]
    finding = _shown(work.plan.finding, test, smallest)
    name = f"{finding.name.replace('_', '-')}-{smallest.digest[:6]}"
    text = scenario_text(
        smallest,
        finding,
        name=name,
        version=work.plan.version,
        mode=work.plan.mode,
        rate=f"it came back in {test.hits} of {test.runs} runs",
        story=_story(Path(test.folder), finding) if with_story and test.folder else (),
    )
    file = work.path / f"{name.replace('-', '_')}.py"
    file.write_text(text, encoding="utf-8")
    return file


def _shown(finding: RunFinding, test: Test, schedule: Schedule) -> RunFinding:
    """The finding as the shrunk schedule shows it; its row and its cause may differ."""
    if not test.folder or not (Path(test.folder) / "history").is_dir():
        return finding
    findings = findings_of(Path(test.folder), schedule)
    if any(one.kind == finding.kind for one in findings):
        return finding
    return next((one for one in findings if one.essence == finding.essence), finding)


def _story(folder: Path, finding: RunFinding) -> list[str]:
    """The story of one message or transaction that the finding is about; none if it is about neither."""
    import pyarrow.parquet as pq

    from checkers.ask.story import story
    from checkers.ask.transaction import PREFIX
    from checkers.spark.session import start_session
    from report.words.causes import cause_of

    file = folder / "findings.parquet"
    if not file.exists():
        return []
    for row in pq.read_table(file, columns=["class", "promise_row", "writer", "seq", "txn"]).to_pylist():
        if row["class"] != finding.name or (row["promise_row"] or "") != finding.row or row["writer"] is None:
            continue
        if row["txn"] is not None:
            name = f"{PREFIX}{row['writer']}/{row['txn']}"
        elif row["seq"] is not None:
            name = f"{row['writer']}/{row['seq']}"
        else:
            continue
        return [str(line) for line in story(start_session(), folder, name, cause_of)]
    return []
