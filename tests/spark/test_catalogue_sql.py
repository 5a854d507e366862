"""The SQL of every claim and expectation of the catalogue is understood by Spark, without any run."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import pytest

from checkers.claims.evaluate import ask
from checkers.claims.moments import Moments, marks_named
from checkers.claims.understood import make_empty_tables, queries_declared, refused
from checkers.spark.session import settings_for_small_data
from harness.run.catalogue import all_scenarios
from harness.scenario import Scenario

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def empty(spark: Any) -> Any:
    """A session in which every table exists and is empty."""
    make_empty_tables(spark)
    return spark


def _declared(scenario: Scenario) -> dict[str, Any]:
    """With the claims of all versions."""
    return {**scenario.declared(), "claims": [asdict(claim) for claim in scenario.claims]}


class OneOfEachShape:
    """A session that analyses a query only if no earlier one differed from it in literals alone.

    That halves the time of the catalogue's queries.
    """

    def __init__(self, session: Any) -> None:
        self.session = session
        self.understood: set[str] = set()

    def sql(self, query: str) -> None:
        """Analyse the query; raises what Spark raises."""
        shape = re.sub(r"\b\d+(\.\d+)?\b", "0", re.sub(r"'(?:[^']|'')*'", "''", query))
        if shape not in self.understood:
            self.session.sql(query)
            self.understood.add(shape)


def test_every_claim_is_understood(empty: Any) -> None:
    """Spark finds every table and column that a claim names, and no mistake of syntax."""
    session: Any = OneOfEachShape(empty)
    mistakes = {name: refused(session, _declared(one)) for name, one in all_scenarios().items()}
    assert {name: found for name, found in mistakes.items() if found} == {}
    assert len(session.understood) > 400


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(all_scenarios()))
def test_claims_are_sql_and_do_not_hold_where_nothing_was_seen(name: str, empty: Any) -> None:
    """With every mark set and every table empty no claim is confirmed and no erratum holds."""
    scenario = all_scenarios()[name]
    queries = queries_declared(_declared(scenario))
    marks = {mark: 10**9 * n for n, mark in enumerate(marks_named(" ".join(queries.values())))}
    with settings_for_small_data(empty):
        answers = ask(empty, queries, Moments(marks=marks))
    preconditions = {claim.name for claim in scenario.claims if claim.precondition}
    held = {claim for claim, answer in answers.items() if answer.holds} - preconditions
    assert {claim for claim in held if not claim.endswith("(given)")} == set()


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        ("SELECT count(*) > 0 AS holds, '' AS observed FROM life", ""),
        ("SELECT holds, observed FORM life", "FORM|life"),
        ("SELECT count(*) > 0 AS holds FROM life", "observed"),
        ("SELECT fatal = 'lost' AS holds, '' AS observed FROM life", "fatal"),
        ("SELECT ns > {mark:cut} AS holds, '' AS observed FROM liefe", "liefe"),
    ],
)
def test_sql_that_spark_refuses_is_named(holds: str, said: str, empty: Any) -> None:
    """Syntax, columns and tables are checked without a run; a moment is no mistake."""
    expected = [{"where": "fate = 'lost' AND detail LIKE '%x%' AND outcome = 'ok' AND topic = 't'"}]
    declared = {"claims": [{"name": "mine", "holds": holds}], "expected": expected}
    answer = refused(empty, declared)
    assert list(answer) == (["mine"] if said else [])
    assert all(re.search(said, sentence) for sentence in answer.values())
