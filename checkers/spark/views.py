"""Every table of a history, and life and findings, as temporary views of a Spark session."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow.parquet as pq

from checkers.tables.output import FINDING, LIFE, ddl
from checkers.tables.source import Source, read_small
from harness.history.schema import SPARK, TABLES, VIEWS

DERIVED = {"life": LIFE, "findings": FINDING}
LITTLE = 100_000
"""Up to so many rows a table may be handed to Spark as rows: opening files takes longer than what it asks."""


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


def output_frame(session: Any, name: str, paths: list[str], *, little: bool = False) -> Any:
    """`life` or `findings` from the files that the checker wrote; with ``little`` as rows."""
    text = ddl(DERIVED[name])
    if little and paths:
        return session.createDataFrame(pq.read_table(paths, schema=DERIVED[name]))
    return session.read.schema(text).parquet(*paths) if paths else session.createDataFrame([], text)


def register(
    session: Any, source: Source, queries: Iterable[str] | None = None, *, little: bool = False
) -> None:
    """Register the history's tables and views in the session: all, or those that the queries name.

    With ``little`` tables of few rows are registered as rows instead of as files.
    """
    words = None if queries is None else _words(" ".join(queries))
    wanted = [name for name in VIEWS if words is None or name in words]
    if words is not None:
        words |= _words(" ".join(VIEWS[name] for name in wanted))
    for name in TABLES:
        if words is None or name in words:
            rows = little and source.rows(name) <= LITTLE
            frame = (_as_rows if rows else table_frame)(session, source, name)
            frame.createOrReplaceTempView(name)
    for name in wanted:
        # As plain rows: the view's own sub-query inside a claim's could starve Spark's sub-query threads.
        rows = session.sql(VIEWS[name]).toArrow()
        session.createDataFrame(rows).createOrReplaceTempView(name)


def _as_rows(session: Any, source: Source, name: str) -> Any:
    return session.createDataFrame(read_small(source, name).cast(TABLES[name].arrow()))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
