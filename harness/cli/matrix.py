"""`acked matrix`: scenario × version × mode, as the table to look at before an upgrade."""

from __future__ import annotations

import fnmatch
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from checkers.verdict import NOT_JUDGED
from harness.console import Progress
from harness.errors import UsageError
from harness.run.catalogue import all_scenarios
from harness.scenario import Scenario
from harness.series.pool import SIDE_BY_SIDE, column_key, plan, versions_of
from harness.series.rows import Row, by_key, remaining, span, verdicts, worst
from harness.series.series import Series, run_series

_STYLES = {"as declared": "green", "violated": "red", "unknown": "yellow"}
_SIGNS = {"as declared": "✓", "violated": "✗", "unknown": "?"}
_WIDE = 200
"""Columns of the table where no terminal says how wide it is."""


def matrix(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Scenarios or globs; without any, those that show how versions differ."),
    ] = None,
    versions: Annotated[
        str,
        typer.Option(
            help="Kafka versions, comma-separated; the scenarios' own by default; 2.7.1@2.6 for protocol 2.6."
        ),
    ] = "",
    modes: Annotated[
        str, typer.Option(help="Metadata modes, comma-separated; the scenarios' own by default.")
    ] = "",
    parallel: Annotated[int, typer.Option(help="Clusters side by side; 0: as the machine allows.")] = 0,
    lab: Annotated[str, typer.Option(help="Where hosts live: embedded (no daemon) or compose.")] = "embedded",
    runs: Annotated[Path, typer.Option(help="Folder that run folders are made in.")] = Path("runs"),
    force: Annotated[bool, typer.Option(help="Try versions that are not known.")] = False,
    repeat: Annotated[int, typer.Option(help="Run each cell so often.")] = 1,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with an interrupted matrix: its folder, runs/matrix/<time>.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Run scenarios on several Kafka versions and show verdicts with lost and duplicated messages.

    The table is also kept as Markdown and JSON in the folder `matrix` of the run folders, with a line per
    run in `runs.jsonl`, also if it is interrupted. Exit code: that of the worst cell.
    """
    from checkers.verdict import VERDICTS
    from harness.run.session import prepare

    wanted = tuple(mode.strip() for mode in modes.split(",") if mode.strip())
    chosen = select(names or [])
    cells = plan(chosen, versions_of(versions, force=force), wanted, repeat)
    progress = Progress(quiet=as_json)
    for version in sorted({cell.version for cell in cells}, key=column_key):
        one = next(cell for cell in cells if cell.version == version)
        scenario = next(entry for entry in chosen if entry.name == one.scenario)
        prepare(scenario, lab=lab, kafka=version, mode=one.mode, force=force)
    series = Series.begin(runs, "matrix", resume)
    left = remaining(cells, series.rows)
    side_by_side = parallel or SIDE_BY_SIDE
    progress.say(f"{len(left)} runs, {side_by_side} side by side; a line for each in {series.file}")
    interrupted = False
    try:
        run_series(left, series, parallel=side_by_side, lab=lab, runs=runs, say=progress.say)
    except KeyboardInterrupt:
        interrupted = True
    rows = series.rows
    if rows:
        keep(rows, series.folder)
    series.close()
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
    elif rows:
        show(rows)
        progress.say(f"kept in {series.folder}")
    if interrupted:
        raise series.stopped(len(rows), len(cells))
    raise typer.Exit(VERDICTS[worst(rows)])


def select(names: list[str]) -> list[Scenario]:
    """Scenarios that names or globs mean. Raises UsageError for one that means none."""
    known = all_scenarios()
    if not names:
        return [scenario for scenario in known.values() if scenario.versions]
    chosen: dict[str, Scenario] = {}
    for name in names:
        found = fnmatch.filter(known, name)
        if not found:
            raise UsageError(f"No scenario is called {name!r}; `acked list` shows them all.")
        chosen |= {one: known[one] for one in found}
    return list(chosen.values())


def _grid(rows: list[Row]) -> tuple[list[str], list[tuple[str, str, dict[str, list[Row]]]]]:
    """Versions, and for each scenario and mode its runs by version."""
    versions = sorted({row.version for row in rows}, key=column_key)
    lines: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for (name, version, mode), ran in by_key(rows).items():
        lines.setdefault((name, mode), {})[version] = ran
    return versions, [(name, mode, lines[(name, mode)]) for name, mode in sorted(lines)]


def show(rows: list[Row]) -> None:
    """The table on the terminal; below it, why cells are not as declared."""
    versions, lines = _grid(rows)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("scenario", "mode", *versions):
        table.add_column(heading, no_wrap=True)
    for name, mode, cells in lines:
        texts = [
            f"[{_STYLES.get(worst(cells[version]), 'red')}]{_short(cells[version])}[/]"
            if version in cells
            else "–"
            for version in versions
        ]
        table.add_row(name, mode, *texts)
    console.print(table)
    console.print("[dim]✓ as declared, ✗ violated, ? unknown; counts are messages[/dim]")
    for row in rows:
        if row.verdict != "as declared":
            told = row.reasons[:1] if row.verdict in NOT_JUDGED else row.reasons
            console.print(f"{row.scenario} on {row.version} {row.mode}: {'; '.join(told)}", markup=False)


def _short(ran: list[Row]) -> str:
    if len(ran) == 1:
        sign = _SIGNS.get(ran[0].verdict)
        return f"{sign} {', '.join(_counts(ran))}".strip() if sign else ran[0].verdict
    told = verdicts(ran, len(ran))
    for verdict, sign in _SIGNS.items():
        told = told.replace(verdict, sign)
    return ", ".join((told, *_counts(ran)))


def _counts(ran: list[Row]) -> list[str]:
    judged = [row for row in ran if row.verdict not in NOT_JUDGED]
    lost, duplicated = [row.lost for row in judged], [row.duplicated for row in judged]
    counts = [f"{span(lost)} lost"] if any(lost) else []
    return counts + ([f"{span(duplicated)} duplicated"] if any(duplicated) else [])


def _long(ran: list[Row]) -> str:
    told = verdicts(ran, len(ran))
    if all(row.verdict in NOT_JUDGED for row in ran):
        return told
    return f"{told}, {', '.join(_counts(ran)) or 'nothing lost'}"


def keep(rows: list[Row], folder: Path) -> None:
    """Write the table as `matrix.md` and `matrix.json`."""
    versions, grid = _grid(rows)
    lines = [
        "| scenario | mode | " + " | ".join(versions) + " |",
        "|---|---|" + "---|" * len(versions),
    ]
    for name, mode, cells in grid:
        texts = [_long(cells[version]) if version in cells else "–" for version in versions]
        lines.append(f"| {name} | {mode} | " + " | ".join(texts) + " |")
    (folder / "matrix.md").write_text("\n".join(lines) + "\n")
    (folder / "matrix.json").write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
