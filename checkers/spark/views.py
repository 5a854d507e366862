"""Registers every table of a history, life and findings as temporary views of a Spark session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from checkers.spark.frames import are_local, by_workers
from checkers.spark.reader_views import READER_VIEWS
from checkers.tables.files import read_parquet
from checkers.tables.output import FINDING, LIFE, TRANSACTION_TABLES, ddl
from checkers.tables.source import Source, batches, read_small, read_whole
from harness.history.schema import SPARK, TABLES, VIEWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DERIVED = {"life": LIFE, "findings": FINDING, **TRANSACTION_TABLES}

NAMES = (*TABLES, *VIEWS, *DERIVED, *READER_VIEWS)
"""Every table and view that a claim may query."""

SMALL_ROWS = 100_000
"""Spark gets tables of up to this many rows as rows: opening their files takes longer than a query."""


def table_frame(session: SparkSession, source: Source, name: str) -> DataFrame:
    """One table of the history as a DataFrame with every column of the schema; empty when absent."""
    paths = source.paths(name)
    table = TABLES[name]
    if not paths:
        return session.createDataFrame([], table.spark_ddl())
    if not are_local(paths):
        return by_workers(session, paths, partial(read_whole, name), table.spark_ddl())
    if all(piece.exact for piece in source.files[name]):
        return session.read.schema(table.spark_ddl()).parquet(*paths)
    read = session.read.parquet(*paths)
    columns = [
        f"cast({f'`{c.name}`' if c.name in read.columns else 'null'} as {SPARK[c.kind]}) as `{c.name}`"
        for c in table.columns
    ]
    return read.selectExpr(*columns)


def output_frame(session: SparkSession, name: str, paths: list[str], *, small: bool = False) -> DataFrame:
    """`life` or `findings` from the files that the checker wrote; with ``small`` they are read here."""
    schema = DERIVED[name]
    if not paths:
        return as_rows(session, schema.empty_table())
    if small:
        return as_rows(session, pa.concat_tables([read_parquet(path, schema) for path in paths]))
    if not are_local(paths):
        return by_workers(session, paths, partial(_rows_of, name), ddl(schema))
    return session.read.schema(ddl(schema)).parquet(*paths)


def _rows_of(name: str, path: str) -> Iterator[pa.Table]:
    """The rows of a file that the checker wrote, in a worker."""
    schema = DERIVED[name]
    for batch in batches([path], schema.names):
        yield pa.Table.from_batches([batch]).cast(schema)


def forget(session: SparkSession) -> None:
    """Drop all tables and views of an earlier history, so that no query takes them for those of the next."""
    for name in NAMES:
        session.catalog.dropTempView(name)


def register(
    session: SparkSession, source: Source, queries: Iterable[str] | None = None, *, small: bool = False
) -> None:
    """Register the history's tables and views in the session: all, or those that the queries name.

    With ``small``, tables of up to `SMALL_ROWS` rows are read here and handed to Spark as rows.
    """
    words = None if queries is None else names_in(queries)
    views = [name for name in VIEWS if words is None or name in words]
    if words is not None:
        words |= names_in(VIEWS[name] for name in views)
    for name in TABLES:
        if words is None or name in words:
            is_small = small and source.rows(name) <= SMALL_ROWS
            frame = (_small_table if is_small else table_frame)(session, source, name)
            frame.createOrReplaceTempView(name)
    for name in views:
        # As rows, because sub-queries of the view inside those of a claim could block Spark's sub-query
        # threads.
        rows = session.sql(VIEWS[name]).toArrow()
        as_rows(session, rows).createOrReplaceTempView(name)


def as_rows(session: SparkSession, table: pa.Table) -> DataFrame:
    """A small table as a DataFrame, in one chunk: of several chunks Spark stops at the first empty one.

    Its only partition is known to be the only one, so that Spark plans no shuffle to aggregate it.
    """
    return session.createDataFrame(table.combine_chunks()).coalesce(1)


def _small_table(session: SparkSession, source: Source, name: str) -> DataFrame:
    return as_rows(session, read_small(source, name).cast(TABLES[name].arrow()))


def names_in(queries: Iterable[str]) -> set[str]:
    """All words of some SQL texts, and of the readers' views that they name, in lower case."""
    words = set(re.findall(r"\w+", " ".join(queries).lower()))
    views = [READER_VIEWS[name]("") for name in words & READER_VIEWS.keys()]
    return words | names_in(views) if views else words
