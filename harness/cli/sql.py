"""`acked sql`: free SQL over stored runs."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.errors import BadDataError, UsageError


def sql(
    query: Annotated[str, typer.Argument(help="One SELECT statement, in Spark SQL.")],
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Run folders, imported folders, or folders of runs.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Rows to show at most; 0 shows all.", min=0)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Ask stored runs anything: all tables of all runs, told apart by the column `run`.

    Tables are those of docs/history.md, and `life` and `findings` of judged runs. Views answer the common
    questions: `lost`, `availability` (per second and AZ), `latency`, `leaders`, `timeline`, `truth`.

    acked sql "select az, sum(sent), sum(ok) from availability group by az" runs/leader-az-isolated/latest
    """
    if not runs:
        raise UsageError('Say which runs to ask, for example `acked sql "select * from lost" runs/*/latest`.')
    columns, rows = ask(query, run_folders(runs), limit + 1 if limit else None)
    more = bool(limit) and len(rows) > limit
    rows = rows[:limit] if limit else rows
    if as_json:
        typer.echo(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=2, default=str))
    else:
        _show(columns, rows)
    if more:
        note = f"There are more than {limit} rows; --limit 0 shows all."
        Console(stderr=True, highlight=False).print(note, style="dim")


def ask(query: str, folders: Sequence[Path], limit: int | None) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of a query. Raises UsageError when the SQL cannot be run."""
    from pyspark.errors import PySparkException

    from checkers.ask.questions import register_questions
    from checkers.ask.sql import register_runs
    from checkers.spark.session import start_session

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # we say it in one sentence
    session = start_session()
    names = sorted({*register_runs(session, folders), *register_questions(session)})
    try:
        frame = session.sql(query)
        found = [_plain(row) for row in (frame if limit is None else frame.limit(limit)).collect()]
        return list(frame.columns), found
    except PySparkException as error:
        raise UsageError(f"The SQL cannot be run: {_reason(error)} Tables are {', '.join(names)}.") from None


def run_folders(paths: Sequence[Path]) -> list[Path]:
    """The runs at or below ``paths``, each once. Raises BadDataError when there is none."""
    found: dict[Path, Path] = {}
    for path in paths:
        below = list(_below(path))
        if not below:
            raise BadDataError(f"{path} holds no history to ask; `ls runs` shows the runs.")
        for folder in below:
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def _below(path: Path) -> Iterator[Path]:
    for folder in (path, path / "history"):
        if (folder / "sends.parquet").exists() or (folder / "copies.parquet").exists():
            yield path
            return
    for manifest in sorted(path.rglob("run.json")):
        if (manifest.parent / "history" / "sends.parquet").exists():
            yield manifest.parent


def _plain(row: Any) -> tuple[Any, ...]:
    return tuple(row.asDict(recursive=True).values()) if len(set(row.__fields__)) == len(row) else tuple(row)


def _reason(error: Exception) -> str:
    """The first sentence of Spark's message, without its error class and position."""
    text = str(error).split("SQLSTATE")[0].strip().splitlines()
    first = re.sub(r"^\[[A-Z_.]+\]\s*", "", text[0] if text else "")
    sentence = re.split(r"(?<=[.!?])\s", first)[0].strip()
    return sentence if sentence.endswith((".", "!", "?")) else sentence + "."


def _show(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table; where a terminal is too narrow for it, one block of lines per row. Pipes get whole lines."""
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
