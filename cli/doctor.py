"""`acked doctor`: what this machine can run, what is missing, and how to get it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.text import Text

from harness.console import Console, echo
from harness.doctor import Check, diagnose, kafka_home, missing_for
from harness.errors import EXIT_UNFIT
from harness.lab.registry import names
from report.console import Column, RowTable


def doctor(
    home: Annotated[
        Path | None,
        typer.Option(
            "--kafka-home",
            metavar="<path>",
            help="Also check that this folder of a Kafka release, or of your own build, is complete.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Check what runs need on this machine, and say how to get it.

    Every check tries the real thing, in temporary namespaces; nothing on the
    machine is changed.

    Exit code: 0 if at least one lab can run here and the folder of
    --kafka-home, if given, is complete; 3 otherwise.
    """
    checks = diagnose()
    if home is not None:
        checks.append(kafka_home(home.expanduser()))
    missing = {lab: missing_for(lab, checks) for lab in names()}
    labs = {lab: not lacking for lab, lacking in missing.items()}
    if as_json:
        echo(json.dumps({"labs": labs, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        _show(checks, missing)
    fit = any(labs.values()) and (home is None or checks[-1].ok)
    raise typer.Exit(0 if fit else EXIT_UNFIT)


def _show(checks: list[Check], missing: dict[str, list[str]]) -> None:
    console = Console(highlight=False)
    columns = (
        Column(heading="check"),
        Column(heading="ok"),
        Column(heading="found", prose=True),
        Column(heading="needed for", prose=True),
    )
    rows = [
        (check.name, Text("ok", "green") if check.ok else Text("no", "red"), check.found, check.needed_for)
        for check in checks
    ]
    RowTable(columns=columns, rows=rows).show(console)
    console.print()
    for check in checks:
        if not check.ok and check.remedy:
            console.paragraph(escape(check.remedy), lead=f"{escape(check.name)}: ")
    for lab, lacking in missing.items():
        verdict = f"[red]cannot run here[/]: {', '.join(lacking)}" if lacking else "[green]can run here[/]"
        console.paragraph(verdict, lead=f"{lab} lab: ")
