"""`acked check`: judge stored runs again, without any cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.errors import UsageError


def check(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Run folders, for example runs/<scenario>/latest.")
    ] = None,
    imported: Annotated[
        Path | None,
        typer.Option("--import", help="A folder with sends.parquet and copies.parquet of another program."),
    ] = None,
    master: Annotated[
        str,
        typer.Option(
            help="Judge on a Spark cluster that reaches the folders, for example spark://HOST:7077."
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the judgement as JSON.")] = False,
) -> None:
    """Judge one or many stored runs by Spark alone. The worst verdict gives the exit code."""
    from harness.run.rejudge import judge_folders, judge_imported

    if imported is not None:
        raise typer.Exit(judge_imported(imported, as_json=as_json, master=master))
    if not runs:
        raise UsageError("Say which run to judge, for example `acked check runs/<scenario>/latest`.")
    raise typer.Exit(judge_folders(runs, as_json=as_json, master=master))
