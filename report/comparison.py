"""A comparison of two runs in the terminal: differences as tables, equal values as one grey line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape

from harness.console import Console
from report.console import NONE, Column, RowTable
from report.model.compare import SECTIONS, Difference, RunComparison
from report.terminal import short_path


def show_comparison(comparison: RunComparison, console: Console) -> None:
    """Print a comparison for a person."""
    console.paragraph(escape(short_path(comparison.one)), lead="[bold]A[/] ")
    console.paragraph(escape(short_path(comparison.other)), lead="[bold]B[/] ")
    for name, title in SECTIONS:
        rows: Sequence[Difference] = getattr(comparison, name)
        if rows:
            console.print()
            console.paragraph(f"[bold]{title}[/]")
            _table(rows).show(console)
    console.print()
    console.paragraph(escape(f"Equal: {comparison.equal}"), style="dim")


def _table(rows: Sequence[Difference]) -> RowTable:
    headings = ("what", "A", "B")
    return RowTable(
        columns=[Column(heading=heading, prose=True) for heading in headings],
        rows=[(row.what, row.one or NONE, row.other or NONE) for row in rows],
    )
