"""A schedule as a drawn score: a lane for each step, over time, as wide as the page lets it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from report.page.svg import tag


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A step of a schedule."""

    number: int
    says: str
    times: str
    """When it happens, in words."""
    bar: Markup
    removed: bool
    """It is not in the schedule that is left."""


def lanes(steps: Sequence[Mapping[str, Any]]) -> list[Lane]:
    """The steps of a score (`score` of a finding, of a replay or of a shrinking), to one scale."""
    end_s = max((step["to_s"] or step["from_s"] for step in steps), default=0.0) or 1.0
    return [_lane(number, step, end_s) for number, step in enumerate(steps, start=1)]


def _lane(number: int, step: Mapping[str, Any], end_s: float) -> Lane:
    began_s, lasts = step["from_s"], step["to_s"] is not None
    ended_s = step["to_s"] if lasts else began_s
    times = f"{began_s:g} s to {ended_s:g} s" if lasts else f"at {began_s:g} s"
    bar = tag(
        "svg",
        tag("line", x1=0, x2="100%", y1=7, y2=7, class_="base"),
        tag(
            "rect",
            x=f"{97 * began_s / end_s:.2f}%",
            y=1,
            width=f"{max(97 * (ended_s - began_s) / end_s, 0.8):.2f}%",
            height=12,
            class_="lasting" if lasts else "once",
        ),
        width="100%",
        height=14,
        aria_hidden="true",
    )
    return Lane(
        number=number,
        says=step["says"],
        times=times + (", or earlier, at an event" if step["waits"] else ""),
        bar=bar,
        removed=bool(step.get("removed")),
    )
