"""Comparisons in the terminal: the conclusion, differences as tables, equal values as one grey line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape

from harness.console import Console
from report.console import NONE, Column, RowTable
from report.model.compare import MINOR, SECTIONS, Difference, RunComparison
from report.model.compare_assessments import AssessmentComparison, equal_in_words
from report.terminal import short_path


def show_comparison(comparison: RunComparison | AssessmentComparison, console: Console) -> None:
    """Print a comparison for a person."""
    console.paragraph(f"[bold]{escape(comparison.opening.answer)}[/]")
    console.paragraph(escape(comparison.opening.sure), style="dim")
    console.print()
    console.paragraph(escape(short_path(comparison.one)), lead="[bold]A[/] ")
    console.paragraph(escape(short_path(comparison.other)), lead="[bold]B[/] ")
    for title, rows in _sections(comparison):
        if rows:
            console.print()
            console.paragraph(f"[bold]{escape(title)}[/]")
            _table(rows).show(console)
    console.print()
    equal = (
        f"Equal: {comparison.equal}" if isinstance(comparison, RunComparison) else equal_in_words(comparison)
    )
    console.paragraph(escape(equal), style="dim")


def _sections(
    comparison: RunComparison | AssessmentComparison,
) -> Sequence[tuple[str, Sequence[Difference]]]:
    if isinstance(comparison, RunComparison):
        return [(title, getattr(comparison, name)) for name, title in (*SECTIONS, *MINOR)]
    return [
        *((fault.says, fault.cells) for fault in comparison.faults),
        ("Measured in one of them", comparison.alone),
        ("What was assessed", comparison.settings),
    ]


def _table(rows: Sequence[Difference]) -> RowTable:
    headings = ("what", "A", "B")
    return RowTable(
        columns=[Column(heading=heading, prose=True) for heading in headings],
        rows=[(row.what, row.one or NONE, row.other or NONE) for row in rows],
    )
