"""The rows that a query returned, as a table for people, as CSV, or as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from harness.console import Console, echo

FORMS = ("table", "csv", "json")
Rows = Sequence[Sequence[Any]]


def show_rows(columns: Sequence[str], rows: Rows, form: str = "table") -> None:
    """Print rows in one of `FORMS`.

    CSV has a line of names, nothing for null, and JSON for lists. JSON is a list of objects.
    """
    if form == "json":
        echo(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=2, default=str))
    elif form == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(value, null="") for value in row] for row in rows)
        echo(text.getvalue(), nl=False)
    else:
        _show_table(columns, rows)


def _show_table(columns: Sequence[str], rows: Rows) -> None:
    """Print a table, or one block of lines per row where the terminal is too narrow for it."""
    console = Console(highlight=False)
    cells = [[_cell(value, null="-") for value in row] for row in rows]
    widths = [max(map(len, column)) + 2 for column in zip(columns, *cells, strict=True)]
    if console.is_terminal and sum(widths) > console.width:
        for row in cells:
            console.rule(style="dim")
            for name, value in zip(columns, row, strict=True):
                console.print(f"[bold]{escape(name):>16}[/]  {escape(value)}", soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(escape(column), no_wrap=True)
    for row in cells:
        table.add_row(*map(escape, row))
    console.width = max(console.width, sum(widths))
    console.print(table if rows else "[dim]no rows[/]", soft_wrap=True)


def _cell(value: Any, *, null: str) -> str:
    if value is None:
        return null
    return json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)
