"""Bad input to `acked sql`, `story` and `check` ends in one sentence, before anything is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import checkers.spark.session
from checkers.ask.sql import Queries
from checkers.judge import judge
from checkers.spark.cluster import cluster_session
from cli.commands import app
from harness.errors import AckedError, BadDataError, UsageError
from harness.history.schema import TABLES
from tests.histories import History
from tests.sampling import every
from tests.spark.made_runs import explained, stored_run

pytestmark = pytest.mark.spark
Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judged run."""
    folder = stored_run(tmp_path_factory.mktemp("runs") / "made-up" / "one", explained())
    judge(spark, folder)
    return folder


@pytest.fixture(scope="module")
def shown(spark: Any, run: Path) -> Path:
    """The run, once its tables are registered; a query replaces them, a refused statement does not."""
    Queries([run]).register(spark)
    return run


@pytest.fixture
def acked(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in the tests' session; raises what it raises."""
    monkeypatch.setattr(checkers.spark.session, "start_session", lambda **_: spark)

    def call(*arguments: object) -> str:
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.stdout

    return call


def refused(error: AckedError) -> str:
    """The message of an error, which is one line without Java's stack frames."""
    shown = error.message + error.detail
    assert "\n" not in error.message and len(error.message) <= 300
    assert not any(part in shown for part in ("at org.", "org.apache", "== SQL", "'Project", "Traceback"))
    return error.message


QUERIES = {
    "select": "select 1 as n",
    "with": "with w as (select 1 as n) select * from w",
    "values": "values (1)",
    "table": "table sends",
    "from first": "from sends select count(*)",
    "brackets": "(select 1) union all (select 2)",
    "a semicolon": "select 1;",
    "a semicolon and comments": "select 1 ; -- done; really\n /* a; b */ ",
    "a comment at the end": "select 1 -- one",
    "a comment in front": "/* drop table x */ -- insert\nselect 1",
    "statements in a text": "select 'a; drop table x'",
    "a semicolon at the end of a text": "select ';'",
    "the order is kept": "select seq from sends order by seq desc",
    "two columns of one name": "select 1 as n, 2 as n",
}


@pytest.mark.parametrize("name", every(8, QUERIES))
def test_queries_are_run(acked: Run, run: Path, name: str) -> None:
    rows = json.loads(acked("sql", QUERIES[name], run, "--json"))
    assert rows
    if name == "the order is kept":
        assert [row["seq"] for row in rows] == [5, 4, 3, 2, 1, 0]


STATEMENTS = {
    "drop view": "drop view sends",
    "drop table": "drop table if exists sends",
    "create table": "create table x using parquet location '{folder}/x' as select 1 as n",
    "create view": "create or replace temporary view sends as select 1 as n",
    "overwrite a directory": "insert overwrite directory '{folder}/x' using parquet select 1 as n",
    "with, overwrite": "with w as (select 1) insert overwrite directory '{folder}/x' using csv table w",
    "with, insert": "with w as (select 1 as n) insert into sends select * from w",
    "insert": "insert into sends select * from sends",
    "from, insert": "from sends insert into reads select * insert into copies select *",
    "from, overwrite": "from sends insert overwrite directory '{folder}/x' using csv select seq",
    "delete": "delete from sends",
    "update": "update sends set seq = 1",
    "merge": "merge into sends a using reads b on a.seq = b.seq when matched then delete",
    "add jar": "add jar '{folder}/x.jar'",
    "set": "set spark.sql.shuffle.partitions = 7",
    "set alone": "set",
    "reset": "reset",
    "cache": "cache table sends",
    "clear cache": "clear cache",
    "refresh": "refresh table sends",
    "use": "use default",
    "explain": "explain select 1",
    "show": "show tables",
    "describe": "describe sends",
    "truncate": "truncate table sends",
    "variable": "declare variable x int default 1",
    "script": "begin select 1; end",
    "immediate": "execute immediate 'drop view sends'",
    "a comment in front": "/* select */ drop view sends -- select 1",
    "two queries": "select 1; select 2",
    "a second statement": "select 1; drop view sends",
    "a second statement behind a comment": "select 1; -- more\ndrop view sends",
    "out of the brackets": "select 1) union all select 1 where exists (select 2",
    "out of the brackets, insert": "select 1) insert into sends select * from sends where exists (select 2",
    "nothing": "",
    "a comment": "/* select 1 */",
    "no SQL": "what was lost?",
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_anything_but_a_query_is_refused_before_it_runs(
    spark: Any, acked: Run, shown: Path, tmp_path: Path, name: str
) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    with pytest.raises(UsageError, match="Only one query .* can be run") as caught:
        acked("sql", STATEMENTS[name].format(folder=tmp_path), shown)
    refused(caught.value)
    assert not list(tmp_path.iterdir())
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    assert spark.table("sends").count() == 6


@pytest.mark.parametrize(
    "query",
    [
        "select transform(seq) using 'touch {folder}/x' from sends",
        "select java_method('java.io.File', 'createTempFile', 'a', 'b')",
        "select * from sends where exists (select reflect('java.lang.System', 'getenv', 'PATH') = 'a')",
        "with w as (select transform(seq) using 'touch {folder}/x' from sends) select count(*) from w",
    ],
)
def test_a_query_that_starts_a_program_is_refused(acked: Run, run: Path, tmp_path: Path, query: str) -> None:
    with pytest.raises(UsageError, match="starts a program|calls '(java_method|reflect)'"):
        acked("sql", query.format(folder=tmp_path), run)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("select nothing from sends", "no column 'nothing'"),
        ("select writer from (select seq from sends)", "`writer`"),
        ("select assert_true(false)", "is not true"),
        ("select 1 / 0", "Division by zero"),
        ("select cast('x' as int)", "cannot be cast"),
        ("select * frm sends", "at or near"),
        ("select (select seq from sends)", "More than one row"),
    ],
)
def test_a_query_that_fails_is_one_sentence(acked: Run, run: Path, query: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        acked("sql", query, run)
    refused(caught.value)


def test_the_story_of_half_a_character(acked: Run, run: Path) -> None:
    with pytest.raises(UsageError, match="names no message"):
        acked("story", "a\udcff", run)


@pytest.mark.parametrize("message", ["1/" + "9" * 30, "9" * 5000 + "/0", "2147483648/0", "1/" + "9" * 5000])
def test_the_story_of_a_number_beyond_its_column(acked: Run, run: Path, message: str) -> None:
    with pytest.raises(UsageError, match="has no message") as caught:
        acked("story", message, run)
    refused(caught.value)


def with_claim(folder: Path, holds: str) -> Path:
    run = stored_run(folder, explained())
    claim = {"name": "about it", "says": "", "section": "", "given": None, "holds": holds, "erratum": None}
    (run / "claims.json").write_text(json.dumps({"claims": [claim], "expected": []}))
    return run


@pytest.mark.parametrize(
    "holds",
    [
        "select nothing as holds, '' as observed",
        "select * frm life",
        "select assert_true(false) as holds, '' as observed",
        "select bool(1 / count_if(seq < 0)) as holds, '' as observed from life",
        "drop view life",
        "select (select explode(array(1, 2))) as holds, '' as observed",
        "select raise_error('no') is null as holds, '' as observed",
    ],
)
def test_a_broken_query_of_a_claim_shows_no_stack_frames(
    spark: Any, tmp_path: Path, holds: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadDataError, match="claim 'about it'") as caught:
        judge(spark, with_claim(tmp_path / "run", holds))
    refused(caught.value)
    assert not capfd.readouterr().err, "PySpark's own log of failed queries is off"


def test_a_claim_without_a_row_is_named(spark: Any, tmp_path: Path) -> None:
    holds = "select true as holds, '' as observed from life where seq = 77"
    judgement = judge(spark, with_claim(tmp_path / "run", holds))
    assert judgement.claims[0].status == "unknown"
    assert "claim 'about it' is unknown: the query returned no row" in judgement.reasons


@pytest.mark.parametrize("column", ["partition", "writer"])
def test_a_number_beyond_its_column_is_damage(spark: Any, tmp_path: Path, column: str) -> None:
    folder = History().send(0, offset=0).logs([(0, 0)]).write(tmp_path / "run" / "history")
    table = pq.read_table(folder / "sends.parquet")
    place = table.column_names.index(column)
    values = pa.array([2**31], pa.int64())
    pq.write_table(table.set_column(place, column, values), folder / "sends.parquet")
    (folder.parent / "run.json").write_text('{"status": "complete"}')
    with pytest.raises(BadDataError, match=f"column {column} does not fit int32") as caught:
        judge(spark, folder.parent)
    refused(caught.value)
    assert TABLES["sends"].arrow().field(column).type == pa.int32()


@pytest.mark.parametrize(
    "master", ["nonsense", "localhost", "local[x]", "spark://", "spark://host", "k8s://", "yarnish", ""]
)
def test_a_master_that_spark_does_not_know(master: str) -> None:
    with pytest.raises(UsageError, match="is not a Spark master") as caught, cluster_session(master):
        pass
    refused(caught.value)
