"""`acked compare`: two stored runs beside each other."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

_WIDTH_IN_A_FILE = 160


def compare(
    one: Annotated[Path, typer.Argument(help="A judged run folder.")],
    other: Annotated[Path, typer.Argument(help="Another one, for example of another Kafka version.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare two judged runs: claims, fates, findings, time to a new leader, steps, settings.

    The runs are aligned by the marks of the scenario. Nothing is judged again; the exit code is 0.
    """
    from report.comparison import show_comparison
    from report.model.compare import compare as compare_models
    from report.model.gather import report_model

    found = compare_models(report_model(one), report_model(other))
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=2))
        return
    show_comparison(found, Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH_IN_A_FILE))
