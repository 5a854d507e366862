"""What `acked sql` does before Spark starts: its arguments, the names of a query, and completion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from typer.testing import CliRunner

import checkers.spark.session
from checkers.ask.sql import Answer, Queries
from cli.commands import app
from cli.sql_prompt import SqlCompleter, _command_without_dot, _is_finished
from harness.errors import AckedError, BadDataError, UsageError
from report.rows import show_rows
from tests.histories import History


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return History().send(0, offset=0).logs([(0, 0)]).write(tmp_path / "import")


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AckedError]:
    """The error of a command that ends before Spark starts."""

    def start_session(**_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(checkers.spark.session, "start_session", start_session)

    def call(*words: object, given: str = "") -> AckedError:
        done = CliRunner().invoke(app, ["sql", *map(str, words)], input=given)
        assert isinstance(done.exception, AckedError), done.exception
        return done.exception

    return call


@pytest.mark.parametrize("order", [1, -1], ids=["query first", "query last"])
def test_a_misspelt_name_starts_no_spark(refused: Callable[..., AckedError], run: Path, order: int) -> None:
    error = refused(*["select sqe from sends", run][::order])
    assert error.message == "There is no column 'sqe' in sends; did you mean seq?"
    assert isinstance(error, UsageError)


def test_arguments_that_make_no_sense(refused: Callable[..., AckedError], run: Path) -> None:
    assert "Name the runs" in refused("select 1").message
    assert (
        "'nowhere' names no file or folder, so it is the query. Name the runs" in refused("nowhere").message
    )
    assert isinstance(refused("select 1", "nowhere", run), BadDataError)
    assert "Name the runs" in refused().message
    assert "are two queries" in refused("select 1", "select 2", run).message
    assert "holds no query" in refused(run, given=" ;; ").message
    nowhere = refused("select 1", run / "nowhere")
    assert isinstance(nowhere, BadDataError) and "nowhere holds no history" in nowhere.message


def test_queries_before_one_that_is_refused_are_answered(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(_self: object, _session: object, text: str, _limit: int | None) -> Answer:
        asked.append(text)
        return Answer(["seq"], [(41 + len(asked),)])

    monkeypatch.setattr(checkers.spark.session, "start_session", lambda: None)
    monkeypatch.setattr(Queries, "ask", ask)
    given = "select seq from sends; select 1 from sends; select seq from sendz; select 2 from sends;"
    done = CliRunner().invoke(app, ["sql", str(run), "--format", "csv"], input=given)
    assert done.stdout.split() == ["seq", "42", "seq", "43"]
    assert isinstance(done.exception, UsageError)
    assert done.exception.message.startswith("Query 3 of 4: There is no table 'sendz'; did you mean sends?")
    first = CliRunner().invoke(app, ["sql", str(run)], input="select seq from sendz; select 1 from sends")
    assert "Query 1 of 2: " in str(first.exception) and len(asked) == 2


@pytest.mark.parametrize(
    ("text", "command"),
    [("quit", ".quit"), ("EXIT;", ".quit"), ("help ;", ".help"), ("?", ".help"), ("tables", ".tables")]
    + [(text, "") for text in ("select 1", "helps", "quit now", ".help", "")],
)
def test_a_command_without_its_dot_is_handed_in_and_named(text: str, command: str) -> None:
    """Other prompts have them; as the beginning of a query, they would wait for a semicolon."""
    assert _command_without_dot(text) == command
    if command:
        assert _is_finished(text)


@pytest.mark.parametrize(
    ("text", "completions"),
    [
        ("select * from rea", ["reads", "readable_since"]),
        ("select * from sends s join transaction_f", ["transaction_fates"]),
        ("select writer_n| from lost", ["writer_name"]),
        ("select s.ou| from sends s join life l", ["outcome"]),
        ("select l.ou| from sends s", []),
        ("select percentile_a", ["percentile_approx"]),
        ("sele", ["select"]),
        (".sch", [".schema"]),
        (".schema bloc", ["blocked_readers"]),
        (".mode js", ["json"]),
        (".help ", []),
    ],
)
def test_completion(text: str, completions: list[str]) -> None:
    before, _, after = text.partition("|")
    document = Document(before + after, len(before))
    assert [one.text for one in SqlCompleter().get_completions(document, CompleteEvent())] == completions


def test_rows_as_csv(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(("a", "b, c"), [(None, "x\ny"), ([1, 2], 'say "\x1b"')], "csv")
    assert capsys.readouterr().out == 'a,"b, c"\n,"x\ny"\n"[1, 2]","say ""␛"""\n'
