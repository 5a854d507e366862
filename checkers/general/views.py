"""The steps of the general plan as temporary views of a Spark session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from checkers.general import life as whole
from checkers.general.steps import BASE, SHARED, STEPS, sql_of
from checkers.spark.views import table_frame
from checkers.tables.source import Source


@contextmanager
def plan(session: SparkSession, source: Source, *, whole_rows: bool = False) -> Iterator[None]:
    """Register the working tables and all steps as temporary views, for as long as the context lasts.

    ``whole_rows`` adds the steps of `checkers.general.life`, so that life and findings have all columns.
    """
    base = {**BASE, **(whole.BASE if whole_rows else {})}
    steps = {**STEPS, **(whole.STEPS if whole_rows else {})}
    names = [*base, *steps, "listed"]
    try:
        for name, (table, columns) in base.items():
            frame = table_frame(session, source, table)
            row = "0L"
            if "{row}" in columns and source.paths(table):
                frame, row = frame.selectExpr("*", "_metadata.row_index as row_index"), "row_index"
            quoted = columns.format(offset="`offset`", group="`group`", row=row)
            frame.selectExpr(*_split(quoted)).createOrReplaceTempView(name)
        there = str("replicas" in source.files).lower()
        session.sql(f"select {there} as there").createOrReplaceTempView("listed")
        for name, text in steps.items():
            frame = session.sql(sql_of(text))
            if name in SHARED:
                frame = frame.localCheckpoint()
            frame.createOrReplaceTempView(name)
        yield
    finally:
        for name in names:
            session.catalog.dropTempView(name)


def _split(columns: str) -> list[str]:
    """A list of expressions, split at the commas that stand in no brackets."""
    parts, depth, current = [], 0, ""
    for letter in columns:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    return [*parts, current.strip()]
