"""SQL of a run folder is data: nothing of it starts a program, calls Java, or opens a file."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import MagicMock

import pytest

import checkers.claims.evaluate
import checkers.spark.gate
from checkers.judge import judge
from checkers.spark.gate import Deadline, RefusedQueryError, deadline, require_condition, require_query
from checkers.spark.pure import FUNCTIONS, STATE
from checkers.spark.views import NAMES
from harness.errors import EXIT_BAD_DATA, BadDataError
from tests.spark.made_runs import explained, stored_run

pytestmark = pytest.mark.spark

ATTACKS = {
    "a program": "select transform(1) using 'sh -c \"touch {folder}/x\"' as (holds, observed)",
    "a program in WITH": (
        "with w as (select transform(1) using 'touch {folder}/x' as (holds, observed)) select * from w"
    ),
    "a program in EXISTS": (
        "select exists (select transform(1) using 'touch {folder}/x' as a) as holds, '' as observed"
    ),
    "a program from first": "from life map seq using 'touch {folder}/x' as (holds, observed)",
    "Java": (
        "select true as holds, reflect('java.lang.System', 'setProperty', 'acked.attack', 'x') as observed"
    ),
    "Java by another name": (
        "select true as holds, java_method('java.io.File', 'createTempFile', 'a', 'b') as observed"
    ),
    "Java that may fail": (
        "select true as holds, try_reflect('java.lang.System', 'setProperty', 'acked.attack', 'x') "
        "as observed"
    ),
    "Java with its schema": (
        "select true as holds, system.builtin.reflect('java.lang.System', 'getenv', 'PATH') as observed"
    ),
    "Java in VALUES": (
        "select true as holds, a as observed from "
        "(values (reflect('java.lang.System', 'setProperty', 'acked.attack', 'x'))) v(a)"
    ),
    "Java in a window": (
        "select true as holds, max('a') over (partition by reflect('java.lang.System', 'setProperty', "
        "'acked.attack', 'x')) as observed"
    ),
    "Java in a named window": (
        "select true as holds, max('a') over w as observed from life window w as (partition by "
        "reflect('java.lang.System', 'setProperty', 'acked.attack', 'x')) limit 1"
    ),
    "Java in a lambda": (
        "select true as holds, transform(array('x'), v -> reflect('java.lang.System', 'setProperty', "
        "'acked.attack', v))[0] as observed"
    ),
    "Java in a filter": (
        "select count(*) filter (where reflect('java.lang.System', 'setProperty', 'acked.attack', 'x') "
        "is null) = 0 as holds, '' as observed"
    ),
    "Java by a made name": (
        "select true as holds, identifier('re' || 'flect')('java.lang.System', 'getenv', 'PATH') as observed"
    ),
    "Java in a lateral view": (
        "select true as holds, v as observed from life lateral view "
        "explode(array(reflect('java.lang.System', 'setProperty', 'acked.attack', 'x'))) t as v limit 1"
    ),
    "a file": "select count(*) > 0 as holds, max(value) as observed from text.`{folder}/secret`",
    "a file by a made name": (
        "select true as holds, max(value) as observed from identifier('text.`{folder}/secret`')"
    ),
    "a file under a name of WITH": (
        "with `text, {folder}/secret` as (select 1) "
        "select true as holds, max(value) as observed from text.`{folder}/secret`"
    ),
    "a file as binary": "select true as holds, max(path) as observed from binaryFile.`{folder}/*`",
    "a file by a function": "select true as holds, max(value) as observed from read_files('{folder}/secret')",
    "the name of a file": "select true as holds, max(input_file_name()) as observed from life",
    "the logs of workers": "select true as holds, '' as observed from python_worker_logs()",
    "a file by XML": (
        'select true as holds, xpath_string(\'<!DOCTYPE a [<!ENTITY b SYSTEM "file://{folder}/secret">]>'
        "<a>&b;</a>', 'a') as observed"
    ),
    "out of the brackets": (
        "select true as holds, '' as observed) union all select 1, reflect('java.lang.System', "
        "'setProperty', 'acked.attack', 'x'), '' from (select 1"
    ),
    "a command": "create table x using parquet location '{folder}/x' as select 1 as n",
    "a folder written": "insert overwrite directory '{folder}/x' using parquet select 1 as n",
    "a jar": "add jar '{folder}/x.jar'",
    "a function": "create temporary function life as 'x' using jar '{folder}/x.jar'",
    "a setting": "set acked.attack = x",
    "the user": "select true as holds, current_user as observed",
    "the clock": "select true as holds, cast(now() as string) as observed",
    "a hint": "select /*+ broadcast(life) */ true as holds, '' as observed from life limit 1",
    "an older table": "select true as holds, '' as observed from life version as of 1",
    "a parameter": "select :a as holds, '' as observed",
    "very deep": "select true as holds, '' as observed where " + "(" * 4000 + "true" + ")" * 4000,
    "a great text": "select true as holds, repeat('x', 2000000000) as observed",
    "a great table": "select true as holds, '' as observed from range(1000000000000)",
}
"""Queries of a claim. `{folder}` is empty except for the file `secret`."""

PLACES = ("holds", "given", "erratum", "either")


def attacked(folder: Path, query: str, place: str) -> Path:
    """A stored run with one claim, of which ``place`` holds the query."""
    run = stored_run(folder, explained())
    claim: dict[str, Any] = {"name": "about it", "says": "", "section": "", "given": None, "erratum": None}
    claim["holds"] = "select true as holds, '' as observed"
    if place in ("erratum", "either"):
        claim[place] = {"says": "", "because": "", "holds": query}
    else:
        claim[place] = query
    (run / "claims.json").write_text(json.dumps({"claims": [claim], "expected": []}))
    return run


def judged_in_vain(spark: Any, run: Path, folder: Path) -> None:
    """The run is refused in one sentence; nothing was started, called, read or written."""
    secret = folder / "secret"
    os.utime(secret, ns=(1, 1))
    with pytest.raises(BadDataError) as caught:
        judge(spark, run)
    assert caught.value.exit_code == EXIT_BAD_DATA
    assert "\n" not in caught.value.message
    assert len(caught.value.message.replace(str(run), "RUN")) <= 300
    assert "hidden" not in caught.value.message
    assert [file.name for file in folder.iterdir()] == ["secret"]
    assert secret.stat().st_atime_ns == 1, "the file was opened"
    assert spark._jvm.System.getProperty("acked.attack") is None
    assert not (run / "life.parquet").exists()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("hidden\n")
    return outside


@pytest.mark.parametrize("name", ATTACKS)
def test_a_query_of_a_claim_reaches_nothing(spark: Any, folder: Path, tmp_path: Path, name: str) -> None:
    query = ATTACKS[name].format(folder=folder)
    place = PLACES[list(ATTACKS).index(name) % len(PLACES)]
    judged_in_vain(spark, attacked(tmp_path / "run", query, place), folder)


def test_the_environment_is_not_read(spark: Any, tmp_path: Path) -> None:
    """Spark would put the value of a variable in the place of its name."""
    run = attacked(tmp_path / "run", "select true as holds, '${env:PATH}' as observed", "holds")
    assert judge(spark, run).claims[0].observed == "${env:PATH}"


def test_the_name_of_a_claim_is_no_sql(spark: Any, tmp_path: Path) -> None:
    run = attacked(tmp_path / "run", "select false as holds, 'its own' as observed", "holds")
    declared = json.loads((run / "claims.json").read_text())
    name = "\\' AS claim, true AS holds, user() AS observed --"
    declared["claims"][0]["name"] = name
    (run / "claims.json").write_text(json.dumps(declared))
    (claim,) = judge(spark, run).claims
    assert (claim.name, claim.status, claim.observed) == (name, "refuted", "its own")


@pytest.mark.parametrize(
    "where",
    [
        "reflect('java.lang.System', 'setProperty', 'acked.attack', 'x') = 'a'",
        "exists (select * from text.`{folder}/secret`)",
        "exists (select transform(1) using 'touch {folder}/x' as a)",
        "input_file_name() = 'a'",
        "current_user = 'a'",
        "true) or (reflect('java.lang.System', 'setProperty', 'acked.attack', 'x') = 'a'",
    ],
)
def test_a_condition_of_an_expected_finding_reaches_nothing(
    spark: Any, folder: Path, tmp_path: Path, where: str
) -> None:
    run = stored_run(tmp_path / "run", explained())
    expected = [{"finding": "lost", "where": where.format(folder=folder)}]
    (run / "claims.json").write_text(json.dumps({"claims": [], "expected": expected}))
    judged_in_vain(spark, run, folder)


def test_half_a_character_is_refused(spark: Any) -> None:
    with pytest.raises(RefusedQueryError, match="surrogate"):
        require_query(spark, "select '\ud800'", NAMES)


VALUES: dict[str, Callable[[str], str]] = {
    "brackets": lambda value: f"({value})",
    "a sum": lambda value: f"1 + {value}",
    "a comparison": lambda value: f"{value} is distinct from 'a'",
    "a cast": lambda value: f"cast({value} as string)",
    "a case": lambda value: f"case when true then {value} end",
    "a case's condition": lambda value: f"case when {value} is null then 1 end",
    "a function": lambda value: f"concat('a', {value})",
    "a list": lambda value: f"array({value}, 'a')[0]",
    "a lambda": lambda value: f"transform(array(1), v -> {value})",
    "a struct": lambda value: f"struct({value} as a).a",
    "in a list": lambda value: f"1 in (2, {value})",
    "like": lambda value: f"'a' like {value}",
    "between": lambda value: f"{value} between 1 and 2",
    "an aggregate": lambda value: f"max({value})",
    "a filter": lambda value: f"count(*) filter (where {value} is null)",
    "a window": lambda value: f"sum(1) over (partition by {value} order by {value})",
    "a sub-query": lambda value: f"(select {value})",
    "exists": lambda value: f"exists (select 1 from life where {value} is null)",
    "in a sub-query": lambda value: f"1 in (select {value} from life)",
    "a part of a date": lambda value: f"extract(year from {value})",
    "a trim": lambda value: f"trim(both 'a' from {value})",
}
"""Expressions around a value."""
QUERIES: dict[str, Callable[[str], str]] = {
    "select": lambda value: f"select {value} as holds",
    "where": lambda value: f"select 1 from life where {value} is null",
    "a join": lambda value: f"select 1 from life l join sends s on {value} is null",
    "group by": lambda value: f"select 1 from life group by {value}",
    "grouping sets": lambda value: f"select 1 from life group by grouping sets (({value}), ())",
    "having": lambda value: f"select count(*) from life having {value} is null",
    "order by": lambda value: f"select 1 from life order by {value}",
    "limit": lambda value: f"select 1 from life limit {value}",
    "values": lambda value: f"select * from (values ({value}, 1)) v(a, b)",
    "with": lambda value: f"with w as (select {value} as a) select * from w",
    "from": lambda value: f"select * from (select {value} as a)",
    "union": lambda value: f"select 1 union all (select {value} except select 2)",
    "lateral": lambda value: f"select * from life, lateral (select {value} as a)",
    "lateral view": lambda value: f"select * from life lateral view explode(array({value})) t as a",
    "a table function": lambda value: f"select * from explode(array({value}))",
    "from first": lambda value: f"from life select {value}",
    "recursive": lambda value: (
        f"with recursive w as (select 1 as a union all select a + 1 from w where {value} is null) "
        "select * from w"
    ),
}
"""Queries around a value."""


def wrapped(draw: random.Random, value: str) -> str:
    """A query that holds a value at some depth."""
    for _ in range(draw.randrange(4)):
        value = f"({draw.choice(list(VALUES.values()))(value)})"
    query = draw.choice(list(QUERIES.values()))(value)
    if draw.random() < 0.3:
        return draw.choice(list(QUERIES.values()))(f"(select count(*) from ({query}))")
    return query


def accepted(spark: Any, query: str) -> bool:
    try:
        require_query(spark, query, NAMES)
    except RefusedQueryError as error:
        assert "at or near" not in str(error), f"{query} is no SQL, so that it tries nothing"
        return False
    return True


def test_what_is_pure_passes_at_any_depth(spark: Any) -> None:
    draw = random.Random(1)
    pure = ("label", "'a'", "17", "upper(label)", "(select max(offset) from copies)")
    refused = [
        query for query in (wrapped(draw, draw.choice(pure)) for _ in range(60)) if not accepted(spark, query)
    ]
    assert refused == []


def test_every_other_function_is_refused_at_any_depth(spark: Any) -> None:
    """All functions that Spark has and the list has not, also under their full names."""
    draw = random.Random(2)
    names = {row["function"] for row in spark.sql("show functions").collect()}
    others = sorted(name for name in names - FUNCTIONS if name.isidentifier() and name not in NOT_BY_NAME)
    assert {"reflect", "input_file_name", "xpath", "read_files", "uuid"} & set(others) >= {"reflect", "uuid"}
    assert names >= FUNCTIONS, "a function that Spark does not have"
    for name in others:
        value = f"{draw.choice(('', '', 'builtin.', 'system.builtin.'))}{name}('a')"
        query = wrapped(draw, value)
        assert not accepted(spark, query), query
    for name in sorted(STATE - {"grouping__id"}):
        assert not accepted(spark, wrapped(draw, name))


NOT_BY_NAME = frozenset({"and", "case", "in", "not", "or", "when", "user", "collate", "current_user"})
"""Operators, and functions that Spark's grammar does not let take an argument."""

RELATIONS = (
    "text.`/etc/passwd`",
    "parquet.`/tmp/*`",
    "binaryFile.`/etc/passwd`",
    "default.life",
    "spark_catalog.default.life",
    "global_temp.life",
    "nowhere",
    "`text./etc/passwd`",
    "`life, sends`",
    "identifier('text.`/etc/passwd`')",
    "range(3)",
    "read_files('/etc')",
    "python_worker_logs()",
    "stream(life)",
    "life timestamp as of '2020-01-01'",
    "(select transform(1) using 'touch /tmp/x' as (a, b))",
)


def test_every_other_relation_is_refused_at_any_depth(spark: Any) -> None:
    draw = random.Random(3)
    for relation in RELATIONS * 3:
        query = wrapped(draw, f"(select count(*) from {relation})")
        assert not accepted(spark, query), query


@pytest.mark.parametrize(
    "condition",
    ["true) or (true", "1 = 1 union select 1", "true; select 1", "", "fate = 'lost' -- \n group by 1"],
)
def test_a_condition_is_one_expression(spark: Any, condition: str) -> None:
    with pytest.raises(RefusedQueryError):
        require_condition(spark, condition, NAMES)


@pytest.mark.parametrize("ends", [True, False])
def test_queries_without_an_end_are_interrupted(monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    """If Spark does not end them, its JVM is ended."""
    session, forgotten = MagicMock(), Event()
    monkeypatch.setattr(checkers.spark.gate, "_KILL_S", 30 if ends else 0.01)
    monkeypatch.setattr(checkers.spark.gate, "forget_session", forgotten.set)
    interrupted = Event()
    session.interruptAll.side_effect = interrupted.set
    with deadline(session, limit_s=0.01) as limit:
        assert interrupted.wait(30)
        assert ends or forgotten.wait(30)
    assert limit.expired
    assert forgotten.is_set() is not ends


def test_queries_that_end_are_not_interrupted() -> None:
    session = MagicMock()
    with deadline(session, limit_s=60) as limit:
        pass
    assert not limit.expired
    session.interruptAll.assert_not_called()


@contextmanager
def expired(session: Any) -> Iterator[Deadline]:
    yield Deadline(expired=True)


def test_a_claim_without_an_end_is_named(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkers.claims.evaluate, "deadline", expired)
    fails = "select raise_error('interrupted') is null as holds, '' as observed"
    with pytest.raises(BadDataError, match=r"did not end within .* 'about it'"):
        judge(spark, attacked(tmp_path / "run", fails, "holds"))
