"""`acked compare`: two stored runs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.console import Console, echo
from harness.plain_files import write_output


def compare(
    one: Annotated[Path, typer.Argument(help="A judged run folder.")],
    other: Annotated[Path, typer.Argument(help="Another one, for example of another Kafka version.")],
    html: Annotated[
        Path | None, typer.Option(help="Write the comparison as a page, with the timelines of both runs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare two judged runs: claims, fates, findings, time to a new leader, steps, settings.

    The runs are aligned by the marks of the scenario. Nothing is judged again; the exit code is 0.
    """
    from report.comparison import show_comparison
    from report.model.compare import compare as compare_models
    from report.model.gather import report_model

    models = report_model(one), report_model(other)
    comparison = compare_models(*models)
    if html is not None:
        from report.page.comparison import comparison_page

        write_output(html, comparison_page(comparison, *models), "--html")
        echo(f"Page: {html.resolve()}", err=as_json)
    if as_json:
        echo(json.dumps(comparison.as_json(), indent=2))
        return
    show_comparison(comparison, Console(highlight=False))
