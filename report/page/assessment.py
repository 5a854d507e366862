"""The page of an assessment: what each fault costs, the worst placement first, and all placements below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup
from rich.text import Text

from report.assessment import legend, table, verdict
from report.console import Cell
from report.model.assessed import AssessmentDocument, FaultCost, Line, Pause, azs_of, fault_costs, opening
from report.page.frame import framed
from report.page.outage import Window, outage, shown, sparkline

Link = Callable[[str], str]
"""From a run folder to the address of its page; empty if it has none."""


def assessment_page(document: AssessmentDocument, link: Link = lambda run: "") -> str:
    """The page as one self-contained HTML file.

    ``document`` is `assessment.json`; ``link`` returns the address of a run's page, or nothing.
    """
    costs, azs = fault_costs(document), azs_of(document)
    drawn = [line for cost in costs for line in cost.lines if shown(line)]
    window = Window.of(drawn)
    rows: dict[str, list[Sequence[Cell]]] = {}
    for row in table(document).rows:
        rows.setdefault(str(row[0]), []).append(row[1:])

    def page_of(run: str) -> str:
        return link(f"{document['runs']}/{run}") if run else ""

    def spark(pause: Pause) -> Markup | None:
        return sparkline(pause.line, pause.az, window) if shown(pause.line) else None

    def outages(cost: FaultCost) -> list[tuple[str, Markup]]:
        return [(_place(line), outage(line, azs, window, _label(line))) for line in cost.lines if shown(line)]

    return framed(
        "assessment.html.j2",
        opening(document, costs),
        "assessment.js",
        document=document,
        costs=[cost for cost in costs if not cost.pending],
        groups=any(cost.groups for cost in costs),
        pending=[cost.says for cost in costs if cost.pending],
        rows=rows,
        columns=table(document).columns[1:],
        cells=_cells,
        page_of=page_of,
        spark=spark,
        outages=outages,
        drawn=bool(drawn),
        legend=legend(document),
        verdict=document.get("verdict", ""),
        others=verdict(document)[1:],
    )


def _place(line: Line) -> str:
    """Where the roles and the leaders were, in words."""
    led = f"; partitions whose leader was {line['led']}" if line["led"] else ""
    return f"controller {line['roles']}{led}"


def _label(line: Line) -> str:
    return f"Acknowledged writes in each second: {line['says']}, {_place(line)}"


def _cells(cell: Cell) -> list[str]:
    """The parts of a cell as plain text."""
    parts: Sequence[Any] = cell if isinstance(cell, tuple) else (cell,)
    return [part.plain if isinstance(part, Text) else str(part) for part in parts]
