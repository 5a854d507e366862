"""`acked sql`: free SQL over stored runs, one query or a prompt."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.answers import note_quotes, show_answer
from harness.console import Progress, echo
from harness.errors import AckedError, UsageError, quoted

if TYPE_CHECKING:
    from checkers.ask.sql import Queries


class RowForm(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def sql(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[QUERY] RUN...",
            help="One SELECT statement in Spark SQL; then run folders, imported folders, or folders of runs. "
            "Without a query: a prompt, or the queries of standard input, each of which ends in a semicolon.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(help="Rows to show at most; 0 shows all.", min=0, max=10**9)] = 100,
    form: Annotated[RowForm, typer.Option("--format", help="How to print the rows.")] = RowForm.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Query stored runs: all tables of all runs, told apart by the column `run`.

    Tables are those of docs/history.md, and `life` and `findings` of judged
    runs. Views answer the common questions: `lost`, `availability` (per second
    and AZ), `latency`, `leaders`, `timeline`, `truth`. Only queries are run;
    other statements are refused.

    acked sql "select fate, count(*) from life group by fate" RUN
    """
    text, runs = _taken_apart(words or [])
    if not runs:
        taken = f"{quoted(text)} names no file or folder, so it is the query. " if text else ""
        raise UsageError(
            f'{taken}Name the runs to query, for example `acked sql "select * from lost" runs/*/latest`.'
        )
    from checkers.ask.sql import Queries, run_folders

    queries = Queries(run_folders(runs))
    chosen = "json" if as_json else form.value
    if text is not None:
        _answer([text], queries, limit, chosen)
    elif sys.stdin.isatty() and sys.stdout.isatty():
        from cli.sql_prompt import Prompt

        Prompt(queries, limit, chosen).run()
    else:
        from checkers.ask.names import statements

        complete, rest = statements(sys.stdin.read())
        texts = [*complete, *([rest] if rest else [])]
        if not texts:
            raise UsageError(
                "Standard input holds no query; give one as the first argument, or start a prompt in a "
                "terminal."
            )
        _answer(texts, queries, limit, chosen)


def _taken_apart(words: Sequence[str]) -> tuple[str | None, list[Path]]:
    """The query, if there is one, and the runs: a query is a word that names nothing and looks like no path.

    Of several such words, those without a blank are mistyped names of folders.
    """
    candidates = [word for word in words if not _is_there(word) and (_has_blank(word) or "/" not in word)]
    texts = [word for word in candidates if _has_blank(word)] or candidates[:1]
    if len(texts) > 1:
        raise UsageError(
            f"{quoted(texts[0])} and {quoted(texts[1])} are two queries; give one, or write them to "
            "standard input, each with a semicolon at its end."
        )
    return (texts[0] if texts else None), [Path(word) for word in words if word not in texts]


def _is_there(word: str) -> bool:
    try:
        return bool(word) and Path(word).exists()
    except (OSError, ValueError):  # too long for a name, or with a null character
        return False


def _has_blank(word: str) -> bool:
    return any(letter.isspace() for letter in word.strip())


def _answer(texts: Sequence[str], queries: Queries, limit: int, form: str) -> None:
    """Answer one query after the other; the first that is refused ends the command, by its number."""
    from checkers.spark.session import start_session

    prepared: list[str] = []
    refused: AckedError | None = None
    for text in texts:
        try:
            prepared.append(queries.prepared(text))
        except AckedError as error:
            refused = _numbered(error, len(prepared), len(texts))
            break
    if refused is not None and not prepared:
        raise refused
    for text in prepared:
        note_quotes(text)
    progress = Progress()
    with progress.phase("spark", "Spark is starting"):
        session = start_session()
    for number, text in enumerate(prepared):
        try:
            with progress.phase("query", "the query is running"):
                answer = queries.ask(session, text, limit + 1 if limit else None)
        except UsageError as error:
            raise _numbered(error, number, len(texts)) from error
        if number and form != "json":
            echo("")
        show_answer(answer, limit, form)
    if refused is not None:
        raise refused


def _numbered(error: AckedError, number: int, of: int) -> AckedError:
    """The refusal of one query of several."""
    if of == 1:
        return error
    return type(error)(f"Query {number + 1} of {of}: {error.message}", detail=error.detail, facts=error.facts)
