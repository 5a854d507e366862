"""Arguments and options that several commands share: one name, one help text and one check for each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.errors import UsageError

LAB = "embedded"
RUNS = Path("runs")


def folder(text: str | Path) -> Path:
    """A folder named on the command line. Raises UsageError for an empty name, which is often a slip."""
    if not str(text).strip():
        raise UsageError("A folder's name is empty; leave the option out or name a folder.")
    return Path(text)


ScenarioName = Annotated[str, typer.Argument(help="Name of a scenario, as `acked list` shows it.")]
Lab = Annotated[str, typer.Option(help="Where the hosts run: embedded (no daemon) or compose.")]
Runs = Annotated[Path, typer.Option(parser=folder, metavar="<path>", help="Folder for run folders.")]
Force = Annotated[bool, typer.Option("--force", help="Accept a Kafka version that was never tried.")]
Repeat = Annotated[int, typer.Option(min=1, help="Number of runs of each.")]
Parallel = Annotated[
    int,
    typer.Option(
        min=0, help="Number of clusters to run side by side; 0: three, or fewer if the machine is small."
    ),
]
