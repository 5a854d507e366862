"""`acked summary`: what several series came to, for the last job of a night."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Earlier, Junit, Summary
from harness.cli.series import read_night, read_runs


def summary(
    files: Annotated[list[Path], typer.Argument(help="`runs.jsonl` of series, or their folders.")],
    earlier: Earlier = None,
    junit: Junit = None,
    summary: Summary = None,
) -> None:
    """Summarize series that ran elsewhere, such as the shards of a night.

    Prints the summary as Markdown, unless --summary names a file for it.

    Exit code: that of the worst verdict.
    """
    from checkers.verdict import VERDICTS, worst
    from harness.series.summary import flaky
    from report import junit as xml
    from report.night import summary_markdown

    night = read_night(junit=junit, summary=summary, earlier=earlier)
    runs = read_runs("FILES", files)
    text = summary_markdown(runs, flaky(runs), earlier=night.earlier)
    if junit is not None:
        junit.write_text(xml.junit(runs), encoding="utf-8")
    if summary is not None:
        summary.write_text(text, encoding="utf-8")
    else:
        typer.echo(text, nl=False)
    raise typer.Exit(VERDICTS[worst(run.verdict for run in runs)])
