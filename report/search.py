"""The outcome of `acked search`, `acked replay` and `acked shrink` on the terminal.

Works on the documents that these commands write.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.text import Text

from checkers.verdict import NOT_JUDGED
from harness.console import Console
from report.console import NONE, Column, RowTable
from report.model.searched import SearchDocument
from report.terminal import short_path
from report.words.found import finding_in_words
from report.words.reached import reached_in_words

_STYLES = {"new": "bold red", "unknown": "yellow", "known": "", "not promised": "dim"}
_MOST = 12
_RARE = 2
_LEGEND = (
    "weight: new: breaks a promise, or nothing explains it; unknown: the runs do not show whether a promise "
    "was broken; known: a known bug of Kafka or of the client; not promised: Kafka does not promise to "
    "prevent it",
    "rate: in how many of 100 runs it is to be expected, with 95 % confidence",
)


_LEGEND_OF_SIDES = "≠: the rates of the sides differ; =: chance may explain the difference"


def show_search(document: SearchDocument, console: Console) -> None:
    """Print the findings, how to go on with each, and what was reached."""
    if document["groups"]:
        findings(document).show(console)
        console.print()
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
        console.print()
        _say(console, (_LEGEND[0], _LEGEND_OF_SIDES), lead="  ", style="dim")
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
                finding_in_words(finding, group.get("brief", "")),
                finding["settings"] or NONE,
                Text(finding["weight"], _STYLES[finding["weight"]]),
                f"{group['runs']} of {group['of']}",
                _percent(group["low"], group["high"]),
                str(finding["count"]),
                str(group["first"]),
            )
        )
    return RowTable(columns=columns, rows=rows)


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
        _print_command(console, command_line("report", folder))
        for group in of_schedule:
            settings = group["finding"]["settings"]
            text = finding_in_words(group["finding"], group.get("brief", "")) + (
                f"; {settings}" if settings else ""
            )
            console.paragraph(escape(text), lead="  finding: ")
            for line in commands(group)[1:]:
                _print_command(console, line)


def commands(group: Mapping[str, Any]) -> list[str]:
    """Commands to go on with a finding: the page of its first run, its rate, its smallest schedule."""
    folder, option = short_path(group["folder"]), group.get("option", "")
    return [
        command_line("report", folder),
        *(command_line(one, folder, option) for one in ("replay", "shrink")),
    ]


def command_line(command: str, folder: str, finding: str = "") -> str:
    """A command as a shell takes it."""
    option = f" --finding {shlex.quote(finding)}" if finding else ""
    return f"acked {command} {shlex.quote(folder)}{option}"


def _print_command(console: Console, line: str) -> None:
    """A command to copy, which is never wrapped."""
    console.print(f"    {line}", markup=False, soft_wrap=True)


def compared(document: SearchDocument) -> RowTable:
    """A row for each group of findings, with its runs and its rate on each side; `≠`: the rates differ."""
    columns = (
        *(Column(heading="finding", prose=True), Column(heading="with", prose=True)),
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
        finding = group["finding"]
        apart = "≠" if group["apart"] else "="
        rows.append((finding_in_words(finding), finding["settings"] or NONE, apart, weight, *rates))
    return RowTable(columns=columns, rows=rows)


def differences(document: SearchDocument) -> Iterator[str]:
    """The schedules whose results differ between the sides, in sentences."""
    apart = document["differences"]
    said = {group["signature"]: finding_in_words(group["finding"]) for group in document["groups"]}
    yield (
        f"{' and '.join(document['sides'])}: {document['schedules']} schedules on all sides, "
        f"{document['judged']} of them judged on all; {len(apart)} differ in their findings"
    )
    for one in apart[:_MOST]:
        parts = [
            f"{side['side']}: {'; '.join(said.get(name, name) for name in side['alone'])}"
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


def _percent(low: float, high: float) -> str:
    return f"{low * 100:.0f} to {high * 100:.0f}"


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


def show_replay(document: SearchDocument, console: Console) -> None:
    """Print how often the finding came back, which findings the runs had, and how to go on."""
    low, high = document["interval"]
    unjudged = f"; {document['not_judged']} more were not judged" if document["not_judged"] else ""
    if document["finding"]:
        console.paragraph(escape(document["finding"]), lead="finding: ")
        console.paragraph(
            f"It came back in {document['hits']} of {document['runs']} runs ({_interval(low, high)} with "
            f"95 % confidence{unjudged}): {document['decision']}."
        )
    else:
        console.paragraph(f"{document['runs']} runs{unjudged}")
    if document["findings"]:
        console.print()
        replayed(document).show(console)
    if document.get("run"):
        console.print()
        console.paragraph("The page of a run that shows it, and a search for the smallest such schedule:")
        for command in ("report", "shrink"):
            _print_command(console, command_line(command, short_path(document["run"])))


def replayed(document: SearchDocument) -> RowTable:
    """A row for each group of findings of a replay."""
    columns = (
        *(Column(heading="finding", prose=True), Column(heading="with", prose=True)),
        *(Column(heading="weight"), Column(heading="runs"), Column(heading="rate (%)", right=True)),
    )
    rows = [
        (
            *(finding_in_words(one["example"]), one["example"]["settings"] or NONE),
            Text(one["weight"], _STYLES[one["weight"]]),
            f"{one['runs']} of {document['runs']}",
            _percent(*one["interval"]),
        )
        for one in document["findings"]
    ]
    return RowTable(columns=columns, rows=rows)
