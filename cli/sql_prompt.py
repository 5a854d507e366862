"""The prompt of `acked sql`: one Spark session for many queries, with history and completion."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from checkers.ask.names import columns_of, is_open, statements
from checkers.ask.views import QUERYABLE, RUN_VIEWS
from checkers.spark.gate import interrupt
from checkers.spark.pure import FUNCTIONS
from checkers.spark.session import forget_session, start_session
from checkers.spark.views import DERIVED
from checkers.tables.output import ddl
from cli.answers import note, note_quotes, show_answer
from harness.console import Progress, echo
from harness.errors import AckedError, UnfitError, UsageError, quoted
from harness.history.schema import TABLES
from report.rows import FORMS, show_rows
from report.terminal import show_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.ask.sql import Answer, Queries

_HELP = """\
A query ends in a semicolon and may take several lines. Tab completes names. Ctrl-C interrupts a query.
.tables             list the tables and views
.schema TABLE       list the columns of a table or view
.mode table|csv|json   choose how rows are printed
.help               show this help
.quit               leave, as Ctrl-D does"""
COMMANDS = (".help", ".mode", ".quit", ".schema", ".tables")
KEYWORDS = (
    *("select", "from", "where", "group", "order", "by", "having", "limit", "offset", "with", "distinct"),
    *("join", "left", "right", "full", "inner", "cross", "semi", "anti", "on", "using", "lateral", "view"),
    *("as", "and", "or", "not", "in", "is", "null", "true", "false", "like", "rlike", "between", "exists"),
    *("case", "when", "then", "else", "end", "union", "all", "except", "intersect", "over", "partition"),
    *("rows", "range", "filter", "asc", "desc"),
)
_TABLE_FOLLOWS = re.compile(r"\b(from|join)\s+\w*$", re.IGNORECASE)
_ALIAS = re.compile(r"\b(?:from|join)\s+(\w+)(?:\s+(?:as\s+)?(\w+))?", re.IGNORECASE)
_WARM_UP = "select count(*) from sends"
"""Loads the classes that most queries need, while the user types."""


def history_file() -> Path:
    """The file of earlier queries, in the user's folder for state."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "acked" / "sql-history"


class SqlCompleter(Completer):
    """Completes commands; tables after FROM and JOIN; columns of a table after its name and a dot.

    Elsewhere: columns of the tables that the query names (of all, as long as it names none), keywords and
    functions.
    """

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The names that can complete the word before the cursor."""
        before = document.text_before_cursor
        match = re.search(r"\w*$", before)
        word = match[0] if match else ""
        if before.lstrip().startswith("."):
            command, blank, _ = before.lstrip().partition(" ")
            names: Iterable[str] = {".schema": QUERYABLE, ".mode": FORMS}.get(command, ())
            if not blank:
                word, names = command, COMMANDS
        else:
            names = self._names(before, document.text)
        for name in names:
            if name.startswith(word.lower()) and name != word:
                yield Completion(name, -len(word))

    @staticmethod
    def _names(before: str, text: str) -> Iterable[str]:
        if _TABLE_FOLLOWS.search(before):
            return QUERYABLE
        named = [(table.lower(), alias.lower()) for table, alias in _ALIAS.findall(text)]
        tables = [table for table, _ in named if table in QUERYABLE]
        qualifier = re.search(r"(\w+)\.\w*$", before)
        if qualifier:
            name = qualifier[1].lower()
            return [
                column
                for table, alias in named
                if table in QUERYABLE and name in (table, alias)
                for column in columns_of(table)
            ]
        columns = sorted({column for table in tables or QUERYABLE for column in columns_of(table)})
        return dict.fromkeys([*columns, *KEYWORDS, *sorted(FUNCTIONS)])


class Prompt:
    """Reads queries and commands until the end; the first query does not wait for Spark more than it must."""

    def __init__(self, queries: Queries, limit: int, form: str) -> None:
        self._queries = queries
        self._limit = limit
        self._form = form
        self._session: SparkSession | None = None
        self._starting_since: float | None = None
        self._stopped = False

    def run(self) -> None:
        """Read until Ctrl-D or `.quit`. One thread talks to Spark, so that Ctrl-C reaches this one."""
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, self._stop)
        spark = ThreadPoolExecutor(1, thread_name_prefix="spark")
        try:
            spark.submit(self._warm_up)
            self._read(spark)
        finally:
            spark.shutdown(cancel_futures=True)
            for number, action in before.items():
                signal.signal(number, action)

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopped = True
        raise KeyboardInterrupt

    def _read(self, spark: ThreadPoolExecutor) -> None:
        session: PromptSession[str] = PromptSession(
            "sql> ",
            history=_history(),
            completer=SqlCompleter(),
            complete_while_typing=False,
            multiline=Condition(lambda: not _is_finished(get_app().current_buffer.text)),
            prompt_continuation="...> ",
            bottom_toolbar=self._state,
            refresh_interval=1.0,
        )
        echo("A query ends in a semicolon; .help lists the commands.")
        while True:
            try:
                text = session.prompt().strip()
                if text.startswith("."):
                    if not self._carry_out(text):
                        return
                elif command := _command_without_dot(text):
                    note(f"{text.rstrip(';')} is no query; the command is {command}.")
                else:
                    complete, rest = statements(text)
                    for query in [*complete, *([rest] if rest else [])]:
                        self._answer(spark, query)
            except EOFError:
                return
            except AckedError as error:
                show_error(error)
            except KeyboardInterrupt:
                if self._stopped:
                    raise

    def _state(self) -> str:
        if self._starting_since is not None:
            elapsed_s = time.monotonic() - self._starting_since
            return f" Spark is starting ({elapsed_s:.0f} s); you can type meanwhile."
        first, *others = self._queries.runs
        runs = f"{first} and {len(others)} more" if others else first
        return f" {runs} · rows as {self._form} · .help"

    def _warm_up(self) -> None:
        with suppress(AckedError):
            self._queries.ask(self._started(), _WARM_UP)

    def _started(self) -> SparkSession:
        """The session; in the thread that talks to Spark."""
        if self._session is None:
            self._starting_since = time.monotonic()
        try:
            self._session = start_session()
        except UnfitError:
            self._forget()
            raise
        finally:
            self._starting_since = None
        return self._session

    def _forget(self) -> None:
        self._session = None
        forget_session()

    def _answer(self, spark: ThreadPoolExecutor, text: str) -> None:
        text = self._queries.prepared(text)
        note_quotes(text)
        limit = self._limit + 1 if self._limit else None
        answering: Future[Answer] = spark.submit(lambda: self._queries.ask(self._started(), text, limit))
        over = Event()
        answering.add_done_callback(lambda _: over.set())
        try:
            with Progress().phase("query", "the query is running", self._waits):
                answer = answering.result()
        except KeyboardInterrupt:
            if self._stopped:
                raise
            self._interrupt(answering, over)
            note("The query was interrupted.")
        except UnfitError:
            self._forget()
            raise
        else:
            show_answer(answer, self._limit, self._form)

    def _waits(self) -> tuple[str, ...]:
        return () if self._starting_since is None else ("Spark is still starting",)

    def _interrupt(self, answering: Future[Any], over: Event) -> None:
        """End the query that runs. A further Ctrl-C ends Spark, which the next query starts again."""
        if answering.cancel() or self._session is None:
            return
        try:
            interrupt(self._session, over)
        except KeyboardInterrupt:
            self._forget()

    def _carry_out(self, line: str) -> bool:
        """Carry out a command; False: the user leaves. Raises UsageError."""
        command, *words = line.rstrip(";").split()
        if command == ".quit":
            return False
        if command == ".help":
            echo(_HELP)
        elif command == ".tables":
            echo(f"history:   {', '.join(TABLES)}")
            echo(f"judgement: {', '.join(DERIVED)}")
            echo(f"views:     {', '.join(RUN_VIEWS)}")
        elif command == ".schema":
            if len(words) != 1 or words[0].lower() not in QUERYABLE:
                raise UsageError(
                    f"{quoted(line)}: .schema takes the name of a table or view; .tables lists them."
                )
            show_rows(*_columns(words[0].lower()), self._form)
        elif command == ".mode":
            if len(words) != 1 or words[0] not in FORMS:
                raise UsageError(f"{quoted(line)}: .mode takes one of {', '.join(FORMS)}.")
            self._form = words[0]
        else:
            raise UsageError(f"{quoted(command)} is no command of this prompt; .help lists them.")
        return True


def _columns(table: str) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Columns with their types; those of a view have none before Spark analyses it."""
    if table in RUN_VIEWS:
        return ("column",), [(name,) for name in columns_of(table)]
    schema = TABLES[table].spark_ddl() if table in TABLES else ddl(DERIVED[table])
    types = {"run": "string", **dict(re.findall(r"`(\w+)` (\S+?)(?:, |$)", schema))}
    return ("column", "type"), [(name, types[name]) for name in columns_of(table)]


def _history() -> History:
    file = history_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
        return FileHistory(str(file))
    except OSError:
        note(f"Queries are not remembered, because {file} cannot be written.")
        return InMemoryHistory()


def _command_without_dot(text: str) -> str:
    """The command that somebody means who knows other prompts; empty for what may be a query."""
    word = text.rstrip("; ").lower()
    return {"exit": ".quit", "?": ".help"}.get(word, f".{word}" if f".{word}" in COMMANDS else "")


def _is_finished(text: str) -> bool:
    """Whether Enter hands in the text, instead of beginning another line."""
    text = text.strip()
    alone = text.startswith(".") or bool(_command_without_dot(text))
    return not text or alone or (not is_open(text) and not statements(text)[1])
