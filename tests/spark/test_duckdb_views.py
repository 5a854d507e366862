"""The tables and views of `examples/views.sql` in DuckDB, against those of `acked sql`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from checkers.ask import document
from checkers.ask.sql import Queries
from checkers.ask.views import RUN_VIEWS
from checkers.judge import judge
from checkers.spark.views import DERIVED
from harness.history.schema import TABLES
from harness.history.tables import write_into
from tests.runs.stored import read_stored

pytestmark = pytest.mark.spark

FILE = Path(__file__).parents[2] / "examples" / "views.sql"
FEW = ("leader-az-isolated", "delayed-end-txn", "kraft-leader-az-isolated")
"""A run with losses and one with blocked readers, both with ZooKeeper, and one with KRaft."""
MORE = ("no-fault", "migration-az-cut", "fenced-zombie-producer-v2", "late-produce-v2")


def test_file_is_what_spark_gets() -> None:
    assert FILE.read_text(encoding="utf-8") == document.sql()


def judged(spark: Any, folder: Path, name: str) -> Path:
    """The run folder of a stored run, written and judged as a run is."""
    stored = read_stored(name)
    run = folder / name / "2026-11-22T01-59-12"
    for table, schema in TABLES.items():
        write_into(run / "history", table, stored.tables.get(table, schema.arrow().empty_table()))
    manifest = {"status": "complete", "scenario": name, "kafka": stored.kafka, "mode": stored.mode}
    (run / "run.json").write_text(json.dumps(manifest))
    (run / "claims.json").write_text(json.dumps({"claims": [], "expected": []}))
    judge(spark, run)
    return run


def rows_of(rows: Any) -> list[str]:
    """Rows in an order of their own."""
    return sorted(repr(tuple(row)) for row in rows)


@pytest.mark.parametrize("names", [FEW, pytest.param(MORE, marks=pytest.mark.long)], ids=["few", "more"])
def test_views_have_the_same_rows_in_duckdb_and_in_spark(
    spark: Any, tmp_path: Path, names: tuple[str, ...]
) -> None:
    runs = [judged(spark, tmp_path, name) for name in names]
    queries, filled = Queries(runs), set()
    with duckdb.connect() as db:
        db.execute("SET VARIABLE runs = ?", [str(tmp_path / "*" / "2026-*")])
        db.execute(FILE.read_text(encoding="utf-8"))
        for name in RUN_VIEWS:
            cursor = db.execute(f"SELECT * FROM {name}")
            columns, rows = [column[0] for column in cursor.description], cursor.fetchall()
            answer = queries.ask(spark, f"SELECT * FROM {name}")
            assert columns == list(answer.columns), name
            assert rows_of(rows) == rows_of(answer.rows), name
            filled |= {name} if rows else set()
    assert filled == RUN_VIEWS.keys() or names is MORE


def test_every_table_of_a_judged_run_is_a_folder_that_pandas_reads(spark: Any, tmp_path: Path) -> None:
    run = judged(spark, tmp_path, "leader-az-isolated")
    for name in TABLES:
        assert (run / "history" / f"{name}.parquet").is_dir(), name
    for name, schema in DERIVED.items():
        table = pd.read_parquet(run / f"{name}.parquet")
        assert list(table.columns) == schema.names, name
    life = pd.read_parquet(run / "life.parquet")
    lost = duckdb.sql(f"SELECT count(*) FROM '{run}/life.parquet/*.parquet' WHERE fate = 'lost'").fetchall()
    assert lost == [((life["fate"] == "lost").sum(),)] != [(0,)]
