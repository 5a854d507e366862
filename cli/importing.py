"""`acked import`: recordings of other programs as a folder that `acked check --import` judges."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Annotated

import typer

from harness.console import echo, tell
from harness.errors import UsageError, quoted


def import_(
    format_: Annotated[
        str, typer.Argument(metavar="FORMAT", help="Format of the recording, as docs/import.md describes it.")
    ],
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Files of the recording; BROKER=FILE is a text of kafka-dump-log."
        ),
    ],
    to: Annotated[Path, typer.Option("--to", help="New folder for the history's tables.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print what was read as JSON.")] = False,
) -> None:
    """Turn a recording of another program into a history, for `acked check --import`.

    FORMAT is jepsen, verifiable (Kafka's verifiable clients), kgo-verifier,
    openchaos, kafka-dump-log or columns (CSV or Parquet with a map). What a
    format does not tell stays unknown, and never counts as kept.
    """
    from checkers.judging.run import require_judgeable
    from harness.history.imports.format import GivenFile
    from harness.history.imports.formats import FORMATS
    from harness.history.imports.recording import require_new

    form = FORMATS.get(format_)
    if form is None:
        near = difflib.get_close_matches(format_, FORMATS, n=1, cutoff=0.5)
        meant = f"did you mean {near[0]}? There" if near else "there"
        raise UsageError(f"No format is called {quoted(format_)}; {meant} are {', '.join(FORMATS)}.")
    require_new(to)
    recording = form().read([GivenFile.parse(file) for file in files])
    rows = recording.write(to, require_judgeable)
    if as_json:
        done = {"folder": str(to), "format": format_, "rows": rows, "lacks": form.lacks}
        echo(json.dumps({**done, "notes": recording.notes, "left_out": recording.left_out}, indent=2))
        return
    counts = ", ".join(f"{count} {name}" for name, count in rows.items() if count)
    tell(f"{to}: {counts or 'no rows'}.")
    for note in recording.notes:
        tell(f"{note}.")
    for what, count in recording.left_out.items():
        tell(f"Left out: {count} {what}.")
    tell(f"Not known: {form.lacks}.")
    tell(f"Judge it with: acked check --import {to}")
