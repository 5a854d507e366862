"""`acked matrix`: scenario × version × mode, as the table to look at before an upgrade."""

from __future__ import annotations

import fnmatch
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from harness.console import Progress
from harness.errors import UsageError
from harness.kafka.versions import version_key
from harness.run.catalogue import all_scenarios
from harness.run.matrix import (
    CellResult,
    default_parallel,
    plan,
    run_cells,
    summary,
    versions_of,
    worst,
)
from harness.scenario import Scenario

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
        str, typer.Option(help="Kafka versions, comma-separated; the scenarios' own by default.")
    ] = "",
    modes: Annotated[
        str, typer.Option(help="Metadata modes, comma-separated; the scenarios' own by default.")
    ] = "",
    parallel: Annotated[int, typer.Option(help="Clusters side by side; 0: as the machine allows.")] = 0,
    lab: Annotated[str, typer.Option(help="Where hosts live: embedded (no daemon) or compose.")] = "embedded",
    runs: Annotated[Path, typer.Option(help="Folder that run folders are made in.")] = Path("runs"),
    force: Annotated[bool, typer.Option(help="Try versions that are not known.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Run scenarios on several Kafka versions and show verdicts with lost and duplicated messages.

    The table is also kept as Markdown and JSON in the folder `matrix` of the run folders. Exit code: that
    of the worst cell.
    """
    from checkers.judge import VERDICTS
    from harness.run.session import prepare

    wanted = tuple(mode.strip() for mode in modes.split(",") if mode.strip())
    chosen = select(names or [])
    cells = plan(chosen, versions_of(versions, force=force), wanted)
    progress = Progress(quiet=as_json)
    for version in sorted({cell.version for cell in cells}, key=version_key):
        one = next(cell for cell in cells if cell.version == version)
        scenario = next(entry for entry in chosen if entry.name == one.scenario)
        prepare(scenario, lab=lab, kafka=version, mode=one.mode, force=force)
    progress.say(f"{len(cells)} runs, {parallel or default_parallel()} side by side")
    results = list(run_cells(cells, runs, parallel=parallel or default_parallel(), lab=lab, say=progress.say))
    where = keep(results, runs)
    if as_json:
        typer.echo(json.dumps([_row(result) for result in results], indent=2))
    else:
        show(results)
        progress.say(f"kept in {where}")
    raise typer.Exit(VERDICTS[worst(results)])


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


def _rows(results: list[CellResult]) -> tuple[list[str], list[tuple[str, str, dict[str, CellResult]]]]:
    """Versions, and for each scenario and mode its cells by version."""
    versions = sorted({result.cell.version for result in results}, key=version_key)
    rows: dict[tuple[str, str], dict[str, CellResult]] = {}
    for result in results:
        key = (result.cell.scenario, result.cell.mode)
        rows.setdefault(key, {})[result.cell.version] = result
    return versions, [(name, mode, rows[(name, mode)]) for name, mode in sorted(rows)]


def show(results: list[CellResult]) -> None:
    """The table on the terminal; below it, why cells are not as declared."""
    versions, rows = _rows(results)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("scenario", "mode", *versions):
        table.add_column(heading, no_wrap=True)
    for name, mode, cells in rows:
        texts = [
            f"[{_STYLES.get(cells[version].verdict, 'red')}]{_short(cells[version])}[/]"
            if version in cells
            else "–"
            for version in versions
        ]
        table.add_row(name, mode, *texts)
    console.print(table)
    console.print("[dim]✓ as declared, ✗ violated, ? unknown; counts are messages[/dim]")
    for result in results:
        if result.verdict != "as declared":
            told = result.reasons[:1] if result.verdict in ("crashed", "invalid") else result.reasons
            console.print(f"{result.cell}: {'; '.join(told)}", markup=False)


def _short(result: CellResult) -> str:
    sign = _SIGNS.get(result.verdict)
    if sign is None:
        return result.verdict
    counts = [f"{result.lost} lost"] if result.lost else []
    counts += [f"{result.duplicated} duplicated"] if result.duplicated else []
    return f"{sign} {', '.join(counts)}".strip()


def keep(results: list[CellResult], runs: Path) -> Path:
    """Write the table as `matrix.md` and `matrix.json`; returns their folder."""
    folder = runs / "matrix" / datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    folder.mkdir(parents=True, exist_ok=True)
    versions, rows = _rows(results)
    lines = [
        "| scenario | mode | " + " | ".join(versions) + " |",
        "|---|---|" + "---|" * len(versions),
    ]
    for name, mode, cells in rows:
        texts = [summary(cells[version]) if version in cells else "–" for version in versions]
        lines.append(f"| {name} | {mode} | " + " | ".join(texts) + " |")
    (folder / "matrix.md").write_text("\n".join(lines) + "\n")
    (folder / "matrix.json").write_text(json.dumps([_row(result) for result in results], indent=2) + "\n")
    return folder


def _row(result: CellResult) -> dict[str, object]:
    row = asdict(result)
    return {**row.pop("cell"), **row, "folder": str(result.folder)}
