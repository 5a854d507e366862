"""Judging by the general plan: life and findings from DataFrame operations alone, wherever the files lie.

It shuffles, so it is slower than the fast path, but asks nothing of the layout; all that it reads and writes
goes through Spark, so a history may lie behind any URI that Hadoop knows.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.claims.evaluate import judge_claims, queries_of
from checkers.claims.expected import marked_frame, told
from checkers.evidence import Evidence
from checkers.general import life as whole
from checkers.general.views import plan
from checkers.health import check_health
from checkers.spark.views import register, table_frame
from checkers.tables.output import FINDING, TALLY, ddl
from checkers.tables.paths import inside, is_folder, is_uri, put
from checkers.tables.source import Source, remove
from harness.errors import BadDataError, UsageError
from harness.history.schema import TABLES

PLANS = ("auto", "fast", "general")
_SAMPLE = 200


class Laps(Protocol):
    """Takes the time of phases."""

    def lap(self, name: str) -> None:
        """The phase that ends now."""


def choose_plan(source: Source, evidence: Evidence, wanted: str) -> str:
    """`fast` wherever it serves: paths that every worker reads."""
    if wanted not in PLANS:
        raise UsageError(f"There is no plan {wanted!r}; it is one of {', '.join(PLANS)}.")
    if is_uri(source.folder):
        if wanted == "fast":
            raise UsageError(
                f"The fast plan reads paths, not {source.folder}; leave --plan out, or mount the folder."
            )
        return "general"
    return "fast" if wanted == "auto" else wanted


def judge_generally(
    session: Any,
    source: Source,
    evidence: Evidence,
    out: str | None,
    declared: Mapping[str, Any],
    clock: Laps,
) -> tuple[Any, dict[str, int], list[Any], list[dict[str, Any]]]:
    """Tallies, expected findings by class, claims and a sample; life and findings lie in ``out``."""
    claims, expected = declared.get("claims", []), declared.get("expected", [])
    refuse_impossible(session, source)
    scratch = inside(out or source.folder, f".acked-judge-{uuid.uuid4().hex[:8]}")
    life, findings = inside(scratch, "life.parquet"), inside(scratch, "findings.parquet")
    try:
        with plan(session, source, whole_rows=True):
            whole.life(session, evidence).write.parquet(inside(scratch, "wide"))
            wide = session.read.parquet(inside(scratch, "wide"))
            wide.drop("further", "evidence").write.parquet(life)
            wide.createOrReplaceTempView("x_life")
            whole.findings(session, "x_life").write.parquet(inside(scratch, "found"))
        clock.lap("fates")
        lives = session.read.parquet(life)
        found = session.read.schema(ddl(FINDING)).parquet(inside(scratch, "found"))
        found = found.unionAll(_health(session, evidence))
        register(session, source, [*queries_of(claims).values(), *(entry["where"] for entry in expected)])
        marked = marked_frame(found, lives, expected) if expected else found
        marked.write.parquet(findings)
        clock.lap("findings")
        lives.createOrReplaceTempView("life")
        session.read.schema(ddl(FINDING)).parquet(findings).createOrReplaceTempView("findings")
        results = judge_claims(session, claims)
        clock.lap("claims")
        tallies, expectations = _counted(session), _expected(session)
        rows = session.sql(
            "select * from findings order by expected, topic, partition, coalesce(`offset`, 0) "
            f"limit {_SAMPLE}"
        )
        sample = [told(row, evidence.start_ns) for row in rows.toArrow().to_pylist()]
        if out is not None:
            for name, place in (("life.parquet", life), ("findings.parquet", findings)):
                put(place, inside(out, name))
        clock.lap("write")
    finally:
        if is_folder(scratch):
            remove(scratch)
    return tallies, expectations, results, sample


def _health(session: Any, evidence: Evidence) -> Any:
    """Findings about the run itself, as a DataFrame."""
    with tempfile.TemporaryDirectory(prefix="acked-health-") as folder:
        check_health(evidence, Path(folder), TALLY.empty_table())
        parts = [pq.read_table(path, schema=FINDING) for path in Path(folder).glob("*.parquet")]
    rows = [row for part in parts for row in part.to_pylist()]
    return session.createDataFrame([tuple(row.values()) for row in rows], ddl(FINDING))


def _counted(session: Any) -> Any:
    fates = session.sql(
        "select 'fate' as kind, topic, partition, writer, outcome, fate as name, count(*) as count "
        "from life group by topic, partition, writer, outcome, fate"
    ).toArrow()
    found = session.sql(
        "select 'finding' as kind, topic, partition, class as name, count(*) as count "
        "from findings group by topic, partition, class"
    ).toArrow()
    tables = []
    for table in (fates, found):
        columns = [
            table[field.name].cast(field.type)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
            for field in TALLY
        ]
        tables.append(pa.table(columns, schema=TALLY))
    return pa.concat_tables(tables)


def _expected(session: Any) -> dict[str, int]:
    rows = session.sql("select class, count(*) as n from findings where expected group by class").collect()
    return {row["class"]: row["n"] for row in rows}


_IMPOSSIBLE = {
    "sends": (
        "outcome is not null and outcome not in ('ok', 'fail', 'info')",
        "`offset` < -1",
        "writer < 0",
        "seq < 0",
        "done_ns < sent_ns",
    ),
    "copies": ("broker < 0", "`offset` < 0"),
}
_ONCE = {
    "sends": ("writer", "seq"),
    "copies": ("topic", "partition", "broker", "offset"),
}


def refuse_impossible(session: Any, source: Source) -> None:
    """Raise BadDataError for values that cannot be, as the fast path does."""
    for name, conditions in _IMPOSSIBLE.items():
        frame = table_frame(session, source, name)
        needed = [column.name for column in TABLES[name].columns if column.required]
        nulls = tuple(f"`{column}` is null" for column in needed)
        for condition in (*nulls, *conditions):
            if frame.filter(condition).limit(1).count():
                raise BadDataError(
                    f"{source.folder}/{name}.parquet holds rows with {condition.replace('`', '')}, "
                    f"which cannot be."
                )
        keys = _ONCE[name]
        twice = frame.groupBy(*keys).count().filter("count > 1").limit(1).collect()
        if twice:
            place = ", ".join(f"{key} {twice[0][key]}" for key in keys)
            raise BadDataError(
                f"{source.folder}/{name}.parquet holds {place} twice; it may be there only once."
            )
