"""`acked runs` lists the stored runs; its subcommands open, compare and remove them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from cli.compare import compare
from cli.options import RUNS, Runs
from cli.report import report, show
from harness.console import Console, echo, tell
from harness.errors import UsageError
from report.console import NONE, Column, RowTable
from studies.series.summary import FILE

if TYPE_CHECKING:
    from studies.series.stored import StoredSeries

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

app = typer.Typer(
    help="List, open, compare or remove stored runs.", invoke_without_command=True, add_completion=False
)
app.command("compare")(compare)


@app.callback()
def list_runs(
    context: typer.Context,
    runs: Runs = RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the runs as a JSON array.")] = False,
) -> None:
    """List what is stored, newest first: nights, assessments, searches and other series, then single runs.

    `acked runs open RUN` shows one, `acked runs compare RUN RUN` compares two, `acked runs prune` removes
    old ones.
    """
    if context.invoked_subcommand is not None:
        return
    from studies.series.stored import stored_runs, stored_series

    stored = stored_runs(runs)
    if as_json:
        echo(json.dumps([asdict(run) for run in stored], indent=2, default=str))
        return
    series = stored_series(runs)
    if series:
        _list_series(series)
    if not stored:
        if not series:
            tell(f"There is no run in {runs}.")
        return
    columns = (
        *(Column(heading=heading) for heading in ("run", "Kafka", "mode", "verdict")),
        *(Column(heading=heading, right=True) for heading in ("lost", "size")),
    )
    rows = [
        (
            f"{run.folder.parent.name}/{run.folder.name}",
            run.kafka or NONE,
            run.mode or NONE,
            run.verdict or f"({run.status or 'not over'})",
            str(run.lost) if run.verdict else NONE,
            size_text(run.size_bytes),
        )
        for run in stored
    ]
    console = Console(highlight=False)
    RowTable(columns=columns, rows=rows).show(console)
    total = sum(run.size_bytes for run in stored)
    console.paragraph(escape(f"{len(stored)} runs, {size_text(total)}, in {runs}"))


def _list_series(series: Sequence[StoredSeries]) -> None:
    columns = (
        *(Column(heading=heading) for heading in ("series", "Kafka")),
        Column(heading="outcome", prose=True),
        *(Column(heading=heading, right=True) for heading in ("runs", "size")),
    )
    rows = []
    for one in series:
        runs = f"{one.ended} of {one.planned}" if one.ended < one.planned else str(one.ended)
        kafka = " ".join(filter(None, (one.kafka, one.mode))) or NONE
        counts = [f"{count} {name}" for name, count in one.outcomes.items()]
        outcome = ", ".join([one.verdict, *counts] if one.verdict else counts)
        rows.append(
            (f"{one.kind}/{one.folder.name}", kafka, outcome or NONE, runs, size_text(one.size_bytes))
        )
    console = Console(highlight=False)
    RowTable(columns=columns, rows=rows).show(console)
    console.print()


@app.command("open")
def open_run(
    run: Annotated[
        Path, typer.Argument(help="A run as the list names it, its folder, or a series (runs/all/<time>).")
    ],
    runs: Runs = RUNS,
) -> None:
    """Open the page of a run in the browser. If there is none yet, write it first."""
    if not run.exists() and (runs / run).exists():
        run = runs / run
    page = run / ("index.html" if (run / FILE).is_file() else "report.html")
    if page.is_file():
        show(page.resolve(), open_page=True)
    else:
        report(run, open_page=True)


@app.command("prune")
def prune(
    runs: Runs = RUNS,
    keep: Annotated[int, typer.Option(min=0, help="How many of each scenario's newest runs to keep.")] = 3,
    keep_failed: Annotated[
        bool, typer.Option("--keep-failed", help="Also keep runs that are not as declared.")
    ] = False,
    max_size: Annotated[
        str,
        typer.Option(
            help="Also remove runs, oldest first, until this size is left: 500M, 20G. The newest run of each "
            "scenario stays."
        ),
    ] = "",
    dry_run: Annotated[bool, typer.Option(help="List what would be removed, and remove nothing.")] = False,
) -> None:
    """Remove old runs. A run that may still be in progress is never removed."""
    from studies.series.stored import remove, stored_runs, to_remove

    limit = size_of(max_size) if max_size else None
    stored = stored_runs(runs)
    doomed = to_remove(stored, keep=keep, keep_failed=keep_failed, max_bytes=limit)
    for run in doomed:
        tell(f"{'would remove' if dry_run else 'remove'} {run.folder} ({size_text(run.size_bytes)})")
        if not dry_run:
            remove(run)
    freed = size_text(sum(run.size_bytes for run in doomed))
    verb = "would be removed" if dry_run else "removed"
    tell(f"{len(doomed)} of {len(stored)} runs {verb}, {freed}")


def size_of(text: str) -> int:
    """A size like `20G` in bytes. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d+)?)\s*([kMGT]?)B?", text.strip())
    if match is None:
        raise UsageError(f"--max-size {text}: give a size like 500M or 20G.")
    return int(float(match[1]) * _UNITS[match[2]])


def size_text(size_bytes: int) -> str:
    """A size for people."""
    for unit in ("T", "G", "M", "k"):
        if size_bytes >= _UNITS[unit]:
            return f"{size_bytes / _UNITS[unit]:.1f} {unit}B"
    return f"{size_bytes} B"
