"""`acked check`: judge stored runs again, without any cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.pages import add_page
from harness.console import Console, echo
from harness.errors import EXIT_AS_DECLARED, EXIT_VIOLATED, UsageError

if TYPE_CHECKING:
    from checkers.control import ControlResult
    from checkers.verdict import Judgement


def check(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Run folders, for example runs/<scenario>/latest, or URIs of some (s3://…, hdfs://…)."
        ),
    ] = None,
    imported: Annotated[
        str | None,
        typer.Option(
            "--import", help="A folder (or URI) with sends.parquet and copies.parquet of another program."
        ),
    ] = None,
    master: Annotated[
        str,
        typer.Option(
            help="Judge on a Spark cluster that reaches the folders, for example spark://HOST:7077."
        ),
    ] = "",
    control: Annotated[
        str,
        typer.Option(
            help="Judge with observations removed, and list the claims that still hold (exit code 1 if any "
            "do). silence: no send and no observation; deaf: none after the first fault began."
        ),
    ] = "",
    by: Annotated[
        str,
        typer.Option(
            "--claims",
            help="Judge by the claims that this scenario declares now (a name, or a file such as "
            "./my_case.py), instead of those that the run recorded.",
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the judgement as JSON.")] = False,
) -> None:
    """Judge one or many stored runs by Spark alone. The worst verdict gives the exit code.

    A run is judged by its own `claims.json`: what its scenario declared when it
    ran, wherever that scenario came from. With --claims or --control nothing is
    written to the run folder.
    """
    from studies.series.rejudge import judge_by, judge_folders, judge_imported, run_controls

    if control and (imported is not None or master):
        raise UsageError("--control judges run folders on this machine, without --import and --master.")
    if by and (imported is not None or master or control):
        raise UsageError(
            "--claims judges run folders on this machine, without --import, --master and --control."
        )
    if imported is not None:
        raise typer.Exit(_print([judge_imported(imported, master=master)], as_json=as_json))
    if not runs:
        raise UsageError("Name a run to judge, for example `acked check runs/<scenario>/latest`.")
    if by:
        raise typer.Exit(_print(judge_by(runs, by), as_json=as_json))
    if control:
        raise typer.Exit(_print_controls(run_controls(runs, control), as_json=as_json))
    judgements = judge_folders(runs, master=master)
    for folder in map(Path, runs):
        if (folder / "report.html").exists():  # it shows the previous judgement
            add_page(folder, lambda text: echo(text, err=True))
    raise typer.Exit(_print(judgements, as_json=as_json))


def _print(judgements: Sequence[Judgement], *, as_json: bool) -> int:
    """Print judgements; returns the exit code of the worst verdict."""
    from checkers.verdict import VERDICTS, worst
    from report import terminal
    from report.model.blocked import blocked_in
    from report.model.judged import judged_model

    shown = [judgement.as_json() for judgement in judgements]
    if as_json:
        echo(json.dumps(shown[0] if len(shown) == 1 else shown, indent=2, default=str))
    else:
        for one in shown:
            terminal.show(judged_model(one), blocked=blocked_in(str(one.get("run") or "")))
    return VERDICTS[worst(judgement.verdict for judgement in judgements)]


def _print_controls(results: Sequence[ControlResult], *, as_json: bool) -> int:
    """Print the results of a control; returns 1 if any claim holds under it, else 0."""
    from report.control import show_controls

    held = [claim for result in results for claim in result.held]
    totals = {
        "runs": len(results),
        "skipped": sum(bool(result.skipped) for result in results),
        "claims": sum(result.claims for result in results),
        "confirmed": sum(claim.by == "confirmed" for claim in held),
        "errata": sum(claim.by == "erratum" for claim in held),
    }
    shown: list[dict[str, Any]] = [result.as_json() for result in results]
    if as_json:
        echo(json.dumps({**totals, "results": shown}, indent=2, default=str))
    else:
        show_controls(shown, totals, Console(highlight=False))
    return EXIT_VIOLATED if held else EXIT_AS_DECLARED
