"""Other ways to the same answer: the general plan's SQL in DuckDB, and a brute-force model in Python."""

from __future__ import annotations

from pathlib import Path

import duckdb

from checkers.general import BASE, STEPS
from harness.history.schema import TABLES

Finding = tuple[str, str, int, int | None, int | None, int | None]
"""class, topic, partition, offset, writer, seq"""

_SQL = {"int": "INTEGER", "long": "BIGINT", "text": "VARCHAR", "flag": "BOOLEAN", "ints": "INTEGER[]"}


def duckdb_findings(folder: Path) -> list[Finding]:
    """Findings of a history folder as DuckDB sees them."""
    with duckdb.connect() as db:
        db.execute("set threads to 1")
        for name, (table, columns) in BASE.items():
            file = folder / f"{table}.parquet"
            if file.exists():
                source = f"read_parquet('{file}')"
            else:
                fields = ", ".join(
                    f'null::{_SQL.get(c.kind, "VARCHAR")} as "{c.name}"' for c in TABLES[table].columns
                )
                source = f"(select {fields} limit 0)"
            quoted = columns.format(offset='"offset"', group='"group"')
            db.execute(f"create temp table {name} as select {quoted} from {source}")
        for name, text in STEPS.items():
            db.execute(f"create temp table {name} as {text}")
        return db.execute("select class, t, p, o, w, q from found_all").fetchall()
