"""Marks the findings that a scenario expects, and takes a bounded sample of findings for people."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from checkers.claims.moments import Moments, resolve
from checkers.spark.errors import reason, spark_errors
from checkers.spark.frames import write_frame
from checkers.spark.gate import LIMIT_S, RefusedQueryError, deadline, require_condition
from checkers.spark.views import NAMES, output_frame
from checkers.tables.files import inside, move, open_parquet, parquet_files, remove, write_parquet
from checkers.tables.output import FINDING, LIFE
from checkers.tables.source import batches
from harness.errors import BadDataError, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OF_LIFE = tuple(field.name for field in LIFE if field.name not in FINDING.names)
"""Columns of `life` that a condition may name besides those of findings."""
_KEEP_WHOLE = 300_000
"""Up to this many findings are rewritten as one file by the driver; more are left to Spark."""


def mark_expected(
    session: SparkSession,
    lives: DataFrame,
    findings: str,
    expected: Sequence[Mapping[str, str]],
    moments: Moments,
    *,
    small: bool = False,
) -> None:
    """Fill the column `expected` of the files in the folder ``findings``.

    ``lives`` is life as a DataFrame. If ``small`` is set, Spark gets rows instead of the files.
    Raises BadDataError naming the condition that is refused or cannot be understood.
    """
    parts = parquet_files(findings)
    if not expected or not parts:
        return
    findings_frame = output_frame(session, "findings", parts, small=small)
    marked = _marked(findings_frame, lives, expected, moments)
    with deadline(session) as limit:
        try:
            _rewrite(marked, findings, parts)
            return
        except spark_errors() as error:
            if not limit.expired:
                raise BadDataError(
                    f"The conditions of expected findings fail when run: {reason(error)}"
                ) from error
    raise BadDataError(
        f"The conditions of expected findings did not end within {LIMIT_S:g} s; simplify them."
    )


def _marked(
    findings: DataFrame, lives: DataFrame, expected: Sequence[Mapping[str, str]], moments: Moments
) -> DataFrame:
    """Findings with their column `expected` filled, given life; as DataFrames.

    A condition may name the columns of the finding, and the columns of `life` for its message.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    keys = {name: f"_life_{name}" for name in ("topic", "writer", "seq")}
    lives = lives.selectExpr(
        *(f"{name} as {key}" for name, key in keys.items()), *(f"`{name}`" for name in OF_LIFE)
    )
    same_message = " AND ".join(f"{name} = {key}" for name, key in keys.items())
    joined = findings.join(lives, f.expr(same_message), "left")
    covered = f.lit(False)
    session = findings.sparkSession
    for entry in expected:
        condition = f.coalesce(_condition(session, entry, moments), f.lit(False))
        covered |= (f.col("class") == entry["finding"]) & condition
    columns = [covered.alias(name) if name == "expected" else f.col(name) for name in FINDING.names]
    try:
        return joined.select(*columns)
    except PySparkException:
        for entry in expected:  # Spark plans each condition separately only to find the one that is wrong
            with _named(entry):
                joined.filter(_condition(session, entry, moments))
        raise


def _condition(session: SparkSession, entry: Mapping[str, str], moments: Moments) -> Column:
    """The condition of one expectation. Raises BadDataError if it is refused, or no SQL expression."""
    from pyspark.sql import functions as f

    with _named(entry):
        return f.expr(require_condition(session, resolve(entry["where"], moments).sql, NAMES))


@contextmanager
def _named(entry: Mapping[str, str]) -> Iterator[None]:
    """Raise BadDataError with the condition when the gate refuses it, or Spark cannot understand it."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, RefusedQueryError) as error:
        refused = isinstance(error, RefusedQueryError)
        raise BadDataError(
            f"The condition of expected {quoted(entry['finding'])} ({quoted(entry['where'])}) "
            + (f"is refused: {error}." if refused else f"cannot be understood: {reason(error)}")
        ) from error


def _rewrite(marked: DataFrame, findings: str, parts: Sequence[str]) -> None:
    """Replace the findings' files."""
    if sum(_rows(path) for path in parts) <= _KEEP_WHOLE:
        table = marked.toArrow().cast(FINDING)
        for path in parts:
            remove(path)
        write_parquet(inside(findings, "part-0.parquet"), table)
    else:
        beside = f"{findings}-marked"
        write_frame(marked, beside, FINDING)
        for path in parts:
            remove(path)
        for path in parquet_files(beside):
            move(path, inside(findings, path.rpartition("/")[2]))
        remove(beside)


def _rows(path: str) -> int:
    with open_parquet(path) as parquet:
        return int(parquet.metadata.num_rows)


def sample_findings(findings: str, limit: int, zero_ns: int, acks: Mapping[int, int]) -> list[dict[str, Any]]:
    """Up to ``limit`` findings, `described`: unexpected ones first, then by place."""
    chosen: list[tuple[tuple[Any, ...], int, dict[str, Any]]] = []
    taken = 0
    for path in parquet_files(findings):
        for batch in batches([path], [field.name for field in FINDING]):
            table = pa.Table.from_batches([batch])
            for expected in (False, True):
                part = table.filter(pa.compute.equal(table["expected"], expected)).slice(0, limit)
                for row in part.to_pylist():
                    taken += 1
                    where = (row["topic"] or "", row["partition"] or 0, row["offset"] or 0)
                    place = (row["expected"], *where)  # a finding about the run has no partition
                    chosen.append((place, taken, row))
            chosen = heapq.nsmallest(limit, chosen)
    return described((row for _, _, row in sorted(chosen, key=lambda c: c[:2])), zero_ns, acks)


def described(
    rows: Iterable[Mapping[str, Any]], zero_ns: int, acks: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Findings in the form that people are shown.

    ``acked_s`` counts from ``zero_ns``; ``message`` names the message, ``fault`` the fault in force;
    ``acks`` is what its producer waited for.
    """
    return [
        {
            **row,
            "message": _message(row),
            "acked_s": None if row["acked_ns"] is None else round((row["acked_ns"] - zero_ns) / 1e9, 3),
            "fault": row["acked_during"],
            "acks": acks.get(row["writer"]),
        }
        for row in rows
    ]


def _message(row: Mapping[str, Any]) -> str | None:
    if row["writer"] is None and row["seq"] is None:
        return None
    label = f" ({row['label']})" if row["label"] else ""
    return f"{row['writer']}/{row['seq']}{label}"
