"""Free SQL over one or more stored runs: all tables, each row with its run, and views.

Only queries run; a statement that would change or write something is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from checkers.claims.moments import names_moments, read_moments, resolve
from checkers.partition.fate import LOST
from checkers.spark.errors import reason, spark_errors
from checkers.spark.gate import RefusedQueryError, require_query
from checkers.spark.reader_views import READER_VIEWS
from checkers.spark.views import DERIVED, names_in, table_frame
from checkers.tables.output import ddl
from checkers.tables.source import open_source
from harness.errors import BadDataError, UsageError
from harness.history.schema import TABLES, VIEWS
from harness.plain_files import folders_with, require_plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_SECOND = "cast(floor((l.sent_ns - b.start_ns) / 1e9) as int)"
_BEGIN = "(SELECT run, min(sent_ns) AS start_ns FROM life GROUP BY run) b"
_LOST = str(LOST)

RUN_VIEWS: Mapping[str, str] = MappingProxyType(
    {
        "lost": f"""
            SELECT run, topic, partition, offset, label, writer, seq, writer_name, az, acks, acked_by,
                   acked_during, last_broker, fate, cause, cause_facts
            FROM life WHERE fate IN {_LOST}""",
        "losses": f"SELECT * FROM life WHERE fate IN {_LOST}",
        "availability": f"""
            SELECT l.run, {_SECOND} AS second, l.az, count(*) AS sent,
                   count_if(l.outcome = 'ok') AS ok, count_if(l.outcome = 'fail') AS fail,
                   count_if(l.outcome = 'info') AS info,
                   round(count_if(l.outcome = 'ok') / count(*), 4) AS share
            FROM life l JOIN {_BEGIN} ON l.run = b.run GROUP BY l.run, second, l.az""",
        "latency": """
            SELECT run, az, acks, sent_during, count(*) AS acknowledged,
                   round(percentile_approx((done_ns - sent_ns) / 1e6, 0.5), 3) AS p50_ms,
                   round(percentile_approx((done_ns - sent_ns) / 1e6, 0.99), 3) AS p99_ms,
                   round(max((done_ns - sent_ns) / 1e6), 3) AS max_ms
            FROM life WHERE outcome = 'ok' GROUP BY run, az, acks, sent_during""",
        "latencies": """
            SELECT run, writer_name, az, acks, outcome, (done_ns - sent_ns) / 1e6 AS ms, sent_ns,
                   sent_during FROM life WHERE done_ns IS NOT NULL""",
        "leaders": """
            SELECT run, topic, partition, epoch, leader, min(ns) AS since_ns,
                   collect_set(source) AS named_by
            FROM views WHERE subject = 'partition' AND leader IS NOT NULL AND topic IS NOT NULL
            GROUP BY run, topic, partition, epoch, leader""",
        "timeline": """
            SELECT run, ns, 'mark' AS kind, name AS what, text FROM marks
            UNION ALL SELECT run, ns, 'fault', concat(name, ': ', moment), targets FROM faults
            UNION ALL SELECT run, ns, 'process', concat(host, ' ', event), detail FROM processes
            UNION ALL SELECT run, ns, 'log', concat(host, ' ', kind), text FROM log_events""",
        **{name: view("run") for name, view in READER_VIEWS.items()},
    }
)
"""Views for common questions, besides those of the schema: `lost` messages (`losses`: with every column of
`life`), `availability` per second (since the first send) and AZ, `latency` per AZ and fault (`latencies`: of
each message), `leaders` that any source reported, by epoch, the `timeline` of events, `blocked_readers` by
partition and transaction, and when transactions were `readable_since`."""

_VIEWS: Mapping[str, str] = {
    **{name: text.replace("SELECT ns,", "SELECT run, ns,", 1) for name, text in VIEWS.items()},
    **RUN_VIEWS,
}
"""All views, those that others name first."""

QUERYABLE = (*TABLES, *DERIVED, *_VIEWS)
"""Every table and view that a query may name."""


def query(
    session: SparkSession, text: str, folders: Sequence[Path], limit: int | None = None
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of one query over the runs; ``limit`` rows at most.

    A query over one run may name its moments as claims do, for example `{mark:cut}`. Raises UsageError when
    ``text`` is not a query or cannot be run, BadDataError for a damaged run.
    """
    try:
        text = require_query(session, with_moments(text, folders), QUERYABLE)
    except RefusedQueryError as error:
        raise UsageError(
            "Only one query (SELECT, or WITH … SELECT) over the tables of docs/history.md can be run, "
            f"and {error}."
        ) from None
    register_runs(session, folders, text)
    try:
        frame = session.sql(text)
        rows = (frame if limit is None else frame.limit(limit)).collect()
    except spark_errors() as error:
        raise UsageError(
            f"The SQL cannot be run: {reason(error)} The tables are those of docs/history.md."
        ) from None
    return list(frame.columns), [_values(row) for row in rows]


def with_moments(text: str, folders: Sequence[Path]) -> str:
    """The query with the times of the moments that it names in braces.

    Raises UsageError when it names one and there are several runs, or when the run does not have it.
    """
    if not names_moments(text):
        return text
    if len(folders) != 1:
        raise UsageError(
            f"The query names a moment in braces, such as {{mark:cut}}, which differs from run to run, and "
            f"there are {len(folders)} runs; name one run."
        )
    resolved = resolve(text, read_moments(open_source(history_of(folders[0])), [text]))
    if resolved.missing:
        raise UsageError(f"The query cannot be run on {folders[0]}: {'; '.join(resolved.missing)}.")
    return resolved.sql


def register_runs(session: SparkSession, runs: Sequence[Path], text: str | None = None) -> list[str]:
    """Register tables and views of the runs in the session; each row has a column `run`.

    With ``text``, only those that this query needs: registering all of them takes longer than most queries.
    Returns all names that can be queried. Raises BadDataError for a folder that holds no history.
    """
    if not runs:
        raise BadDataError("No run was named; give at least one run folder, for example runs/*/latest.")
    sources = [(_name(folder), open_source(history_of(folder)), folder) for folder in runs]
    needed = set(QUERYABLE) if text is None else _needed(text)
    for name in QUERYABLE:
        session.catalog.dropTempView(name)  # an earlier query's, of other runs
    for table in TABLES.keys() & needed:
        frames = [_with_run(table_frame(session, source, table), name) for name, source, _ in sources]
        _union(frames).createOrReplaceTempView(table)
    for table in DERIVED.keys() & needed:
        frames = [_with_run(_output(session, folder, table), name) for name, _, folder in sources]
        _union(frames).createOrReplaceTempView(table)
    for name, view in _VIEWS.items():
        if name in needed:
            session.sql(view).createOrReplaceTempView(name)
    return sorted(QUERYABLE)


def _needed(text: str) -> set[str]:
    """Tables and views that a query names, and those that these views name."""
    words = names_in([text])
    while more := names_in(_VIEWS[name] for name in words & _VIEWS.keys()) - words:
        words |= more
    return words & set(QUERYABLE)


def run_folders(paths: Sequence[Path]) -> list[Path]:
    """The runs at or below ``paths``, each once. Raises BadDataError when there is none."""
    folders: dict[Path, Path] = {}
    for path in paths:
        require_plain(path)
        below = list(_below(path))
        if not below:
            raise BadDataError(f"{path} holds no history to query; `ls runs` shows the runs.")
        for folder in below:
            require_plain(folder)
            folders.setdefault(folder.resolve(), folder)
    return list(folders.values())


def history_of(run: Path) -> Path:
    """Where a run's tables are: in `history/`, or for an imported run in the folder itself."""
    return run / "history" if (run / "history").is_dir() else run


def _below(path: Path) -> Iterator[Path]:
    for folder in (path, path / "history"):
        if (folder / "sends.parquet").exists() or (folder / "copies.parquet").exists():
            yield path
            return
    for folder in folders_with("run.json", path):
        if (folder / "history" / "sends.parquet").exists():
            yield folder


def _values(row: Row) -> tuple[Any, ...]:
    """A row's values, with nested rows as dicts; columns may have the same name."""
    return tuple(row.asDict(recursive=True).values()) if len(set(row.__fields__)) == len(row) else tuple(row)


def _name(folder: Path) -> str:
    resolved = folder.resolve()
    return f"{resolved.parent.name}/{resolved.name}"


def _with_run(frame: DataFrame, run: str) -> DataFrame:
    from pyspark.sql import functions as f

    return frame.select(f.lit(run).alias("run"), "*")


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda whole, frame: whole.unionAll(frame), frames)


def _output(session: SparkSession, folder: Path, table: str) -> DataFrame:
    schema, path = ddl(DERIVED[table]), folder / f"{table}.parquet"
    if path.exists():
        return session.read.schema(schema).parquet(str(path))
    return session.createDataFrame([], schema)
