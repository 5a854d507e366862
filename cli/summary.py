"""`acked summary`: the results of several series, for the last job of a night."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from cli.options import Earlier, Index, Junit, SummaryOption
from cli.pages import page_links
from cli.series import read_runs, require_files
from harness.console import echo
from harness.errors import UsageError
from harness.plain_files import write_output
from studies.series.folder import PLANNED, SeriesFolder
from studies.series.summary import FILE, RunSummary


def summary(
    files: Annotated[list[Path], typer.Argument(help="`runs.jsonl` of series, or their folders.")],
    earlier: Earlier = None,
    junit: Junit = None,
    summary: SummaryOption = None,
    index: Index = None,
) -> None:
    """Summarize series that ran elsewhere, such as the shards of a night.

    Prints the summary as Markdown, unless --summary names a file for it.

    Exit code: that of the worst verdict.
    """
    from checkers.verdict import VERDICTS, worst
    from report import junit as xml
    from report.model.night import night_of
    from report.night import summary_markdown
    from studies.series.summary import flaky

    require_files(("--junit", junit), ("--summary", summary), ("--index", index))
    before = read_runs("--earlier", earlier or ())
    series = [_read(file) for file in files]
    runs = _each_once(run for one in series for run in located(one))
    missing = [job for one in series for job in one.not_run()]
    kinds = {one.kind for one in series}
    night = night_of(
        runs,
        flaky(runs),
        not_run=missing,
        earlier=before,
        kind=kinds.pop() if len(kinds) == 1 else "night",
        time=series[0].time if len(series) == 1 else "",
    )
    text = summary_markdown(night, link=page_links(summary or Path("summary.md")))
    if junit is not None:
        write_output(junit, xml.junit(night, link=page_links(junit)), "--junit")
    if index is not None:
        from report.page.index import index_page

        page = index_page(night, runs, page_links(index))
        write_output(index, page, "--index")
    if summary is not None:
        write_output(summary, text, "--summary")
    else:
        echo(text, nl=False)
    raise typer.Exit(VERDICTS[worst(run.verdict for run in runs)])


def _read(place: Path) -> SeriesFolder:
    """A series by its folder or its file. Raises UsageError, BadDataError."""
    folder = place if place.is_dir() else place.parent
    if not (place.is_file() or (folder / FILE).is_file() or (folder / PLANNED).is_file()):
        raise UsageError(f"FILES {place}: no such file; give a {FILE} or the folder of a series.")
    return SeriesFolder(folder, place.name if place.is_file() else FILE)


def located(series: SeriesFolder) -> list[RunSummary]:
    """The runs of a series that may have been moved here, with their run folders where these are now."""
    runs = series.path.parent.parent

    def now(folder: str) -> str:
        place = runs / Path(folder).parent.name / Path(folder).name
        return str(place) if folder and place.is_dir() else folder

    return [replace(run, folder=now(run.folder)) for run in series.runs]


def _each_once(runs: Iterable[RunSummary]) -> list[RunSummary]:
    """Oldest first."""
    distinct = {(run.job, run.folder, run.ended): run for run in runs}
    return sorted(distinct.values(), key=lambda run: run.ended)
