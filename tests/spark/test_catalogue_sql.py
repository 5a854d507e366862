"""The SQL of every claim and expectation of the catalogue is understood by Spark, without any run."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from typing import Any

import pytest

from checkers.claims.evaluate import ask, queries_of
from checkers.claims.moments import Moments, marks_named
from checkers.spark.session import settings_for_small_data
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
def test_claims_are_sql_and_do_not_hold_where_nothing_was_seen(name: str, empty: Any) -> None:
    """With every mark set and every table empty no claim is confirmed and no erratum holds."""
    scenario = all_scenarios()[name]
    queries = _queries(scenario)
    marks = {mark: 10**9 * n for n, mark in enumerate(marks_named(" ".join(queries.values())))}
    with settings_for_small_data(empty):
        answers = ask(empty, queries, Moments(marks=marks))
    preconditions = {claim.name for claim in scenario.claims if claim.precondition}
    held = {claim for claim, answer in answers.items() if answer.holds} - preconditions
    if not _is_former(scenario):
        assert {claim for claim in held if not claim.endswith("(given)")} == set()


def _is_former(scenario: Scenario) -> bool:
    """Its claims are written with builders that may hold although nobody looked."""
    module = inspect.getmodule(scenario.body)
    return module is not None and "checkers.claims.former" in inspect.getsource(module)
