"""`acked story`: what became of one message or transaction, and when."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from harness.console import echo, tell
from run.folder import RunFolder


def story(
    message: Annotated[
        str,
        typer.Argument(
            help="Its label, topic/label, or writer/seq: c, t/c, 5/0; or a transaction, txn:WRITER/NUMBER."
        ),
    ],
    run: Annotated[Path, typer.Argument(help="A judged run folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines as a JSON array.")] = False,
) -> None:
    """Tell what happened to one message: who acknowledged it, where it appeared and vanished, and why.

    Or what happened to one transaction: its messages, the end that its producer asked for, the answer, the
    markers that decided it, and its readers.

    acked story c runs/leader-az-isolated/latest
    """
    from checkers.ask.story import story as story_of
    from checkers.spark.session import start_session
    from report.words.causes import cause_of

    lines = story_of(start_session(), RunFolder.open(run).path, message, cause_of)
    if as_json:
        echo(json.dumps(lines, indent=2))
        return
    for line in lines:
        *time, text = re.split(r"(?<=\S)(\s{2,})", line, maxsplit=1)
        tell(text, lead="".join(time))
