"""`acked check`: judge stored runs again, without any cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.errors import UsageError


def check(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Run folders, for example runs/<scenario>/latest, or URIs of some (hdfs://…)."),
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
    plan: Annotated[
        str, typer.Option(help="fast, general (any layout, any file system), or auto: fast where it serves.")
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the judgement as JSON.")] = False,
) -> None:
    """Judge one or many stored runs by Spark alone. The worst verdict gives the exit code."""
    from harness.series.rejudge import judge_folders, judge_imported

    if imported is not None:
        raise typer.Exit(judge_imported(imported, as_json=as_json, master=master, plan=plan))
    if not runs:
        raise UsageError("Say which run to judge, for example `acked check runs/<scenario>/latest`.")
    raise typer.Exit(judge_folders(runs, as_json=as_json, master=master, plan=plan))
