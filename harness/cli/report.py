"""`acked report`: the page of a stored run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.errors import UsageError


def report(
    run: Annotated[
        Path,
        typer.Argument(help="A judged run folder (runs/<scenario>/latest) or a series (runs/all/<time>)."),
    ],
    output: Annotated[
        Path | None, typer.Option(help="File to write. Default: report.html in the run folder.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what the page shows as JSON, and write no page.")
    ] = False,
) -> None:
    """Write the page of a judged run: what happened, who believed what, the logs, the claims, the findings.

    The page is one HTML file that needs no network. Nothing is judged again. For a series, write its index.
    """
    if (run / "runs.jsonl").is_file():
        _index(run, output, open_page=open_page)
        return
    if as_json:
        from report.model.gather import report_model

        typer.echo(json.dumps(report_model(run).as_json(), indent=1))
        return
    from report.page.write import write_page

    try:
        file = write_page(run, output).resolve()
    except OSError as error:
        where = output or run
        raise UsageError(
            f"The page cannot be written to {where} ({error.strerror}); name a file with --output."
        ) from error
    show(file, open_page=open_page)


def show(file: Path, *, open_page: bool) -> None:
    """Name a page, and open it in the browser if that is wanted."""
    typer.echo(f"Page: {file}")
    if open_page:
        import webbrowser

        webbrowser.open(file.as_uri())


def _index(series: Path, output: Path | None, *, open_page: bool) -> None:
    from harness.cli.series import index
    from harness.series.folder import SeriesFolder

    folder = SeriesFolder(series)
    file = output or series / "index.html"
    file.write_text(index(folder, series.resolve().parent.parent), encoding="utf-8")
    show(file.resolve(), open_page=open_page)
