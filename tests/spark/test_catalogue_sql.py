"""The SQL of every claim and expectation of the catalogue is understood by Spark, without any run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from checkers.claims.evaluate import ask, queries_of
from checkers.claims.moments import Moments, marks_named, resolve
from checkers.tables.output import FINDING, LIFE, ddl
from harness.history.schema import TABLES, VIEWS
from harness.run.catalogue import all_scenarios
from harness.scenario import Scenario

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def empty(spark: Any) -> Any:
    """A session in which every table exists and is empty."""
    for name, table in TABLES.items():
        spark.createDataFrame([], table.spark_ddl()).createOrReplaceTempView(name)
    for name, query in VIEWS.items():
        spark.sql(query).createOrReplaceTempView(name)
    for name, schema in (("life", LIFE), ("findings", FINDING)):
        spark.createDataFrame([], ddl(schema)).createOrReplaceTempView(name)
    return spark


def _queries(scenario: Scenario) -> dict[str, str]:
    declared = scenario.declared()
    found = queries_of([asdict(claim) for claim in scenario.claims])
    for number, entry in enumerate(declared["expected"]):
        found[f"expected {number}"] = (
            f"SELECT count(*) > 0 AS holds, '' AS observed FROM life WHERE {entry['where']}"
        )
    return found


@pytest.mark.parametrize("name", sorted(all_scenarios()))
def test_claims_are_sql(name: str, empty: Any) -> None:
    """Each query has the two columns that a claim's answer needs."""
    for claim, query in _queries(all_scenarios()[name]).items():
        assert empty.sql(resolve(query, Moments()).sql).columns == ["holds", "observed"], claim


@pytest.mark.parametrize("name", sorted(all_scenarios()))
def test_no_claim_holds_where_nothing_was_seen(name: str, empty: Any) -> None:
    """With every mark set and every table empty, no claim is confirmed and no erratum holds."""
    claims = [asdict(claim) for claim in all_scenarios()[name].claims if not claim.precondition]
    marks = {mark: 10**9 * n for n, mark in enumerate(marks_named(" ".join(queries_of(claims).values())))}
    answers = ask(empty, queries_of(claims), Moments(marks=marks))
    assert [claim for claim, answer in answers.items() if answer.holds] == []
