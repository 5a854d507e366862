"""`acked export`: a stored run as a history that Jepsen's tools read."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from harness.console import Console, echo
from harness.errors import BadDataError, UsageError


def export(
    run: Annotated[Path, typer.Argument(help="A run folder, or a folder of imported tables.")],
    to: Annotated[Path, typer.Option("--to", help="File to write; .edn or .json decides the form.")],
    final_log: Annotated[
        bool, typer.Option(help="Append polls of the final log, as those of one more process.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a stored history in the form of Jepsen's Kafka workload, as described in docs/analysis.md.

    A key stands for a topic partition; a value stands for a message: writer * 10^12 + seq.
    """
    if to.suffix not in (".edn", ".json"):
        raise UsageError(f"{to} ends in {to.suffix or 'nothing'!r}; exports are .edn or .json files.")
    if not run.is_dir():
        raise BadDataError(f"{run} does not exist, so there is nothing to export; `ls runs` shows the runs.")
    from checkers.ask.jepsen.export import export as write

    done = write(run, to, final_log=final_log)
    if as_json:
        echo(json.dumps({"file": str(to), **asdict(done)}, indent=2))
        return
    console = Console(highlight=False)
    keys = ", ".join(f"{key} is {name}" for name, key in done.keys.items())
    console.paragraph(
        escape(f"{to}: {done.operations} operations ({done.sends} sends, {done.polls} polls). Keys: {keys}.")
    )
    left_out = {
        "that nobody sent": done.foreign,
        "read from another partition than they were sent to": done.misrouted,
        "of aborted transactions": done.aborted,
    }
    for which, count in left_out.items():
        if count:
            console.paragraph(f"[yellow]Left out: {count} records {which}.[/]")
