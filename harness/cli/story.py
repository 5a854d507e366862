"""`acked story`: what became of one message, in words and times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.run.folder import RunFolder


def story(
    message: Annotated[str, typer.Argument(help="Its label, topic/label, or writer/seq: c, t/c, 5/0.")],
    run: Annotated[Path, typer.Argument(help="A judged run folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines as a JSON array.")] = False,
) -> None:
    """Tell the story of one message: sent, by whom, where acknowledged, where it appeared and vanished, why.

    acked story c runs/leader-az-isolated/latest
    """
    from checkers.ask.story import story as told
    from checkers.spark.session import start_session

    lines = told(start_session(), RunFolder.open(run).path, message)
    typer.echo(json.dumps(lines, indent=2) if as_json else "\n".join(lines))
