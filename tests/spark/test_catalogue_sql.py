"""The SQL of every claim and expectation of the catalogue is understood by Spark, without any run."""

from __future__ import annotations

from typing import Any

import pytest

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
    found = {}
    for claim in scenario.claims:
        found[claim.name] = claim.holds
        if claim.given:
            found[f"{claim.name} (given)"] = claim.given
        if claim.erratum:
            found[f"{claim.name} (erratum)"] = claim.erratum.holds
    for number, entry in enumerate(scenario.expected):
        found[f"expected {number}"] = (
            f"SELECT count(*) > 0 AS holds, '' AS observed FROM life WHERE {entry.where}"
        )
    return found


@pytest.mark.parametrize("name", sorted(all_scenarios()))
def test_claims_are_sql(name: str, empty: Any) -> None:
    """Each query has the two columns that a claim's answer needs."""
    for claim, query in _queries(all_scenarios()[name]).items():
        assert empty.sql(query).columns == ["holds", "observed"], claim
