"""Free SQL over one or more stored runs: all tables, each row with its run, and views.

Only queries run; a statement that would change or write something is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkers.ask.names import refuse_unknown_names
from checkers.ask.views import QUERYABLE, RUN_VIEWS
from checkers.claims.moments import names_moments, read_moments, resolve
from checkers.spark.errors import reason, spark_errors
from checkers.spark.gate import RefusedQueryError, require_query
from checkers.spark.session import session_lost, settings_for_small_data
from checkers.spark.views import DERIVED, SMALL_ROWS, names_in, table_frame
from checkers.tables.output import ddl
from checkers.tables.source import Source, open_source
from harness.errors import BadDataError, UsageError
from harness.history.schema import TABLES
from harness.plain_files import folders_with, require_plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


@dataclass(frozen=True)
class Answer:
    """What a query returned."""

    columns: Sequence[str]
    rows: Sequence[tuple[Any, ...]]


class Queries:
    """Asks queries about some runs; each table is registered in the session when a query first names it."""

    def __init__(self, runs: Sequence[Path]) -> None:
        """Raises BadDataError for a folder that holds no history. Needs no session."""
        if not runs:
            raise BadDataError("No run was named; give at least one run folder, for example runs/*/latest.")
        self._folders = list(runs)
        self._runs = [(_name(folder), open_source(history_of(folder)), folder) for folder in runs]
        self._session: SparkSession | None = None
        self._registered: set[str] = set()
        rows = sum(source.rows(table) for _, source, _ in self._runs for table in TABLES)
        self._small = rows <= SMALL_ROWS

    @property
    def runs(self) -> list[str]:
        """The values of the column `run`."""
        return [name for name, _, _ in self._runs]

    def prepared(self, text: str) -> str:
        """The query with the times of the moments that it names; needs no session.

        Raises UsageError for a table or column that no table of the query has, and for an unknown moment.
        """
        text = with_moments(text, self._folders)
        refuse_unknown_names(text)
        return text

    def ask(self, session: SparkSession, text: str, limit: int | None = None) -> Answer:
        """The answer to a query, with ``limit`` rows at most.

        A query over one run may name its moments as claims do, for example `{mark:cut}`. Raises UsageError
        when ``text`` is not a query or cannot be run, BadDataError for a damaged run, and UnfitError when
        Spark's JVM has ended.
        """
        from py4j.protocol import Py4JError

        try:
            text = require_query(session, with_moments(text, self._folders), QUERYABLE)
        except RefusedQueryError as error:
            raise UsageError(
                "Only one query (SELECT, or WITH … SELECT) over the tables of docs/history.md can be run, "
                f"and {error}."
            ) from None
        with settings_for_small_data(session) if self._small else nullcontext():
            self.register(session, _needed(text))
            try:
                frame = session.sql(text)
                rows = (frame if limit is None else frame.limit(limit)).collect()
            except spark_errors() as error:
                if isinstance(error, Py4JError) and (lost := session_lost()) is not None:
                    raise lost from None
                raise UsageError(
                    f"The SQL cannot be run: {reason(error)} The tables are those of docs/history.md."
                ) from None
        return Answer(frame.columns, [_values(row) for row in rows])

    def register(self, session: SparkSession, names: Collection[str] = QUERYABLE) -> None:
        """Register tables and views of the runs in the session; each row has a column `run`.

        By default all of them, which takes longer than most queries.
        """
        if session is not self._session:
            for name in QUERYABLE:
                session.catalog.dropTempView(name)  # an earlier query's, of other runs
            self._session, self._registered = session, set()
        for table in [*TABLES, *DERIVED]:
            if table in names and table not in self._registered:
                frames = [self._frame(session, table, source, folder) for _, source, folder in self._runs]
                _union(list(map(_with_run, frames, self.runs))).createOrReplaceTempView(table)
                self._registered.add(table)
        for name, view in RUN_VIEWS.items():
            if name in names and name not in self._registered:
                session.sql(view).createOrReplaceTempView(name)
                self._registered.add(name)

    def _frame(self, session: SparkSession, table: str, source: Source, folder: Path) -> DataFrame:
        return table_frame(session, source, table) if table in TABLES else _output(session, folder, table)


def query(
    session: SparkSession, text: str, folders: Sequence[Path], limit: int | None = None
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of one query over the runs; see `Queries.ask`."""
    answer = Queries(folders).ask(session, text, limit)
    return list(answer.columns), list(answer.rows)


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


def _needed(text: str) -> set[str]:
    """Tables and views that a query names, and those that these views name."""
    words = names_in([text])
    while more := names_in(RUN_VIEWS[name] for name in words & RUN_VIEWS.keys()) - words:
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


def one_run(path: Path) -> Path:
    """The one run or import in a folder. Raises BadDataError for none, UsageError for several."""
    folders = run_folders([path])
    if len(folders) > 1:
        raise UsageError(f"{path} holds {len(folders)} runs; name one of them, such as {folders[0]}.")
    return folders[0].resolve()


def judged_life(folder: Path) -> Path:
    """The `life.parquet` of a run or import. Raises BadDataError if it has not been judged."""
    path = folder / "life.parquet"
    if not path.exists():
        command = "acked check" if (folder / "history").is_dir() else "acked check --import"
        raise BadDataError(f"{folder} has not been judged yet (no life.parquet); run `{command} {folder}`.")
    return path


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
