"""The same schedule with the times of one run instead of events.

`acked replay --times` repeats it, to show how much a finding depends on steps that wait for an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from checkers.tables.source import open_source, read_small
from harness.errors import BadDataError
from harness.search.schedule import Moment, Schedule, Step

MOMENTS = "moments"
"""The mark whose text says when each step of a run was due to begin and to end."""


@dataclass(frozen=True)
class StepMoments:
    """When a step of a run was due, in seconds."""

    due_s: float
    """Since the previous step was due, or since the first one could begin."""
    lasted_s: float | None = None
    """From then until its end was due; None: it acts once, or was skipped."""


def as_text(moments: Mapping[int, StepMoments]) -> str:
    """The text of the mark, which `timed` reads."""
    return msgspec.json.encode({str(number): one for number, one in sorted(moments.items())}).decode()


def timed(schedule: Schedule, run: Path) -> Schedule:
    """The schedule with the times of one of its runs instead of events.

    A step that was skipped keeps its end. Raises BadDataError if the run does not say when its steps were
    due.
    """
    moments = _moments(run)
    if set(moments) != set(range(1, len(schedule.steps) + 1)):
        raise BadDataError(
            f"{run} does not say when its steps were due: it did not carry out all of them, or an older "
            "acked recorded it. Repeat its schedule with `acked replay`, and name one of the new runs."
        )
    steps = [_timed(step, moments[number]) for number, step in enumerate(schedule.steps, start=1)]
    return msgspec.structs.replace(schedule, steps=tuple(steps))


def _moments(run: Path) -> dict[int, StepMoments]:
    rows = read_small(open_source(str(run / "history")), "marks").to_pylist()
    text = next((str(row["text"]) for row in rows if row["name"] == MOMENTS), "{}")
    try:
        return msgspec.json.decode(text, type=dict[int, StepMoments])
    except msgspec.DecodeError as error:
        raise BadDataError(f"{run}: the text of the mark {MOMENTS!r} is malformed: {error}") from None


def _timed(step: Step, moments: StepMoments) -> Step:
    def at(moment: Moment, seconds: float | None) -> Moment:
        return Moment(after_s=round(seconds, 2)) if moment.event and seconds is not None else moment

    return msgspec.structs.replace(
        step, when=at(step.when, moments.due_s), until=at(step.until, moments.lasted_s)
    )
