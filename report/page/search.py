"""The page of a search: its findings, the schedules that showed them first, and what was explored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from report.model.model import Tone, counted
from report.model.opening import Opening, worst
from report.page.frame import framed
from report.page.score import lanes
from report.page.svg import picture, tag, text
from report.search import commands, in_words, summary

_TONES: Mapping[str, Tone] = {
    "new": "broken",
    "unknown": "undecided",
    "known": "cost",
    "not promised": "cost",
}
"""By the weight of a finding."""
_WIDTH, _CURVE_HEIGHT = 760.0, 120.0


def search_page(document: Mapping[str, Any], link: Callable[[str], str] = lambda run: "") -> str:
    """The page as one self-contained HTML file.

    ``document`` is `search.json`; ``link`` returns the address of a run's page, or nothing.
    """
    groups = document["groups"]
    return framed(
        "search.html.j2",
        _opening(document),
        document=document,
        plan=document["plan"],
        groups=[(group, _TONES[group["finding"]["weight"]], _said(group)) for group in groups],
        schedules=list(_schedules(groups, link)),
        explored=list(summary(document)),
        curve=_curve(document.get("saturation") or ()),
    )


def _opening(document: Mapping[str, Any]) -> Opening:
    plan, groups = document["plan"], document["groups"]
    left = "".join(f", {count} {verdict}" for verdict, count in document["not_judged"].items())
    new = {group["finding"]["weight"] for group in groups}
    return Opening(
        kind="search",
        tone=worst([_TONES[weight] for weight in new], none="kept" if document["judged"] else "void"),
        word="findings" if groups else "no findings" if document["judged"] else "no result",
        answer=_headline(document),
        asked=f"Do random schedules of faults make Kafka {plan['version']}, {plan['mode']}, break a promise? "
        f"Seed {plan['seed']}.",
        sure=f"{counted(document['schedules'], 'schedule')}, {document['judged']} judged{left}. Each ran "
        f"once: `acked replay` says how often a finding comes back. "
        f"{counted(len(document['not_exercised']), 'promise')} not put to the test.",
        more=[
            ("findings", "#findings"),
            *([("schedules", "#schedules")] if groups else []),
            ("what was explored", "#explored"),
            ("as data", "search.json"),
        ],
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
