"""Checks that the gate and Spark accept the SQL of a scenario, on empty tables and without a run.

`python -m checkers.claims.understood` reads declarations, as `claims.json` holds them, from standard input: a
JSON list. It prints a list of objects: for each declaration, the queries that Spark refuses, and why.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from checkers.claims.evaluate import queries_of
from checkers.claims.expected import OF_LIFE
from checkers.claims.moments import Moments, resolve
from checkers.spark.errors import reason
from checkers.spark.gate import RefusedQueryError, require_condition, require_query
from checkers.spark.reader_views import READER_VIEWS
from checkers.spark.session import start_session
from checkers.spark.views import DERIVED, NAMES
from checkers.tables.output import ddl
from harness.errors import AckedError
from harness.history.schema import TABLES, VIEWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_EXPECTED = f"(SELECT f.*, {', '.join(f'l.`{name}`' for name in OF_LIFE)} FROM findings f JOIN life l)"
"""What the condition of an expected finding queries; see `checkers.claims.expected.mark_expected`."""


def make_empty_tables(session: SparkSession) -> None:
    """Register every table and view that SQL may name, without rows."""
    for name, table in TABLES.items():
        session.createDataFrame([], table.spark_ddl()).createOrReplaceTempView(name)
    for name, query in VIEWS.items():
        session.sql(query).createOrReplaceTempView(name)
    for name, schema in DERIVED.items():
        session.createDataFrame([], ddl(schema)).createOrReplaceTempView(name)
    for name, view in READER_VIEWS.items():
        session.sql(view("")).createOrReplaceTempView(name)


def queries_declared(declared: Mapping[str, Any]) -> dict[str, str]:
    """The queries of claims by the names of `queries_of`, and those of expected findings: `expected 1`."""
    queries = queries_of(declared["claims"])
    for number, entry in enumerate(declared["expected"], start=1):
        queries[f"expected {number}"] = (
            f"SELECT count(*) > 0 AS holds, '' AS observed FROM {_EXPECTED} WHERE {entry['where']}"
        )
    return queries


def refused(session: SparkSession, declared: Mapping[str, Any]) -> dict[str, str]:
    """The queries that the gate refuses or Spark does not understand, by name, with the reason."""
    from pyspark.errors import PySparkException

    reasons = {}
    conditions = {
        f"expected {number}": entry["where"] for number, entry in enumerate(declared["expected"], 1)
    }
    for name, query in queries_declared(declared).items():
        try:
            if name in conditions:
                require_condition(session, resolve(conditions[name], Moments()).sql, NAMES)
            text = require_query(session, resolve(query, Moments()).sql, NAMES)
            session.sql(f"SELECT holds, observed FROM (\n{text}\n)")
        except PySparkException as error:
            reasons[name] = reason(error)
        except RefusedQueryError as error:
            reasons[name] = f"{error}."
    return reasons


def main() -> int:
    """Answer for the declarations on standard input; returns the exit code."""
    try:
        session = start_session()
    except AckedError as error:
        sys.stderr.write(error.message)
        return error.exit_code
    make_empty_tables(session)
    json.dump([refused(session, declared) for declared in json.load(sys.stdin)], sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
