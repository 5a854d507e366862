"""A schedule with the times of one of its runs instead of events."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.errors import BadDataError
from harness.search.schedule import Moment, Schedule, Step
from harness.search.timed import MOMENTS, StepMoments, as_text, timed
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
    Step(fault="elect-unclean", when=Moment(event="no-leader", after_s=7)),
)
EVENTS: Schedule = msgspec.structs.replace(SCHEDULE, steps=STEPS)


def ran(folder: Path, *moments: StepMoments) -> Path:
    """A run folder whose history says when steps were due."""
    text = as_text(dict(enumerate(moments, start=1)))
    marks = [{"ns": 1, "name": "begin", "text": "now"}, {"ns": 2, "name": MOMENTS, "text": text}]
    return written(folder, {"marks": marks if moments else marks[:1]})


def test_events_become_the_times_at_which_they_came(tmp_path: Path) -> None:
    run = ran(tmp_path, StepMoments(0.21, 7.349), StepMoments(7.4, 5.02), StepMoments(0.5))
    made = timed(EVENTS, run)
    assert [step.when for step in made.steps] == [
        Moment(after_s=0.2),
        Moment(after_s=7.4),
        Moment(after_s=0.5),
    ]
    assert [step.until for step in made.steps] == [Moment(after_s=7.35), Moment(after_s=5), STEPS[2].until]
    assert [step.fault for step in made.steps] == ["pause", "kill", "elect-unclean"]


def test_a_step_that_was_skipped_keeps_its_end(tmp_path: Path) -> None:
    run = ran(tmp_path, StepMoments(0.21), StepMoments(7.4, 5.02), StepMoments(0.5))
    assert timed(EVENTS, run).steps[0].until == STEPS[0].until


@pytest.mark.parametrize("moments", [(), (StepMoments(0.2, 7.3), StepMoments(7.4))])
def test_a_run_that_did_not_carry_out_every_step_is_refused(
    moments: tuple[StepMoments, ...], tmp_path: Path
) -> None:
    with pytest.raises(BadDataError, match="does not say when its steps were due"):
        timed(EVENTS, ran(tmp_path, *moments))


def test_a_malformed_mark_is_refused(tmp_path: Path) -> None:
    written(tmp_path, {"marks": [{"ns": 2, "name": MOMENTS, "text": '{"1": 3}'}]})
    with pytest.raises(BadDataError, match="the text of the mark 'moments' is malformed"):
        timed(EVENTS, tmp_path)
