"""A bisect on the terminal: the answer, and what each version that was tried said."""

from __future__ import annotations

from rich.markup import escape

from harness.console import Console
from report.console import NONE, Column, RowTable
from report.model.bisected import BisectDocument, bisect_opening


def show_bisect(document: BisectDocument, console: Console) -> None:
    """Print it for a person."""
    opening = bisect_opening(document)
    console.paragraph(f"[bold]{escape(opening.answer)}[/]")
    console.paragraph(escape(opening.sure), style="dim")
    console.print()
    bisect_table(document).show(console)


def bisect_table(document: BisectDocument) -> RowTable:
    """A row for each version that was tried, oldest first."""
    runs = {run["version"]: run for run in document["runs"]}
    headings = ("Kafka", "the claim is", "observed", "verdict", "seconds")
    return RowTable(
        columns=[Column(heading=one, right=one == "seconds", prose=one == "observed") for one in headings],
        rows=[
            (version, run["status"], run["observed"] or NONE, run["verdict"], f"{run['seconds']:.0f}")
            for version in document["versions"]
            if (run := runs.get(version)) is not None
        ],
    )
