"""What is known of queries before Spark starts is what Spark says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkers.ask.names import columns_of
from checkers.ask.sql import Queries
from checkers.ask.views import QUERYABLE
from tests.spark.made_runs import explained, stored_run
from tests.unit.checkers.test_query_names import ACCEPTED

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Queries:
    return Queries([stored_run(tmp_path_factory.mktemp("runs") / "made-up" / "one", explained())])


def test_tables_and_views_have_the_columns_that_are_looked_up(spark: Any, queries: Queries) -> None:
    queries.register(spark)
    assert {name: tuple(spark.table(name).columns) for name in QUERYABLE} == {
        name: columns_of(name) for name in QUERYABLE
    }


@pytest.mark.parametrize("query", ACCEPTED)
def test_spark_accepts_what_is_let_through(spark: Any, queries: Queries, query: str) -> None:
    queries.ask(spark, query, 1)


def test_a_query_over_nothing_unknown_reaches_spark(spark: Any, tmp_path: Path) -> None:
    folder = stored_run(tmp_path / "made-up" / "two", explained())
    assert Queries([folder]).ask(spark, 'select "offset" as o from sends limit 1').rows == [("offset",)]
