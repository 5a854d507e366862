"""The outcome of `acked search`, `acked replay` and `acked shrink` on the terminal.

Works on the documents that these commands write.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.text import Text

from checkers.promises.table import ROWS
from checkers.verdict import NOT_JUDGED
from harness.console import Console
from report.console import Column, RowTable
from report.terminal import short_path
from report.words.reached import reached_in_words

SearchDocument = Mapping[str, Any]
_STYLES = {"new": "bold red", "unknown": "yellow", "known": "", "not promised": "dim"}
_BRIEFS = {row.name: row.brief for row in ROWS}
_MOST = 12
_RARE = 2
_LEGEND = (
    "new: it breaks a promise, or nothing explains it; unknown: the runs do not show whether a promise was "
    "broken; known: a known bug of Kafka or of the client; not promised: Kafka does not promise to prevent it",
    "rate: how many of 100 runs show it, with 95 % confidence",
)


def show_search(document: SearchDocument, console: Console) -> None:
    """Print the findings, how to go on with each, and what was reached."""
    if document["groups"]:
        findings(document).show(console)
        _say(console, _LEGEND, lead="  ", style="dim")
        console.print()
        _first_runs(document["groups"], console)
    else:
        console.print("no findings")
    console.print()
    _say(console, summary(document), lead="• ")


def show_comparison(document: SearchDocument, console: Console) -> None:
    """Print the findings with their rates on each side, and the schedules whose results differ."""
    if document["groups"]:
        compared(document).show(console)
        _say(console, ("≠: the rates differ", *_LEGEND), lead="  ", style="dim")
    else:
        console.print("no findings")
    console.print()
    _say(console, differences(document), lead="• ")


def _say(console: Console, sentences: Iterable[str], *, lead: str, style: str = "") -> None:
    for sentence in sentences:
        console.paragraph(escape(sentence), lead=lead, style=style)


def findings(document: SearchDocument) -> RowTable:
    """A row for each group of findings: what it is, how much it matters, and how often it came."""
    columns = (
        *(Column(heading="finding", prose=True), Column(heading="with", prose=True)),
        Column(heading="weight"),
        Column(heading="runs"),
        Column(heading="rate (%)", right=True),
        *(Column(heading=heading, right=True) for heading in ("count", "schedule")),
    )
    rows = []
    for group in document["groups"]:
        finding = group["finding"]
        rows.append(
            (
                in_words(finding),
                finding["settings"] or "–",
                Text(finding["weight"], _STYLES[finding["weight"]]),
                f"{group['runs']} of {group['of']}",
                f"{group['low']:.0%} to {group['high']:.0%}".replace("%", ""),
                str(finding["count"]),
                str(group["first"]),
            )
        )
    return RowTable(columns=columns, rows=rows)


def in_words(finding: Mapping[str, Any]) -> str:
    """A group of findings: its class, its cause, and what Kafka promises about it."""
    name, bug, row = (str(finding[key]) for key in ("name", "known_bug", "row"))
    text = name.replace("_", " ").replace("-", " ")
    if finding["cause"]:
        cause = str(finding["cause"])
        text += ", cause not known" if cause == "not known" else f": {cause}"
    brief = _BRIEFS.get(row, row)
    if bug:
        return f"{text} (known bug: {bug})"
    if finding["promise"] == "broken":
        return f"{text} (breaks a promise: {brief})"
    return f"{text} ({brief})" if brief else text


def _first_runs(groups: Sequence[Mapping[str, Any]], console: Console) -> None:
    """For each schedule that was the first to show something: its run, its steps, and commands to go on."""
    by_schedule: dict[int, list[Mapping[str, Any]]] = {}
    for group in groups:
        by_schedule.setdefault(group["first"], []).append(group)
    console.paragraph(
        "The first run of each finding. `acked replay` says how often the finding comes back, `acked shrink` "
        "looks for the smallest schedule that shows it, and `acked report` writes the page of the run."
    )
    for number, of_schedule in by_schedule.items():
        folder = short_path(of_schedule[0]["folder"])
        console.print()
        console.print(f"[bold]schedule {number}[/bold]: {escape(folder)}", soft_wrap=True)
        for at, step in enumerate(of_schedule[0].get("steps", ()), start=1):
            console.paragraph(escape(step), lead=f"  {at}. ")
        _command(console, "report", folder)
        for group in of_schedule:
            console.paragraph(escape(in_words(group["finding"])), lead="  finding: ")
            for command in ("replay", "shrink"):
                _command(console, command, folder, group.get("option", ""))


def _command(console: Console, command: str, folder: str, finding: str = "") -> None:
    """A command to copy, which is never wrapped."""
    option = f" --finding {shlex.quote(finding)}" if finding else ""
    console.print(f"    acked {command} {shlex.quote(folder)}{option}", markup=False, soft_wrap=True)


def compared(document: SearchDocument) -> RowTable:
    """A row for each group of findings, with its runs and its rate on each side; `≠`: the rates differ."""
    columns = (
        Column(heading="finding", prose=True),
        Column(heading="≠"),
        Column(heading="weight"),
        *(Column(heading=side) for side in document["sides"]),
    )
    rows = []
    for group in document["groups"]:
        rates = [
            f"{rate['runs']} of {rate['of']} ({_interval(rate['low'], rate['high'])})"
            for rate in group["sides"]
        ]
        weight = Text(group["weight"], _STYLES[group["weight"]])
        rows.append((group["signature"], "≠" if group["apart"] else "", weight, *rates))
    return RowTable(columns=columns, rows=rows)


def differences(document: SearchDocument) -> Iterator[str]:
    """The schedules whose results differ between the sides, in sentences."""
    apart = document["differences"]
    yield (
        f"{' and '.join(document['sides'])}: {document['schedules']} schedules on all sides, "
        f"{document['judged']} of them judged on all; {len(apart)} differ in their findings"
    )
    for one in apart[:_MOST]:
        parts = [
            f"{side['side']}: {'; '.join(side['alone'])}"
            if side["alone"]
            else f"{side['side']}: {'nothing else' if side['verdict'] not in NOT_JUDGED else side['verdict']}"
            for side in one["sides"]
        ]
        yield f"schedule {one['number']}: {' | '.join(parts)}"
    if len(apart) > _MOST:
        yield f"and {len(apart) - _MOST} more; compare.json has all"


def _skipped(steps: int) -> str:
    return f"{steps} step was skipped" if steps == 1 else f"{steps} steps were skipped"


def _interval(low: float, high: float) -> str:
    return f"{low:.0%} to {high:.0%}"


def summary(document: SearchDocument) -> Iterator[str]:
    """The states that were reached and the promises that were tested, in sentences."""
    plan = document["plan"]
    left = "".join(f", {count} {verdict}" for verdict, count in document["not_judged"].items())
    pace = f", {document['per_hour']} an hour" if document["per_hour"] else ""
    yield (
        f"Kafka {plan['version']}, {plan['mode']}, seed {plan['seed']}: {document['schedules']} schedules"
        f"{pace}; {document['judged']} judged{left}; {_skipped(document['skipped_steps'])}"
    )
    reached = document["reached"]
    rare = [reached_in_words(name) for name, count in reached.items() if count <= _RARE]
    yield (
        f"reached {len(reached)} states and events, {len(rare)} of them in at most {_RARE} schedules: "
        f"{_some(rare)}"
    )
    hits = [
        f"{reached_in_words(name)} ({count})" for name, count in reached.items() if name.startswith("fault ")
    ]
    yield f"faults, with the number of schedules: {_some(hits, len(hits))}"
    tested = [f"{name} ({count})" for name, count in document["promises"].items()]
    yield (
        f"promises that runs put to the test, with the number of runs (docs/promises.md explains the names): "
        f"{_some(tested, len(tested))}"
    )
    untested = document["not_exercised"]
    yield f"promises that no run put to the test: {_some(untested, len(untested))}"


def _some(names: Sequence[str], most: int = _MOST) -> str:
    if not names:
        return "none"
    more = f"; and {len(names) - most} more" if len(names) > most else ""
    return "; ".join(names[:most]) + more


def replayed(document: SearchDocument) -> Iterator[str]:
    """How often the finding came back, and which other findings the runs had."""
    low, high = document["interval"]
    unjudged = f"; {document['not_judged']} more were not judged" if document["not_judged"] else ""
    if document["finding"]:
        yield (
            f"came back in {document['hits']} of {document['runs']} runs ({_interval(low, high)} with 95 % "
            f"confidence{unjudged}): {document['decision']}"
        )
        yield f"finding: {document['finding']}"
    else:
        yield f"{document['runs']} runs{unjudged}"
    for one in document["findings"]:
        low, high = one["interval"]
        share = f"{one['runs']} of {document['runs']} ({_interval(low, high)})"
        yield f"{one['weight']}, {share}: {one['signature']}"
