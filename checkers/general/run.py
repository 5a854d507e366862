"""Judges by the general plan: life and findings from DataFrame operations alone, wherever the files are.

It shuffles, so it is slower than the fast plan, but it works with any layout of files. It reads and writes
only through Spark, so a history may be at any URI that Hadoop knows.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from checkers.claims.expected import described, marked_frame
from checkers.claims.moments import Moments
from checkers.evidence import Evidence
from checkers.general import life as whole
from checkers.general.steps import BASE, SHARED, STEPS, sql_of
from checkers.general.transactions import QUERIES as TRANSACTION_QUERIES
from checkers.health import check_health
from checkers.promises.facts import Facts
from checkers.promises.judging import COLUMNS, with_promises
from checkers.spark.views import table_frame
from checkers.tables.output import (
    FINDING,
    ISOLATION,
    TALLY,
    TRANSACTION,
    TRANSACTION_RECORD,
    TRANSACTION_TABLES,
    ddl,
)
from checkers.tables.source import Source, file_system, inside, is_folder, remove
from checkers.transactions import isolation
from checkers.transactions.fates import suspects
from checkers.transactions.findings import findings_of
from harness.errors import BadDataError
from harness.history.schema import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class GeneralResults:
    """Life and findings of the general plan, in a scratch folder or URI; see `checkers.judge.Results`."""

    session: SparkSession
    evidence: Evidence
    scratch: str
    """Holds `life.parquet` and, once expected findings are marked, `findings.parquet`."""
    life: DataFrame
    unmarked: DataFrame

    def mark_expected(self, expected: Sequence[Mapping[str, Any]], moments: Moments) -> Mapping[str, int]:
        """Fill the findings' column `expected`; returns the expected findings by class."""
        marked = marked_frame(self.unmarked, self.life, expected, moments) if expected else self.unmarked
        marked.write.parquet(self._findings)
        rows = self.findings().filter("expected").groupBy("class").count().collect()
        return {row["class"]: row["count"] for row in rows}

    def findings_of(self, classes: Sequence[str]) -> pa.Table:
        """The findings of some classes."""
        from pyspark.sql import functions as f

        return self.findings().filter(f.col("class").isin(list(classes))).toArrow()

    def judge_promises(self, facts: Facts, *, decisive: bool) -> pa.Table:
        """Fill the columns about promises; returns their counts."""
        judged = inside(self.scratch, "judged.parquet")

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                table = pa.Table.from_batches([batch]).cast(FINDING)
                yield from with_promises(table, facts, decisive=decisive).combine_chunks().to_batches()

        self.findings().mapInArrow(work, ddl(FINDING)).write.parquet(judged)
        _put(judged, self._findings)
        return self.findings().groupBy("class", *COLUMNS, "expected").count().toArrow()

    def findings(self) -> DataFrame:
        """All findings."""
        return self.session.read.schema(ddl(FINDING)).parquet(self._findings)

    def tallies(self) -> pa.Table:
        """Fates and findings, counted."""
        fates = self.life.groupBy("topic", "partition", "writer", "outcome", "fate").count()
        found = self.findings().groupBy("topic", "partition", "class").count()
        return pa.concat_tables(
            [
                _tally("fate", fates.withColumnRenamed("fate", "name").toArrow()),
                _tally("finding", found.withColumnRenamed("class", "name").toArrow()),
            ]
        )

    def sample(self, limit: int) -> list[dict[str, Any]]:
        """Up to ``limit`` findings for people, unexpected ones first."""
        from pyspark.sql import functions as f

        order = ("expected", "topic", "partition", f.coalesce("offset", f.lit(0)))
        rows = self.findings().orderBy(*order).limit(limit).toArrow().to_pylist()
        return described(rows, self.evidence.start_ns, self.evidence.acks)

    def keep(self, out: str) -> None:
        """Put life and findings into the folder or URI ``out``."""
        for name in ("life.parquet", "findings.parquet"):
            _put(inside(self.scratch, name), inside(out, name))
        for name, frame in self.transactions(TRANSACTION_TABLES).items():
            if frame.isEmpty():
                _discard(inside(out, f"{name}.parquet"))
            else:
                _put(inside(self.scratch, f"{name}.parquet"), inside(out, f"{name}.parquet"))

    def transactions(self, names: Collection[str]) -> Mapping[str, DataFrame]:
        """Those of the tables about transactions that are among ``names``."""
        return {
            name: self.session.read.schema(ddl(schema)).parquet(inside(self.scratch, f"{name}.parquet"))
            for name, schema in TRANSACTION_TABLES.items()
            if name in names
        }

    @property
    def _findings(self) -> str:
        return inside(self.scratch, "findings.parquet")


def _put(source: str, target: str) -> None:
    """Put a folder at a place where a file or folder may exist already."""
    _discard(target)
    system, inner = file_system(target)
    system.move(file_system(source)[1], inner)


def _discard(target: str) -> None:
    """Remove a file or a folder, if it is there."""
    system, inner = file_system(target)
    kind = system.get_file_info(inner).type
    if kind == pafs.FileType.Directory:
        system.delete_dir(inner)
    elif kind == pafs.FileType.File:
        system.delete_file(inner)


def _fitted(frame: DataFrame, name: str) -> DataFrame:
    """A frame with the column types of an output table."""
    kinds = dict(part.strip().split(" ", 1) for part in ddl(TRANSACTION_TABLES[name]).split(", "))
    return frame.selectExpr(*(f"cast({column} as {kind}) as {column}" for column, kind in kinds.items()))


def _of_transactions(session: SparkSession, source: Source, evidence: Evidence, scratch: str) -> DataFrame:
    """Findings about transactions, as a DataFrame."""
    from pyspark.sql import functions as f

    fates, records = (
        session.read.schema(ddl(TRANSACTION_TABLES[name])).parquet(inside(scratch, f"{name}.parquet"))
        for name in TRANSACTION_QUERIES
    )
    anomalies = _isolation(session, source, records, scratch)
    odd = suspects(fates.filter("finding is not null").toArrow().cast(TRANSACTION))
    if not odd.num_rows:
        return _as_findings(session, anomalies)
    keys = session.createDataFrame(odd.select(["writer", "txn"]))
    own = records.join(keys, ["writer", "txn"])
    places = own.select("topic", "partition", "marker_offset").distinct()
    also = records.join(places, ["topic", "partition", "marker_offset"])
    names = TRANSACTION_RECORD.names
    both = own.select(*map(f.col, names)).unionAll(also.select(*map(f.col, names))).distinct()
    found = findings_of(odd, both.toArrow().cast(TRANSACTION_RECORD), evidence)
    return _as_findings(session, pa.concat_tables([found, anomalies]))


def _as_findings(session: SparkSession, found: pa.Table) -> DataFrame:
    return session.createDataFrame([tuple(row.values()) for row in found.to_pylist()], ddl(FINDING))


def _isolation(session: SparkSession, source: Source, records: DataFrame, scratch: str) -> pa.Table:
    """Write the anomalies between transactions; returns the findings about them."""
    reads = table_frame(session, source, "reads").filter("txn is not null and txn_writer is not null")
    found = ISOLATION.empty_table()
    read = reads.select(*isolation.READ_COLUMNS).toArrow()
    if read.num_rows:
        found = isolation.anomalies_of(read, records.toArrow())
    rows = [tuple(row.values()) for row in found.to_pylist()]
    frame = session.createDataFrame(rows, ddl(ISOLATION))
    frame.write.parquet(inside(scratch, "isolation_anomalies.parquet"))
    return isolation.findings_of(found)


@contextmanager
def judge_generally(
    session: SparkSession, source: Source, evidence: Evidence, out: str | None
) -> Iterator[GeneralResults]:
    """Fates and findings by DataFrame operations; scratch files are in ``out``, or beside the history."""
    refuse_impossible(session, source)
    scratch = inside(out or source.folder, f".acked-judge-{uuid.uuid4().hex[:8]}")
    life = inside(scratch, "life.parquet")
    try:
        with _steps_as_views(session, source):
            whole.life(session, evidence).write.parquet(inside(scratch, "wide"))
            wide = session.read.parquet(inside(scratch, "wide"))
            wide.drop("further", "evidence").write.parquet(life)
            wide.createOrReplaceTempView("x_life")
            whole.findings(session, evidence, "x_life").write.parquet(inside(scratch, "found"))
            for name, text in TRANSACTION_QUERIES.items():
                frame = session.sql(text)
                if name == "transaction_records":
                    frame = frame.withColumnRenamed("at_offset", "offset")
                _fitted(frame, name).write.parquet(inside(scratch, f"{name}.parquet"))
        found = session.read.schema(ddl(FINDING)).parquet(inside(scratch, "found"))
        yield GeneralResults(
            session=session,
            evidence=evidence,
            scratch=scratch,
            life=session.read.parquet(life),
            unmarked=found.unionAll(_health(session, evidence)).unionAll(
                _of_transactions(session, source, evidence, scratch)
            ),
        )
    finally:
        if is_folder(scratch):
            remove(scratch)


# ---- the steps as temporary views


@contextmanager
def _steps_as_views(session: SparkSession, source: Source) -> Iterator[None]:
    """Register the working tables and all steps as temporary views, for as long as the context lasts."""
    base = {**BASE, **whole.BASE}
    steps = {**STEPS, **whole.STEPS}
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
    """A list of expressions, split at the commas outside brackets."""
    parts, depth, current = [], 0, ""
    for letter in columns:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    return [*parts, current.strip()]


# ---- findings about the run, counts, values that are refused


def _health(session: SparkSession, evidence: Evidence) -> DataFrame:
    """Findings about the run itself, as a DataFrame."""
    with tempfile.TemporaryDirectory(prefix="acked-health-") as folder:
        check_health(evidence, Path(folder), TALLY.empty_table())
        parts = [pq.read_table(path, schema=FINDING) for path in Path(folder).glob("*.parquet")]
    rows = [row for part in parts for row in part.to_pylist()]
    return session.createDataFrame([tuple(row.values()) for row in rows], ddl(FINDING))


def _tally(kind: str, counted: pa.Table) -> pa.Table:
    rows = counted.num_rows
    columns = [
        pa.repeat(pa.scalar(kind), rows)
        if field.name == "kind"
        else counted[field.name].cast(field.type)
        if field.name in counted.column_names
        else pa.nulls(rows, field.type)
        for field in TALLY
    ]
    return pa.table(columns, schema=TALLY)


_IMPOSSIBLE = {
    "sends": (
        "outcome is not null and outcome not in ('ok', 'fail', 'info')",
        "`offset` < -1",
        "writer < 0",
        "seq < 0",
        "done_ns < sent_ns",
    ),
    "copies": ("broker < 0", "`offset` < 0", "writer < 0", "seq < 0"),
    "reads": ("writer < 0", "seq < 0"),
}
_ONCE = {
    "sends": ("writer", "seq"),
    "copies": ("topic", "partition", "broker", "offset"),
}


def refuse_impossible(session: SparkSession, source: Source) -> None:
    """Raise BadDataError for impossible values, as the fast plan does."""
    for name, conditions in _IMPOSSIBLE.items():
        if not source.paths(name):
            continue
        frame = table_frame(session, source, name)
        needed = [column.name for column in TABLES[name].columns if column.required]
        nulls = tuple(f"`{column}` is null" for column in needed)
        for condition in (*nulls, *conditions):
            if frame.filter(condition).limit(1).count():
                raise BadDataError(
                    f"{source.folder}/{name}.parquet holds rows with {condition.replace('`', '')}, "
                    f"which is impossible."
                )
        keys = _ONCE.get(name, ())
        if not keys:
            continue
        twice = frame.groupBy(*keys).count().filter("count > 1").limit(1).collect()
        if twice:
            place = ", ".join(f"{key} {twice[0][key]}" for key in keys)
            raise BadDataError(f"{source.folder}/{name}.parquet holds {place} twice; it may occur only once.")
