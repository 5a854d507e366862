"""Every table of a history, and life and findings, as temporary views of a Spark session."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from checkers.columns import FINDING, LIFE, ddl
from checkers.source import Source
from harness.history.schema import SPARK, TABLES, VIEWS

DERIVED = {"life": LIFE, "findings": FINDING}


def table_frame(session: Any, source: Source, name: str) -> Any:
    """One table of the history as a DataFrame with every column of the schema; empty when absent."""
    paths = source.paths(name)
    table = TABLES[name]
    if not paths:
        return session.createDataFrame([], table.spark_ddl())
    if all(piece.exact for piece in source.files[name]):
        return session.read.schema(table.spark_ddl()).parquet(*paths)
    read = session.read.parquet(*paths)
    columns = [
        f"cast({f'`{c.name}`' if c.name in read.columns else 'null'} as {SPARK[c.kind]}) as `{c.name}`"
        for c in table.columns
    ]
    return read.selectExpr(*columns)


def output_frame(session: Any, name: str, paths: list[str]) -> Any:
    """`life` or `findings` from the files that the checker wrote."""
    text = ddl(DERIVED[name])
    return session.read.schema(text).parquet(*paths) if paths else session.createDataFrame([], text)


def register(session: Any, source: Source, queries: Iterable[str] | None = None) -> None:
    """Register the history's tables and views in the session: all, or those that the queries name."""
    words = None if queries is None else _words(" ".join(queries))
    wanted = [name for name in VIEWS if words is None or name in words]
    if words is not None:
        words |= _words(" ".join(VIEWS[name] for name in wanted))
    for name in TABLES:
        if words is None or name in words:
            table_frame(session, source, name).createOrReplaceTempView(name)
    for name in wanted:
        # As plain rows: the view's own sub-query inside a claim's could starve Spark's sub-query threads.
        rows = session.sql(VIEWS[name]).toArrow()
        session.createDataFrame(rows).createOrReplaceTempView(name)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
