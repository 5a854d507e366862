"""A comparison of two runs in the terminal: differences as tables, equal values as one grey line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from harness.console import Console
from report.model.compare import SECTIONS, Difference, RunComparison


def show_comparison(comparison: RunComparison, console: Console) -> None:
    """Print a comparison for a person."""
    console.print(f"[bold]A[/] {escape(comparison.one)}", soft_wrap=True)
    console.print(f"[bold]B[/] {escape(comparison.other)}", soft_wrap=True)
    for name, title in SECTIONS:
        rows: Sequence[Difference] = getattr(comparison, name)
        if rows:
            console.print(f"\n[bold]{title}[/]")
            console.print(_table(rows))
    console.print(f"\n[dim]Equal: {comparison.equal}[/]")


def _table(rows: Sequence[Difference]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("", "A", "B"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(escape(row.what), escape(row.one) or "[dim]–[/]", escape(row.other) or "[dim]–[/]")
    return table
