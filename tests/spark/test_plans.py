"""The fast path and the general plan, run by DuckDB, name the same findings for the hand-written histories.

Spark's own run of the general plan is compared in `test_general`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkers.health import CLASSES
from checkers.judge import judge_import
from tests.histories import together
from tests.oracles import Finding, duckdb_findings
from tests.spark.anomalies import CASES, LISTED
from tests.spark.reader_anomalies import READERS

pytestmark = pytest.mark.spark
COLUMNS = ["class", "topic", "partition", "offset", "writer", "seq"]


def fast_findings(spark: Any, folder: Path) -> Counter[Finding]:
    judge_import(spark, folder)
    table = pq.read_table(folder / "findings.parquet", columns=COLUMNS)
    rows = (row for row in table.to_pylist() if row["class"] not in CLASSES)
    return Counter(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("cases", [CASES, READERS, LISTED], ids=["plain", "readers", "listed"])
def test_all_plans_agree(spark: Any, tmp_path: Path, cases: dict[str, Any]) -> None:
    folder = together({name: history for name, (_, history, _) in cases.items()}, tmp_path)
    fast = fast_findings(spark, folder)
    assert Counter(duckdb_findings(folder)) == fast
