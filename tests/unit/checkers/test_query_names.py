"""The names of queries that are looked up before Spark starts."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import pytest

from checkers.ask.names import quoted_columns, refuse_unknown_names, statements
from checkers.claims.understood import queries_declared
from harness.errors import UsageError
from scenarios.catalogue import all_scenarios

DOCS = Path(__file__).parents[3] / "docs"
MOMENT = re.compile(r"\{[^{}]*\}")


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("select seq from sned", "no table 'sned'; did you mean sends?"),
        ("with x as (select 1) select * from y", "no table 'y'"),
        ("select * from lost join losst using (seq)", "no table 'losst'; did you mean lost?"),
        ("select lable from lost", "no column 'lable' in lost; did you mean label?"),
        ("SELECT L.Lable FROM Lost L", "no column 'Lable' in lost; did you mean label?"),
        ("select fate from sends", "no column 'fate' in sends; life has it."),
        ("select s.fate from sends s join life l using (seq)", "no column 'fate' in sends; life"),
        ("select count(*) from life where zzz > 1", "no column 'zzz' in life. `.schema life`"),
        ("select zzz", "no column 'zzz': the query reads no table"),
        ("select 1 from life where exists (select 1 from sends where zz.seq = 1)", "no column 'zz'"),
    ],
)
def test_unknown_names_are_refused(query: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_unknown_names(query)
    assert says in caught.value.message and len(caught.value.message) <= 300


ACCEPTED = (
    "select l.n from (select count(*) n from life l) l",
    "with life as (select 1 as n) select life.n from life",
    "with recent(a, b) as (select seq, writer from sends) select r.a, b from recent r",
    "select l.a, b from (select seq, writer from life) as l(a, b)",
    "select l.a from marks as l(a, b, c, d, e)",
    "from life select fate",
    "select x.c from (values (1)) x(c)",
    "select count(*) n from life having n > 1 order by n",
    "select named_struct('q', 1).q, s.r from (select named_struct('r', 1) s)",
    "select fate f, concat(f, 'x') g from life",
    "select transform(isr, (el, i) -> el + i), exists(isr, x -> x > 1) from views",
    "select b, p from views lateral view explode(isr) t as b lateral view posexplode(isr) u as p, q",
    "select col from (select explode(isr) from views)",
    "select key, value from (select explode(map('a', 1)))",
    "select * from explode(array(1, 2)) as t(n) where n > 1",
    "select e.a from (select from_json('{}', 'a int') e)",
    "select q, r from (select stack(2, 1, 2, 3, 4) as (q, r))",
    "select `count(1)` from (select count(*) from life)",
    "select az, fate, count(*) from life group by all order by all",
    "select az, grouping_id() from life group by cube (az, fate)",
    "select sum(seq) over (partition by az order by seq rows between 1 preceding and current row) from life",
    "select sends.seq, life.fate from sends join life on life.seq = sends.seq",
    "select * except (run) from life",
    "select seq from sends union all select ns from marks order by seq",
    "select (select max(ns) from marks m where m.ns < s.sent_ns) t from sends s",
    "select extract(year from timestamp_micros(ns)) from marks",
    "values (1), (2)",
    "select seq, l.k from sends, lateral (select seq + 1 as k) l",
)
"""What Spark accepts, too (`tests/spark/test_query_names_by_spark.py`)."""


@pytest.mark.parametrize("query", ACCEPTED)
def test_names_that_a_query_gives_itself_are_known(query: str) -> None:
    refuse_unknown_names(query)


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.long)])
def test_no_query_of_the_catalogue_is_refused(step: int) -> None:
    """Nor one of the documentation; a moment is a number when the query runs."""
    texts = [
        query
        for scenario in all_scenarios().values()
        for query in queries_declared(
            {**scenario.declared(), "claims": [asdict(claim) for claim in scenario.claims]}
        ).values()
    ]
    assert len(texts) > 700
    texts = texts[::step]
    page = (DOCS / "analysis.md").read_text()
    texts += re.findall(r'\$ acked sql "(.*?)" RUN', page)
    texts += re.findall(r"```sql\n(.*?)```", page, flags=re.DOTALL)
    for text in texts:
        refuse_unknown_names(MOMENT.sub("1", text))


def test_what_this_parser_does_not_know_is_left_to_spark() -> None:
    for text in ("selec zzz from nowhere", "drop table zzz", "select 'open", "table zzz", "", "(" * 5000):
        refuse_unknown_names(text)


def test_columns_in_double_quotes_are_found() -> None:
    assert quoted_columns('select "offset", "nonsense", \'"seq"\' from sends -- "writer"') == ["offset"]
    assert quoted_columns("select `offset` from sends") == []


def test_statements_end_in_semicolons_outside_texts_and_comments() -> None:
    text = "select ';' -- a; b\n; select `;` /* ; */;; select \"a;\n"
    assert statements("select 1; select 2") == (["select 1"], "select 2")
    assert statements(text.replace('"a;', "3")) == (["select ';' -- a; b", "select `;` /* ; */"], "select 3")
    assert statements(text)[0] == [], "the last text is open"
