"""The pages of a search and of a comparison of searches.

A search has its findings, the schedules that showed them first, and what was explored; a comparison has the
rates of each side, and the schedules whose results differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from checkers.verdict import NOT_JUDGED
from report.model.searched import WEIGHT_TONES, comparison_opening, search_opening
from report.page.frame import framed
from report.page.score import lanes
from report.page.svg import picture, tag, text
from report.search import command_line, commands, summary
from report.terminal import short_path
from report.words.found import finding_in_words

_WIDTH, _CURVE_HEIGHT = 760.0, 120.0


def search_page(document: Mapping[str, Any], link: Callable[[str], str] = lambda run: "") -> str:
    """The page as one self-contained HTML file.

    ``document`` is `search.json`; ``link`` returns the address of a run's page, or nothing.
    """
    groups = document["groups"]
    return framed(
        "search.html.j2",
        search_opening(document),
        document=document,
        plan=document["plan"],
        groups=[(group, WEIGHT_TONES[group["finding"]["weight"]], _said(group)) for group in groups],
        schedules=list(_schedules(groups, link)),
        explored=list(summary(document)),
        curve=_curve(document.get("saturation") or ()),
    )


def _said(group: Mapping[str, Any]) -> str:
    return finding_in_words(group["finding"], group.get("brief", ""))


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
            "score": lanes(first.get("score") or ()),
            "commands": list(dict.fromkeys(one for group in of_schedule for one in commands(group))),
        }


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


def search_comparison_page(document: Mapping[str, Any], link: Callable[[str], str] = lambda run: "") -> str:
    """The page of a comparison of searches as one HTML file. ``document`` is `compare.json`."""
    said = {group["signature"]: finding_in_words(group["finding"]) for group in document["groups"]}
    rows = [(group, WEIGHT_TONES[group["weight"]], said[group["signature"]]) for group in document["groups"]]
    return framed(
        "searches.html.j2",
        comparison_opening(document),
        document=document,
        tables=[
            (title, some)
            for title, apart in (("What differs", True), ("What does not differ by more than chance", False))
            if (some := [row for row in rows if row[0]["apart"] is apart])
        ],
        differences=[
            {
                "number": one["number"],
                "sides": [
                    (
                        side,
                        [said.get(name, name) for name in side["alone"]],
                        link(side["folder"]),
                        command_line("replay", short_path(side["folder"])),
                    )
                    for side in one["sides"]
                ],
                "steps": one.get("steps") or (),
                "score": lanes(one.get("score") or ()),
            }
            for one in document["differences"]
        ],
        unjudged=NOT_JUDGED,
    )
