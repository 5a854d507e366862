"""The page of a search: its findings, the schedules that showed them first, and what was explored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from report.model.model import Tone
from report.page.render import TONES, asset, digest, environment
from report.page.svg import fit, picture, tag, text, titled
from report.search import commands, in_words, summary

_TONES: Mapping[str, Tone] = {
    "new": "broken",
    "unknown": "undecided",
    "known": "cost",
    "not promised": "cost",
}
"""By the weight of a finding."""
_SEVERITY: Sequence[Tone] = ("kept", "cost", "undecided", "broken")
_WIDTH, _LEFT, _LANE = 760.0, 300.0, 24.0
_CURVE_HEIGHT = 120.0


def search_page(document: Mapping[str, Any], link: Callable[[str], str] = lambda run: "") -> str:
    """The page as one self-contained HTML file.

    ``document`` is `search.json`; ``link`` returns the address of a run's page, or nothing.
    """
    groups = document["groups"]
    whole: Tone = max(
        (_TONES[group["finding"]["weight"]] for group in groups), key=_SEVERITY.index, default="kept"
    )
    style = asset("page.css")
    return (
        environment()
        .get_template("search.html.j2")
        .render(
            document=document,
            plan=document["plan"],
            headline=_headline(document),
            tone=whole,
            tones=TONES,
            sign=TONES[whole][0],
            groups=[(group, _TONES[group["finding"]["weight"]], _said(group)) for group in groups],
            schedules=list(_schedules(groups, link)),
            explored=list(summary(document)),
            curve=_curve(document.get("saturation") or ()),
            style=Markup(style),
            style_hash=digest(style),
        )
    )


def _headline(document: Mapping[str, Any]) -> str:
    judged, groups = document["judged"], document["groups"]
    broken = sum(group["finding"]["promise"] == "broken" for group in groups)
    unexplained = sum(group["finding"]["weight"] == "new" for group in groups) - broken
    runs = f"{judged} random schedule{'' if judged == 1 else 's'} of faults"
    if not judged:
        return "No schedule was judged, so the search says nothing about Kafka."
    if broken:
        promises = "a promise" if broken == 1 else f"promises in {broken} ways"
        return f"In {runs}, Kafka broke {promises}."
    if unexplained:
        return f"In {runs}, Kafka broke no promise; {_count(unexplained, 'kind of finding')} unexplained."
    return f"In {runs}, Kafka broke no promise."


def _count(number: int, what: str) -> str:
    return f"one {what} is" if number == 1 else f"{number} {what.replace('kind', 'kinds')}s are"


def _said(group: Mapping[str, Any]) -> str:
    return in_words(group["finding"], group.get("brief", ""))


def _schedules(groups: Sequence[Mapping[str, Any]], link: Callable[[str], str]) -> Iterator[dict[str, Any]]:
    """The schedules that were the first to show something, in the order of their findings."""
    by_schedule: dict[int, list[Mapping[str, Any]]] = {}
    for group in groups:
        by_schedule.setdefault(group["first"], []).append(group)
    for number, of_schedule in by_schedule.items():
        first = of_schedule[0]
        yield {
            "number": number,
            "href": link(first["folder"]),
            "findings": [_said(group) for group in of_schedule],
            "steps": first.get("steps") or (),
            "score": _score(first.get("score") or ()),
            "commands": list(dict.fromkeys(one for group in of_schedule for one in commands(group))),
        }


def _score(steps: Sequence[Mapping[str, Any]]) -> Markup | None:
    """The steps of a schedule as lanes over time; a step that waits for an event may begin or end earlier."""
    if not steps:
        return None
    end_s = max(step["to_s"] or step["from_s"] for step in steps) or 1.0

    def x(s: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 50) * s / end_s

    parts = []
    for number, step in enumerate(steps):
        y = number * _LANE
        parts.append(text(0, y + 16, fit(step["says"], _LEFT - 10), "rowname"))
        began, ended = x(step["from_s"]), x(step["to_s"] or step["from_s"])
        lasts = step["to_s"] is not None
        bar = tag(
            "rect",
            x=began,
            y=y + 4,
            width=max(ended - began, 3),
            height=_LANE - 8,
            class_="lasting" if lasts else "once",
        )
        times = f"at {step['from_s']:g} s" + (f", to {step['to_s']:g} s" if lasts else "")
        early = ", or earlier, at an event" if step["waits"] else ""
        parts.append(titled(bar, f"{step['says']}: {times}{early}"))
        label = f"{step['from_s']:g} s{'*' if step['waits'] else ''}"
        parts.append(text(min(max(ended, began + 3) + 4, _WIDTH - 44), y + 16, label, "tick"))
    return picture(_WIDTH, len(steps) * _LANE + 4, parts, "The schedule over time", "score")


def _curve(saturation: Sequence[int]) -> Markup | None:
    """How many states and events had been reached after each schedule."""
    if len(saturation) < 2 or not saturation[-1]:
        return None
    width, most = _WIDTH - 60, saturation[-1]
    points = [
        (40 + width * number / (len(saturation) - 1), _CURVE_HEIGHT - (_CURVE_HEIGHT - 12) * count / most)
        for number, count in enumerate(saturation)
    ]
    steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return picture(
        _WIDTH,
        _CURVE_HEIGHT + 20,
        [
            tag("polyline", points=steps, class_="curve"),
            text(0, 16, str(most), "tick"),
            text(0, _CURVE_HEIGHT + 2, "0", "tick"),
            text(40, _CURVE_HEIGHT + 16, "schedule 1", "tick"),
            text(_WIDTH - 110, _CURVE_HEIGHT + 16, f"schedule {len(saturation)}", "tick"),
        ],
        "States and events reached, by schedule",
        "saturation",
    )
