"""`acked bisect`: the first Kafka version in which a claim turns out differently."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from harness.console import Progress
from harness.errors import EXIT_AS_DECLARED, EXIT_UNKNOWN
from harness.run.catalogue import find
from harness.series.bisect import candidates, search
from harness.series.cell import Cell, run_cell
from harness.series.pool import CellResult, judge_cell, versions_of


def bisect(
    name: Annotated[str, typer.Argument(help="Scenario, as `acked list` names it.")],
    claim: Annotated[str, typer.Option(help="Claim, as `acked list --json` names it.")],
    versions: Annotated[
        str, typer.Option(help="Kafka versions, comma-separated; the scenario's own by default.")
    ] = "",
    mode: Annotated[
        str, typer.Option(help="zookeeper, kraft or kraft-combined; the scenario's own by default.")
    ] = "",
    lab: Annotated[str, typer.Option(help="Where hosts live: embedded (no daemon) or compose.")] = "embedded",
    runs: Annotated[Path, typer.Option(help="Folder that run folders are made in.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Find the first version in which a claim changes, with as few runs as halving takes.

    The claim's own words are judged, not its erratum. Exit code: 0 found, 2 the same at both ends.
    """
    from checkers.spark.session import start_session
    from harness.run.session import prepare

    scenario = find(name)
    wanted_mode = mode or scenario.mode
    found = candidates(scenario, claim, versions_of(versions), wanted_mode)
    for version in found:
        prepare(scenario, lab=lab, kafka=version.label, mode=wanted_mode)
    progress = Progress(quiet=as_json)
    session = start_session()

    def run(version: str) -> CellResult:
        progress.say(f"running {name} on {version} {wanted_mode}")
        result = judge_cell(session, run_cell(Cell(name, version, wanted_mode), runs, lab))
        status = result.claims.get(claim, "missing")
        progress.say(f"{version}: {claim} is {status} ({result.observed.get(claim, '')})")
        return result

    answer = search(claim, [version.label for version in found], run)
    if as_json:
        typer.echo(json.dumps(asdict(answer), indent=2))
    else:
        typer.echo(answer.sentence())
    raise typer.Exit(EXIT_AS_DECLARED if answer.first else EXIT_UNKNOWN)
