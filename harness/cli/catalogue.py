"""`acked list`: the scenarios of the catalogue."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from harness.run.catalogue import all_scenarios

_WIDTH_IN_A_FILE = 180


def list_scenarios(
    as_json: Annotated[bool, typer.Option("--json", help="Print the scenarios as a JSON array.")] = False,
    verbose: Annotated[bool, typer.Option("--claims", help="Also show the claims of each scenario.")] = False,
) -> None:
    """List the scenarios with their article, faults, Kafka version and expected outcome."""
    known = all_scenarios().values()
    if as_json:
        rows = [
            {
                "name": scenario.name,
                "title": scenario.title,
                "faults": list(scenario.faults),
                "kafka": scenario.kafka,
                "mode": scenario.mode,
                "modes": list(scenario.supported_modes),
                "outcome": scenario.outcome,
                **scenario.declared(),
            }
            for scenario in known
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("scenario", no_wrap=True)
    for heading in ("article", "faults", "kafka", "expected outcome"):
        table.add_column(heading, overflow="fold")
    for scenario in known:
        where = f"{scenario.article} §{scenario.section}" if scenario.section else scenario.article
        kafka = scenario.kafka if scenario.mode == "zookeeper" else f"{scenario.kafka} {scenario.mode}"
        table.add_row(scenario.name, where, ", ".join(scenario.faults), kafka, scenario.outcome)
        if verbose:
            for claim in scenario.claims:
                table.add_row("", claim.section, "", "", f"• {claim.says}")
    console = Console(highlight=False)
    console.width = console.width if console.is_terminal else _WIDTH_IN_A_FILE
    console.print(table)
