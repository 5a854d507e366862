"""`acked sql`: free SQL over stored runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from harness.console import Console, echo
from harness.errors import UsageError


def sql(
    text: Annotated[str, typer.Argument(metavar="QUERY", help="One SELECT statement, in Spark SQL.")],
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Run folders, imported folders, or folders of runs.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Rows to show at most; 0 shows all.", min=0, max=10**9)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Query stored runs: all tables of all runs, told apart by the column `run`.

    Tables are those of docs/history.md, and `life` and `findings` of judged runs. Views answer the common
    questions: `lost`, `availability` (per second and AZ), `latency`, `leaders`, `timeline`, `truth`. Only
    queries are run; other statements are refused.

    acked sql "select az, sum(sent), sum(ok) from availability group by az" runs/leader-az-isolated/latest
    """
    if not runs:
        raise UsageError(
            'Name the runs to query, for example `acked sql "select * from lost" runs/*/latest`.'
        )
    from checkers.ask.sql import query, run_folders
    from checkers.spark.session import start_session

    folders = run_folders(runs)
    columns, rows = query(start_session(), text, folders, limit + 1 if limit else None)
    more = bool(limit) and len(rows) > limit
    rows = rows[:limit] if limit else rows
    if as_json:
        echo(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=2, default=str))
    else:
        _show(columns, rows)
    if more:
        note = f"There are more than {limit} rows; --limit 0 shows all."
        Console(stderr=True, highlight=False).print(note, style="dim")


def _show(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table, or one block of lines per row where the terminal is too narrow for it."""
    console = Console(highlight=False)
    cells = [[_cell(value) for value in row] for row in rows]
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


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)
