"""The rows that a query returned, as a table for people, as CSV, or as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from harness.console import Console, echo
from report.console import Column, RowTable

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
    elif rows:
        row_table(columns, rows).show(Console(highlight=False))
    else:
        echo("no rows")


def row_table(columns: Sequence[str], rows: Rows) -> RowTable:
    """The rows as a table, which has a block for each where a terminal is too narrow."""
    cells = [[_cell(value, null="-") for value in row] for row in rows]
    return RowTable(columns=[Column(heading=name) for name in columns], rows=cells, named_by=0)


def _cell(value: Any, *, null: str) -> str:
    if value is None:
        return null
    return json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)
