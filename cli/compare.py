"""`acked compare`: two stored runs, or two assessments, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.pages import page_beside
from harness.console import Console, echo
from harness.errors import UsageError
from harness.plain_files import write_output

if TYPE_CHECKING:
    from report.model.compare import RunComparison
    from report.model.compare_assessments import AssessmentComparison


def compare(
    one: Annotated[Path, typer.Argument(help="A judged run folder, or that of an assessment.")],
    other: Annotated[
        Path,
        typer.Argument(help="Another one, for example of another Kafka version, or with other settings."),
    ],
    html: Annotated[
        Path | None, typer.Option(help="Write the comparison as a page, with the pictures of both.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare two judged runs, or two assessments, as before and after a change of settings.

    Of runs: claims, fates, findings, time to a new leader, steps, settings, aligned by the marks of the
    scenario. Of assessments: which cells of the table changed, fault by fault.

    What the differences come to is said first. Nothing is judged again; the exit code is 0.
    """
    from report.comparison import show_comparison
    from report.model.shapes import ASSESSMENT

    assessments = [(folder / ASSESSMENT).is_file() for folder in (one, other)]
    if assessments[0] != assessments[1]:
        raise UsageError(
            f"{one if assessments[0] else other} is an assessment, and {other if assessments[0] else one} is "
            f"none; name two assessments or two runs."
        )
    comparison, page = (_assessments if all(assessments) else _runs)(one, other, html)
    if html is not None:
        write_output(html, page, "--html")
        echo(f"Page: {html.resolve()}", err=as_json)
    if as_json:
        echo(json.dumps(comparison.as_json(), indent=2))
        return
    show_comparison(comparison, Console(highlight=False))


def _runs(one: Path, other: Path, html: Path | None) -> tuple[RunComparison, str]:
    """The comparison of two runs, and its page if one is to be written."""
    from report.model.compare import compare as compare_models
    from report.model.gather import report_model
    from report.page.comparison import comparison_page

    models = report_model(one), report_model(other)
    comparison = compare_models(*models)
    if html is None:
        return comparison, ""
    return comparison, comparison_page(
        comparison, *models, (page_beside(html, one), page_beside(html, other))
    )


def _assessments(one: Path, other: Path, html: Path | None) -> tuple[AssessmentComparison, str]:
    """The same of two assessments."""
    from report.assessment import read_assessment
    from report.model.compare_assessments import compare_assessments
    from report.model.shapes import ASSESSMENT
    from report.page.comparison import assessments_page

    documents = read_assessment(one / ASSESSMENT), read_assessment(other / ASSESSMENT)
    comparison = compare_assessments(*documents, (str(one), str(other)))
    if html is None:
        return comparison, ""
    return comparison, assessments_page(
        comparison, *documents, (page_beside(html, one), page_beside(html, other))
    )
