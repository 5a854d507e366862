"""`acked list` shows the scenarios; `acked new` writes a first scenario of your own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from harness.console import echo
from harness.errors import UsageError
from report.console import table_console

_TEMPLATE = Path(__file__).with_name("new_scenario.py.txt")


def list_scenarios(
    names: Annotated[
        list[str] | None, typer.Argument(help="Scenarios, globs, or scenario files. Default: all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scenarios as a JSON array.")] = False,
    verbose: Annotated[bool, typer.Option("--claims", help="Also show the claims of each scenario.")] = False,
) -> None:
    """List the scenarios with their article, faults, Kafka version and expected outcome."""
    from run.catalogue import known_scenarios, select

    selected = select(names) if names else list(known_scenarios().values())
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
            for scenario in selected
        ]
        echo(json.dumps(rows, indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("scenario", no_wrap=True)
    for heading in ("article", "faults", "kafka", "expected outcome"):
        table.add_column(heading, overflow="fold")
    for scenario in selected:
        where = f"{scenario.article} §{scenario.section}" if scenario.section else scenario.article
        kafka = scenario.kafka if scenario.mode == "zookeeper" else f"{scenario.kafka} {scenario.mode}"
        table.add_row(scenario.name, where, ", ".join(scenario.faults), kafka, scenario.outcome)
        if verbose:
            for claim in scenario.claims:
                table.add_row("", claim.section, "", "", f"• {claim.says}")
    table_console(180).print(table)


def new(
    name: Annotated[
        str, typer.Argument(help="Name of the scenario: lower-case words with hyphens, such as my-case.")
    ],
) -> None:
    """Write a first scenario of your own: a short file that runs as it is.

    The file is written into the current folder: `acked new my-case` writes
    `my_case.py`, and `acked run ./my_case.py` runs it.
    """
    from run.declaration import NAME

    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a name for a scenario; use lower-case words with hyphens, such as my-case."
        )
    from run.catalogue import known_scenarios

    if name in known_scenarios():
        raise UsageError(f"There is a scenario {name!r} already; choose another name.")
    file = Path(f"{name.replace('-', '_')}.py")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(_TEMPLATE.read_text(encoding="utf-8").replace("NAME", name))
    except FileExistsError:
        raise UsageError(f"{file} exists already; choose another name.") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written ({error.strerror}); change to another folder.") from None
    echo(f"{file} is written; run it with: acked run ./{file}")
