"""Free SQL over one or many stored runs: every table, with the run it came from, and the derived views."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkers.spark.views import table_frame
from checkers.tables.output import FINDING, LIFE, ddl
from checkers.tables.source import open_source
from harness.errors import BadDataError
from harness.history.schema import TABLES, VIEWS

_SHORTCUTS = {
    "losses": "SELECT * FROM life WHERE fate IN ('lost', 'lost_after_read', 'overwritten')",
    "timeline": """
        SELECT run, ns, 'mark' AS kind, name AS what, text FROM marks
        UNION ALL SELECT run, ns, 'fault', concat(name, ': ', moment), targets FROM faults
        UNION ALL SELECT run, ns, 'process', concat(host, ' ', event), detail FROM processes
        UNION ALL SELECT run, ns, 'log', concat(host, ' ', kind), text FROM log_events""",
    "latencies": """
        SELECT run, writer_name, az, acks, outcome, (done_ns - sent_ns) / 1e6 AS ms, sent_ns,
               sent_during FROM life WHERE done_ns IS NOT NULL""",
}
"""Views for the common questions, besides those of the schema."""


def history_of(run: Path) -> Path:
    """Where a run's tables lie: in `history/`, or in the folder itself for an imported one."""
    return run / "history" if (run / "history").is_dir() else run


def register_runs(session: Any, runs: Sequence[Path | str]) -> list[str]:
    """Register all tables and views of the runs in the session; each row tells its `run`.

    Returns the names that can be queried. Raises BadDataError for a folder that holds no history.
    """
    folders = [Path(run) for run in runs]
    if not folders:
        raise BadDataError("No run was named; give at least one run folder, for example runs/*/latest.")
    sources = [(_name(folder), open_source(history_of(folder)), folder) for folder in folders]
    for table in TABLES:
        frames = [_tagged(table_frame(session, source, table), name) for name, source, _ in sources]
        _union(frames).createOrReplaceTempView(table)
    for table, schema in (("life", LIFE), ("findings", FINDING)):
        frames = [_tagged(_output(session, folder, table, schema), name) for name, _, folder in sources]
        _union(frames).createOrReplaceTempView(table)
    views = {name: _with_run(text) for name, text in VIEWS.items()} | _SHORTCUTS
    for name, text in views.items():
        session.sql(text).createOrReplaceTempView(name)
    return sorted([*TABLES, "life", "findings", *views])


def query(session: Any, text: str, runs: Sequence[Path | str]) -> Any:
    """Run SQL over the runs; returns a DataFrame. Raises BadDataError when it cannot be understood."""
    from pyspark.errors import PySparkException

    names = register_runs(session, runs)
    try:
        return session.sql(text)
    except PySparkException as error:
        raise BadDataError(
            f"The SQL cannot be understood: {str(error).splitlines()[0]} Tables are {', '.join(names)}."
        ) from error


def _with_run(text: str) -> str:
    return text.replace("SELECT ns,", "SELECT run, ns,", 1)


def _name(folder: Path) -> str:
    resolved = folder.resolve()
    return f"{resolved.parent.name}/{resolved.name}"


def _tagged(frame: Any, run: str) -> Any:
    from pyspark.sql import functions as f

    return frame.select(f.lit(run).alias("run"), "*")


def _union(frames: list[Any]) -> Any:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    return whole


def _output(session: Any, folder: Path, table: str, schema: Any) -> Any:
    path = folder / f"{table}.parquet"
    if path.exists():
        return session.read.schema(ddl(schema)).parquet(str(path))
    return session.createDataFrame([], ddl(schema))
