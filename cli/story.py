"""`acked story`: what became of one message or transaction, and when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.console import Progress, echo, tell


def story(
    message: Annotated[
        str,
        typer.Argument(
            help="Its label, topic/label, or writer/seq: c, t/c, 5/0; or a transaction, txn:WRITER/NUMBER."
        ),
    ],
    run: Annotated[Path, typer.Argument(help="A judged run folder, or an imported one.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines as a JSON array.")] = False,
) -> None:
    """Tell what happened to one message: who acknowledged it, where it appeared and vanished, and why.

    Or what happened to one transaction: its messages, the end that its producer asked for, the answer, the
    markers that decided it, and its readers.

    acked story c runs/leader-az-isolated/latest
    """
    from checkers.ask.sql import one_run
    from checkers.ask.story import story as story_of
    from checkers.spark.session import start_session
    from report.words.causes import cause_of

    folder = one_run(run)
    with Progress().phase("spark", "Spark is starting"):
        session = start_session()
    lines = story_of(session, folder, message, cause_of)
    if as_json:
        echo(json.dumps([str(line) for line in lines], indent=2))
        return
    for line in lines:
        tell(line.text, lead=line.lead)
