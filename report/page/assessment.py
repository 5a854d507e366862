"""The page of an assessment: what each fault costs, the worst placement first, and all placements below."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from rich.text import Text

from report.assessment import AssessmentDocument, legend, table, verdict
from report.console import Cell
from report.model.model import Tone, grouped
from report.page.render import TONES, asset, digest, environment

Line = Mapping[str, Any]
_TONES: Mapping[str, Tone] = {"broken": "broken", "lost": "cost", "unknown": "undecided"}
"""By what became of the described producer's messages; any other outcome is *kept*."""
_SEVERITY: Sequence[Tone] = ("kept", "undecided", "cost", "broken")


@dataclass(frozen=True, kw_only=True)
class Pause:
    """The longest time in which clients of an AZ could not write or read."""

    az: str
    seconds: float
    until_heal: bool
    share: float
    """Of the longest pause of the assessment, from 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class FaultCost:
    """What a fault costs in its worst placement, column by column."""

    says: str
    tone: Tone
    lost: Sequence[tuple[str, str]]
    """Producer setting and number of lost messages, the described one first."""
    promise: str
    """The worst judgement of the described producer's messages."""
    writes: Sequence[Pause]
    reads: Sequence[Pause]
    failover_s: float | None
    full_isr_s: float | None
    recovered: bool
    operator: Sequence[str]
    problems: Sequence[str]
    """Why placements were not measured."""
    placements: Sequence[Sequence[Cell]]
    """Rows of `report.assessment.table`."""
    runs: Sequence[tuple[str, str]]
    """Name and link of each run; the link is empty where the run has no page."""

    @property
    def worst_write_s(self) -> float:
        """The longest time without a write in any AZ."""
        return max((one.seconds for one in self.writes), default=0.0)


def assessment_page(document: AssessmentDocument, link: Callable[[str], str] = lambda run: "") -> str:
    """The page as one self-contained HTML file.

    ``document`` is `assessment.json`; ``link`` returns the address of a run's page, or nothing.
    """
    costs = sorted(
        _costs(document, link), key=lambda one: (-_SEVERITY.index(one.tone), -one.worst_write_s, one.says)
    )
    whole: Tone = max((one.tone for one in costs), key=_SEVERITY.index, default="undecided")
    sign, word = TONES[whole]
    style, script = asset("page.css"), asset("assessment.js")
    return (
        environment()
        .get_template("assessment.html.j2")
        .render(
            document=document,
            headline=_headline(document["producers"][0], costs),
            tone=whole,
            sign=sign,
            word=word,
            tones=TONES,
            costs=costs,
            columns=table(document).columns[1:],
            cells=_cells,
            legend=legend(document),
            verdict=verdict(document),
            style=Markup(style),
            script=Markup(script),
            style_hash=digest(style),
            script_hash=digest(script),
        )
    )


def _headline(described: str, costs: Sequence[FaultCost]) -> str:
    """What the described producer loses, and how long it waits."""
    measured = [one for one in costs if one.writes]
    if not measured:
        return "No fault was measured, so nothing is known."
    losing = sum(one.tone in ("cost", "broken") for one in measured)
    losses = f"{losing if losing else 'none'} of {len(measured)} faults {'loses' if losing < 2 else 'lose'}"
    longest = max(measured, key=lambda one: one.worst_write_s)
    until = any(one.until_heal and one.seconds == longest.worst_write_s for one in longest.writes)
    ending = ", until the fault was healed" if until else ""
    return (
        f"With {described} (your setting), {losses} acknowledged messages. The longest time without a write "
        f"is {longest.worst_write_s:.0f} s ({longest.says}){ending}."
    )


def _costs(document: AssessmentDocument, link: Callable[[str], str]) -> Iterator[FaultCost]:
    described, *compared = document["producers"]
    azs = {az: name for az, name in document["azs"].items() if az in document["clients"]}
    longest_s = max(
        (
            gap["seconds"]
            for line in document["lines"]
            for gaps in (line["reads"], *(one["writes"] for one in line["settings"].values()))
            for gap in gaps.values()
        ),
        default=0.0,
    )
    placements: dict[str, list[Sequence[Cell]]] = {}
    for row in table(document).rows:
        placements.setdefault(str(row[0]), []).append(row[1:])
    by_fault: dict[str, list[Line]] = {}
    for line in document["lines"]:
        by_fault.setdefault(line["says"], []).append(line)
    for says, lines in by_fault.items():
        measured = [line for line in lines if line["status"] == "measured"]
        own = [line["settings"][described] for line in measured]
        states = ["broken" if one["promise"] == "broken" else one["outcome"] for one in own]
        tones: list[Tone] = [_TONES.get(state, "kept") for state in states]
        recoveries = [line["recovery_s"] for line in measured]
        yield FaultCost(
            says=says,
            tone=max(tones, key=_SEVERITY.index, default="undecided"),
            lost=[(name, _most_lost(measured, name)) for name in (described, *compared)],
            promise=_worst_promise([one["promise"] for one in own]),
            writes=_pauses([one["writes"] for one in own], azs, longest_s),
            reads=_pauses([line["reads"] for line in measured], azs, longest_s),
            failover_s=max((s for line in measured if (s := line["failover_s"]) is not None), default=None),
            full_isr_s=max((s for s in recoveries if s is not None), default=None),
            recovered=None not in recoveries,
            operator=sorted({what for line in measured for what in line["operator"]}),
            problems=sorted(
                {f"{line['status']}: {line['reason']}" for line in lines if line["status"] != "measured"}
            ),
            placements=placements.get(says, []),
            runs=[(run, link(f"{document['runs']}/{run}")) for line in measured for run in line["runs"]],
        )


def _most_lost(lines: Sequence[Line], setting: str) -> str:
    of_setting = [line["settings"][setting] for line in lines if setting in line["settings"]]
    if not of_setting:
        return "–"
    if any(one["outcome"] == "unknown" for one in of_setting):
        return "?"
    return grouped(max(one["lost"] for one in of_setting))


def _worst_promise(promises: Sequence[str]) -> str:
    order = ("kept", "not promised", "unknown", "broken")
    return max(promises, key=order.index, default="–")


def _pauses(
    by_placement: Sequence[Mapping[str, Mapping[str, Any]]], azs: Mapping[str, str], longest_s: float
) -> list[Pause]:
    """The longest pause of each AZ over all placements."""
    pauses = []
    for az, name in azs.items():
        gaps = [gaps[az] for gaps in by_placement if az in gaps]
        if gaps:
            worst = max(gaps, key=lambda gap: gap["seconds"])
            pauses.append(
                Pause(
                    az=name,
                    seconds=worst["seconds"],
                    until_heal=worst["until_heal"],
                    share=worst["seconds"] / longest_s if longest_s else 0.0,
                )
            )
    return pauses


def _cells(cell: Cell) -> list[str]:
    """The parts of a cell as plain text."""
    parts = cell if isinstance(cell, tuple) else (cell,)
    return [part.plain if isinstance(part, Text) else str(part) for part in parts]
