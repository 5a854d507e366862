"""Transactions of a history judged in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.evidence import gather
from checkers.judging.plan import judge_all
from checkers.judging.run import run_here
from checkers.judging.tasks import JudgingContext
from checkers.judging.transactions import conclude
from checkers.tables.output import ANOMALY, FINDING, TRANSACTION, TRANSACTION_RECORD
from checkers.tables.source import open_source
from tests.histories import History


def judged(history: History, folder: Path, **options: int) -> dict[str, list[dict[str, Any]]]:
    """Findings, transactions and records, judged in this process."""
    return judged_folder(history.write(folder), **options)


def judged_folder(folder: Path, **options: int) -> dict[str, list[dict[str, Any]]]:
    """The same of a history that was written to a folder."""
    source = open_source(folder)
    evidence = gather(source)
    places = {name: folder / "out" / name for name in ("life", "findings", "transactions")}
    for place in (*places.values(), places["transactions"] / "parts", places["transactions"] / "records"):
        place.mkdir(parents=True)
    job = JudgingContext(
        source=source, evidence=evidence, **{name: str(place) for name, place in places.items()}
    )
    tallies = judge_all(run_here, job, **options)  # type: ignore[arg-type]
    tallies = conclude(source, evidence, places["transactions"], places["findings"], tallies)
    counted = sum(row["count"] for row in tallies.to_pylist() if row["kind"] == "finding")
    found = {
        "findings": rows(places["findings"].glob("*.parquet"), FINDING),
        "fates": rows(places["transactions"].glob("fates.parquet"), TRANSACTION),
        "anomalies": rows(places["transactions"].glob("anomalies.parquet"), ANOMALY),
        "records": rows((places["transactions"] / "records").glob("*.parquet"), TRANSACTION_RECORD),
    }
    assert len(found["findings"]) == counted
    return found


def rows(paths: Any, schema: pa.Schema) -> list[dict[str, Any]]:
    tables = [pq.read_table(path, schema=schema) for path in sorted(paths)]
    found: list[dict[str, Any]] = pa.concat_tables([schema.empty_table(), *tables]).to_pylist()
    return found


def ordered(found: list[dict[str, Any]]) -> list[str]:
    """Rows in a fixed order, with columns in a fixed order."""
    return sorted(str(sorted(row.items())) for row in found)
