"""Pictures of an outage: acknowledged writes in each second, by AZ, with the fault shaded.

Lengths along the time axis are percentages, and so are the heights of bars, so that the pictures fill
whatever room the page gives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from markupsafe import Markup

from harness.history.time_zero import in_seconds
from report.page.svg import joined, tag, text, titled

_CLIPPED_AT = 2.0
"""Rows end at so many times the usual rate: what waited is written at once when a leader is back."""
_SPARK, _NAME, _BARS, _AXIS = 18.0, 15.0, 26.0, 18.0
"""Heights in pixels: of a small picture, and of the parts of a large one."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """The time that pictures beside each other show, in seconds from the fault."""

    from_s: int
    to_s: int

    @classmethod
    def of(cls, lines: Sequence[Mapping[str, Any]]) -> Window:
        """The time that shows all of some lines of an assessment."""
        rates = [line["rates"] for line in lines if shown(line)]
        return cls(
            from_s=min((one["from_s"] for one in rates), default=0),
            to_s=max((one["from_s"] + _seconds(one) for one in rates), default=1),
        )

    def x(self, s: float) -> str:
        """The place of a time."""
        share = (s - self.from_s) / (self.to_s - self.from_s)
        return f"{100 * min(max(share, 0.0), 1.0):.2f}%"

    def width(self, from_s: float, to_s: float) -> str:
        """The width of a span."""
        return f"{100 * max(0.0, to_s - from_s) / (self.to_s - self.from_s):.2f}%"

    def ticks(self) -> list[int]:
        """At most five times for the axis, one of them the fault."""
        step = next(one for one in (1, 2, 5, 10, 20, 30, 60, 120, 300, 10**9) if self._ticks(one) <= 5)
        first = -(-self.from_s // step) * step
        return list(range(first, self.to_s, step))

    def _ticks(self, step: int) -> int:
        return (self.to_s - self.from_s) // step + 1


def shown(line: Mapping[str, Any]) -> bool:
    """Whether there is anything to draw; documents of earlier releases have no rates."""
    return bool(line.get("rates") and _seconds(line["rates"]))


def sparkline(line: Mapping[str, Any], az: str, window: Window) -> Markup:
    """One AZ's writes as a small picture; the words beside it say the number."""
    counts = line["rates"]["by_az"].get(az, ())
    return tag(
        "svg",
        _fault(line, window, "100%"),
        joined(_bars(counts, line, window)),
        width="100%",
        height=_SPARK,
        class_="spark",
        aria_hidden="true",
    )


def outage(line: Mapping[str, Any], azs: Mapping[str, str], window: Window, label: str) -> Markup:
    """The writes of all AZs over time, with an axis."""
    height = len(azs) * (_NAME + _BARS) + _AXIS
    parts = [_fault(line, window, height - _AXIS)]
    for number, (az, name) in enumerate(azs.items()):
        top = number * (_NAME + _BARS)
        counts = line["rates"]["by_az"].get(az, ())
        rows = tag(
            "svg",
            joined(_bars(counts, line, window, words=name)),
            x=0,
            y=top + _NAME,
            width="100%",
            height=_BARS,
        )
        parts += [text(2, top + _NAME - 3, name, "tick"), rows]
    base = height - _AXIS
    parts.append(tag("line", x1=0, x2="100%", y1=base + 0.5, y2=base + 0.5, class_="axis"))
    for s in window.ticks():
        place = window.x(s)
        anchor = "start" if s - window.from_s < 2 else "middle"
        words = "fault" if s == 0 else in_seconds(s, 0)
        parts.append(
            tag("text", words, x=place, y=base + 13, class_="tick", text_anchor=anchor),
        )
        parts.append(tag("line", x1=place, x2=place, y1=base, y2=base + 4, class_="axis"))
    return tag(
        "svg",
        tag("title", label),
        joined(parts),
        width="100%",
        height=height,
        role="img",
        class_="picture outage",
    )


def _seconds(rates: Mapping[str, Any]) -> int:
    return max((len(counts) for counts in rates["by_az"].values()), default=0)


def _usual(line: Mapping[str, Any]) -> float:
    """The usual rate: that of the middle one of all seconds with any write, in all AZs."""
    busy = [count for counts in line["rates"]["by_az"].values() for count in counts if count]
    return float(median(busy)) if busy else 1.0


def _fault(line: Mapping[str, Any], window: Window, height: float | str) -> Markup:
    lasted = line.get("fault_s")
    return tag(
        "rect",
        x=window.x(0),
        y=0,
        width=window.width(0, min(lasted if lasted is not None else 0.0, window.to_s)),
        height=height,
        class_="fault",
    )


def _bars(counts: Sequence[int], line: Mapping[str, Any], window: Window, words: str = "") -> list[Markup]:
    """A bar for each second with a write; with ``words``, each says its number when pointed at."""
    usual, from_s = _usual(line), line["rates"]["from_s"]
    bars = []
    for number, count in enumerate(counts):
        if not count:
            continue
        share = min(count / usual / _CLIPPED_AT, 1.0)
        begin = from_s + number
        tall = max(8.0, 100 * share)
        bar = tag(
            "rect",
            x=window.x(begin),
            y=f"{100 - tall:.1f}%",
            width=window.width(begin, begin + 0.9),
            height=f"{tall:.1f}%",
            class_="write more" if count > usual * _CLIPPED_AT else "write",
        )
        bars.append(titled(bar, f"{words}, {in_seconds(begin, 0)}: {count} acknowledged") if words else bar)
    return bars
