"""Transactions on Spark: both plans write the same tables, and claims and promises can use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkers.judge import judge_import
from tests.histories import together
from tests.transaction_anomalies import TRANSACTIONS

pytestmark = pytest.mark.spark

TABLES = ("findings", "transaction_fates", "transaction_records")


def rows(folder: Path, table: str) -> list[str]:
    found: list[dict[str, Any]] = pq.read_table(folder / f"{table}.parquet").to_pylist()
    return sorted(str(sorted(row.items())) for row in found)


def test_both_plans_write_the_same_about_transactions(spark: Any, tmp_path: Path) -> None:
    histories = {name: history for name, (_, history, _) in TRANSACTIONS.items()}
    fast, general = (together(histories, tmp_path / plan) for plan in ("fast", "general"))
    one, other = judge_import(spark, fast, plan="fast"), judge_import(spark, general, plan="general")
    for table in TABLES[1:]:
        assert rows(fast, table) == rows(general, table)
    expected = sorted(
        (name, c, p, o, q) for name, (_, _, all_) in TRANSACTIONS.items() for c, p, o, q in all_
    )
    for folder in (fast, general):
        found = pq.read_table(folder / "findings.parquet").to_pylist()
        places = [(r["topic"], r["class"], r["partition"], r["offset"], r["seq"]) for r in found]
        assert sorted(places, key=str) == sorted(expected, key=str)
    assert one.findings_by_class == other.findings_by_class
    assert sorted(map(str, one.promises)) == sorted(map(str, other.promises))
    assert {"KAFKA-17754", "KAFKA-20716"} <= {row["known_bug"] for row in one.promises}
