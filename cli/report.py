"""`acked report`: the report of a stored run or series, as a page, Markdown, JUnit XML or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.console import echo
from harness.errors import UsageError
from harness.plain_files import write_output, write_plain


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
        bool, typer.Option("--json", help="Write the report as JSON instead: all that the page shows.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Write the report as Markdown instead.")
    ] = False,
    junit: Annotated[
        bool, typer.Option("--junit", help="Write JUnit XML instead: a test for each claim.")
    ] = False,
) -> None:
    """Write the page of a judged run: what happened, who believed what, the logs, the claims, the findings.

    The page is one HTML file that needs no network. Nothing is judged again. A series
    (a night, an assessment, a search and so on) has a page of its own kind.

    JSON, Markdown and JUnit XML are printed, unless --output names a file.
    """
    forms = {"--json": as_json, "--markdown": markdown, "--junit": junit}
    chosen = [name for name, enabled in forms.items() if enabled]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} are two forms of one report; give one of them.")
    if chosen and open_page:
        raise UsageError(f"{chosen[0]} writes no page that --open could show; leave out one of them.")
    from studies.browse.pages import is_series

    series = is_series(run)
    try:
        if chosen:
            text = _series(run, chosen[0], output) if series else _document(run, chosen[0])
            if output is None:
                echo(text, nl=False)
            else:
                write_output(output, text, "--output")
        elif series:
            _index(run, output, open_page=open_page)
        else:
            from report.page.write import write_page

            show(write_page(run, output).resolve(), open_page=open_page)
    except OSError as error:
        where = output or run
        raise UsageError(
            f"The report cannot be written to {where} ({error.strerror}); name a file with --output."
        ) from error


def _document(run: Path, form: str) -> str:
    """The report of a run in the form that an option names."""
    from report.junit import run_junit
    from report.markdown import run_markdown
    from report.model.gather import report_model

    model = report_model(run)
    if form == "--json":
        return json.dumps(model.as_json(), indent=1) + "\n"
    return run_markdown(model) if form == "--markdown" else run_junit(model)


def _series(folder: Path, form: str, output: Path | None) -> str:
    """The same of a series. Its links are relative to ``output``, or to its own folder."""
    from cli.pages import INDEX, page_links
    from studies.browse.pages import series_document

    return series_document(folder, form.removeprefix("--"), page_links(output or folder / INDEX))


def show(file: Path, *, open_page: bool) -> None:
    """Name a page, and open it in the browser if that is wanted."""
    echo(f"Page: {file}")
    if open_page:
        import webbrowser

        webbrowser.open(file.as_uri())


def _index(series: Path, output: Path | None, *, open_page: bool) -> None:
    from cli.pages import INDEX, page_links
    from studies.browse.pages import series_page

    file = output or series / INDEX
    text = series_page(series, page_links(file))
    if output is None:
        write_plain(file, text)
    else:
        write_output(output, text, "--output")
    show(file.resolve(), open_page=open_page)
