"""The same schedule with the times of one run instead of events.

`acked replay --times` repeats it, to show how much a finding depends on steps that wait for an event.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec

from checkers.tables.source import open_source, read_small
from harness.errors import BadDataError
from studies.search.schedule import Schedule
from studies.steps.step import Moment, Step


def timed(schedule: Schedule, run: Path) -> Schedule:
    """The schedule with the times of one of its runs instead of events.

    A step that was skipped, or acts once, keeps its end. Raises BadDataError if the run does not say when its
    steps were due (marks of `studies.steps.body`).
    """
    rows = read_small(open_source(str(run / "history")), "marks").to_pylist()
    marks = {str(row["name"]): int(row["ns"]) for row in rows}
    names = ["begin", *(f"step-{number}" for number in range(1, len(schedule.steps) + 1))]
    missing = [name for name in names if name not in marks]
    if missing:
        raise BadDataError(
            f"{run} does not say when its steps were due: it has no mark {missing[0]!r}, because it ended "
            "before, or an older acked recorded it. Name another run of its schedule, from `acked replay`."
        )
    steps = []
    for number, (step, (before, name)) in enumerate(
        zip(schedule.steps, pairwise(names), strict=True), start=1
    ):
        end = marks.get(f"ended-{number}")
        lasted = None if end is None else end - marks[name]
        steps.append(_timed(step, marks[name] - marks[before], lasted))
    return msgspec.structs.replace(schedule, steps=tuple(steps))


def _timed(step: Step, due_ns: int, lasted_ns: int | None) -> Step:
    """``due_ns`` is counted from the previous step, ``lasted_ns`` from the step itself."""

    def at(moment: Moment, ns: int | None) -> Moment:
        return Moment(after_s=round(ns / 1e9, 2)) if moment.event and ns is not None else moment

    return msgspec.structs.replace(step, when=at(step.when, due_ns), until=at(step.until, lasted_ns))
