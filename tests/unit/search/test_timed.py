"""A schedule with the times of one of its runs instead of events."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.errors import BadDataError
from studies.search.schedule import Schedule
from studies.search.timed import timed
from studies.steps.step import Moment, Step
from tests.unit.search.test_found_and_reached import SCHEDULE, written

STEPS = (
    Step(
        fault="pause",
        targets=("follower",),
        when=Moment(after_s=0.2),
        until=Moment(event="isr-shrunk", after_s=9),
    ),
    Step(
        fault="kill",
        targets=("leader",),
        when=Moment(event="isr-shrunk", after_s=12),
        until=Moment(after_s=5),
    ),
    Step(fault="elect_unclean", when=Moment(event="no-leader", after_s=7)),
)
EVENTS: Schedule = msgspec.structs.replace(SCHEDULE, steps=STEPS)
MARKS = {"begin": 1.0, "step-1": 1.21, "ended-1": 8.559, "step-2": 8.61, "step-3": 9.11, "ended-2": 13.63}


def ran(folder: Path, marks: dict[str, float]) -> Path:
    """A run folder whose history has these marks, with their times in seconds."""
    rows = [{"ns": int(s * 1e9), "name": name, "text": name} for name, s in marks.items()]
    return written(folder, {"marks": rows})


def test_events_become_the_times_at_which_they_came(tmp_path: Path) -> None:
    made = timed(EVENTS, ran(tmp_path, MARKS))
    assert [step.when for step in made.steps] == [
        Moment(after_s=0.2),
        Moment(after_s=7.4),
        Moment(after_s=0.5),
    ]
    assert [step.until for step in made.steps] == [Moment(after_s=7.35), Moment(after_s=5), STEPS[2].until]
    assert [step.fault for step in made.steps] == ["pause", "kill", "elect_unclean"]


def test_a_step_that_was_skipped_keeps_its_end(tmp_path: Path) -> None:
    marks = {name: s for name, s in MARKS.items() if name != "ended-1"}
    assert timed(EVENTS, ran(tmp_path, marks)).steps[0].until == STEPS[0].until


@pytest.mark.parametrize("lacks", ["begin", "step-1", "step-3"])
def test_a_run_that_did_not_come_to_every_step_is_refused(lacks: str, tmp_path: Path) -> None:
    marks = {name: s for name, s in MARKS.items() if name != lacks}
    with pytest.raises(BadDataError, match=f"has no mark '{lacks}'"):
        timed(EVENTS, ran(tmp_path, marks))
