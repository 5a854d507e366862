"""When the steps of a schedule begin and end, for pictures."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

from nemesis.catalogue import FAULTS
from studies.search.schedule import Schedule
from studies.steps.step import described

Score = list[dict[str, Any]]
"""A step each: `says`, `from_s`, `to_s` (None: it happens at a moment) and `waits` (an event may end a wait
early); times are seconds since the first wait began."""


def score(schedule: Schedule) -> Score:
    """The steps of a schedule over time, if no event ends a wait early."""
    steps = []
    begin_s = 0.0
    for step in schedule.steps:
        begin_s = round(begin_s + step.when.after_s, 3)
        lasts = FAULTS[step.fault].lasts
        steps.append(
            {
                "says": described(step).partition(": ")[2],
                "from_s": begin_s,
                "to_s": round(begin_s + step.until.after_s, 3) if lasts else None,
                "waits": bool(step.when.event or (lasts and step.until.event)),
            }
        )
    return steps


def score_before(original: Schedule, smallest: Schedule) -> Score:
    """The score of a schedule that was made smaller; `removed` is whether a step is not left.

    Shrinking removes steps and changes others, but never their order or their kinds of faults.
    """
    before, after = ([step.fault for step in one.steps] for one in (original, smallest))
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    left = {number for block in blocks for number in range(block.a, block.a + block.size)}
    return [{**step, "removed": number not in left} for number, step in enumerate(score(original))]
