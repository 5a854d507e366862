"""Judging on Spark: tasks run in the workers, and write life and findings to a scratch folder."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from checkers.claims.expected import mark_expected, sample_findings
from checkers.claims.moments import Moments
from checkers.evidence import Evidence, gather
from checkers.health import check_health
from checkers.judging.plan import judge_all
from checkers.judging.tasks import WIRE_DDL, JudgingContext, Task, TaskResult, decode
from checkers.judging.transactions import ANOMALIES_FILE, FATES_FILE, conclude
from checkers.judging.worker import answer
from checkers.promises.facts import RunFacts
from checkers.promises.judging import with_promises
from checkers.promises.summary import COUNTED_DDL, counted
from checkers.spark.frames import by_workers
from checkers.spark.views import output_frame
from checkers.tables.files import (
    exists,
    inside,
    is_folder,
    local_path,
    make_folder,
    move,
    parquet_files,
    read_parquet,
    remove,
    write_parquet,
)
from checkers.tables.output import FINDING, LIFE, TRANSACTION_TABLES
from checkers.tables.source import Source, open_source
from checkers.tables.transactions import PARTS_FOLDER, RECORDS_FOLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRANSACTIONS_FOLDER = "transactions"


def run(session: SparkSession, job: JudgingContext, *, small: bool = False, slots: int = 2) -> pa.Table:
    """Judge every topic partition in Spark's workers; see `judge_all`.

    With ``small``, this process does the look-ups that the first results ask for: for few rows, a Spark job
    takes longer.
    """
    in_workers = partial(run_tasks, session)
    job = replace(job, evidence=job.evidence.for_tasks())
    return judge_all(in_workers, job, follow_up_runner=run_here if small else in_workers, slots=slots)


def run_tasks(
    session: SparkSession, job: JudgingContext, groups: Sequence[Sequence[Task]]
) -> dict[int, TaskResult]:
    """Run groups of tasks in the workers, one Spark task for each group; results by position."""
    numbered: list[list[tuple[int, Task]]] = []
    count = 0
    for group in groups:
        numbered.append([(count + place, task) for place, task in enumerate(group)])
        count += len(group)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for place, task in numbered[number]:
                    yield answer(job, place, task)

    frame = session.range(0, len(groups), 1, len(groups)).mapInArrow(work, WIRE_DDL)
    return decode(frame.toArrow())


def run_here(job: JudgingContext, groups: Sequence[Sequence[Task]]) -> dict[int, TaskResult]:
    """The same in this process, one task after the other."""
    tasks = [task for group in groups for task in group]
    return decode(pa.Table.from_batches([answer(job, place, task) for place, task in enumerate(tasks)]))


def require_judgeable(folder: Path) -> None:
    """Judge the tables of a folder in this process, and keep nothing.

    Raises BadDataError for what `acked check` would refuse.
    """
    source = open_source(folder)
    with tempfile.TemporaryDirectory(prefix="acked-") as scratch:
        job = JudgingContext(source=source, evidence=gather(source), life=None, findings=scratch)
        judge_all(run_here, job, slots=1)


@dataclass(frozen=True, kw_only=True)
class Results:
    """Life, findings and the tables about transactions, in a scratch folder."""

    session: SparkSession
    evidence: Evidence
    folder: str
    """Holds `life.parquet` and `findings.parquet`, both folders."""
    counts: pa.Table
    """Fates and findings, counted (`checkers.tables.output.TALLY`)."""
    life: DataFrame
    """One row per message."""
    small: bool

    def mark_expected(self, expected: Sequence[Mapping[str, Any]], moments: Moments) -> None:
        """Fill the findings' column `expected`. Called first."""
        mark_expected(self.session, self.life, self._findings, expected, moments, small=self.small)

    def findings_of(self, classes: Sequence[str]) -> pa.Table:
        """The findings of some classes."""
        of_classes = pc.field("class").isin(list(classes))
        parts = [read_parquet(path, FINDING, of_classes) for path in parquet_files(self._findings)]
        return pa.concat_tables([FINDING.empty_table(), *parts])

    def judge_promises(self, facts: RunFacts, *, decisive: bool) -> pa.Table:
        """Fill the columns about promises (`checkers.promises`), file by file; returns their counts.

        If promises are ``decisive``, a finding that Kafka does not promise to prevent is expected.
        """
        paths = parquet_files(self._findings)
        judge = partial(_judge_file, facts, decisive)
        if self.small:
            return pa.concat_tables([table for path in paths for table in judge(path)])
        return by_workers(self.session, paths, judge, COUNTED_DDL).toArrow()

    def findings(self) -> DataFrame:
        """All findings."""
        return output_frame(self.session, "findings", parquet_files(self._findings), small=self.small)

    def sample(self, limit: int) -> list[dict[str, Any]]:
        """Up to ``limit`` findings for people, unexpected ones first."""
        return sample_findings(self._findings, limit, self.evidence.zero.ns, self.evidence.acks)

    def keep(self, out: str) -> None:
        """Put everything into the folder ``out``. Called last."""
        for name, schema in (("life", LIFE), ("findings", FINDING)):
            _keep(inside(self.folder, f"{name}.parquet"), inside(out, f"{name}.parquet"), schema)
        for name, schema in TRANSACTION_TABLES.items():
            _keep(self._transactions[name], inside(out, f"{name}.parquet"), schema)

    def transactions(self, names: Collection[str]) -> Mapping[str, DataFrame]:
        """Those of the tables about transactions (`TRANSACTION_TABLES`) that are among ``names``."""
        return {
            name: output_frame(self.session, name, _parts(place), small=self.small)
            for name, place in self._transactions.items()
            if name in names
        }

    @property
    def _transactions(self) -> Mapping[str, str]:
        base = inside(self.folder, TRANSACTIONS_FOLDER)
        return {
            "transaction_fates": inside(base, FATES_FILE),
            "transaction_records": inside(base, RECORDS_FOLDER),
            "isolation_anomalies": inside(base, ANOMALIES_FILE),
        }

    @property
    def _findings(self) -> str:
        return inside(self.folder, "findings.parquet")


def _judge_file(facts: RunFacts, decisive: bool, path: str) -> Iterator[pa.Table]:
    """Fill the columns about promises in a file of findings; yields their counts."""
    judged = with_promises(read_parquet(path, FINDING), facts, decisive=decisive)
    write_parquet(path, judged)
    yield counted(judged)


@contextmanager
def judge_partitions(
    session: SparkSession, source: Source, evidence: Evidence, out: str | None, *, small: bool
) -> Iterator[Results]:
    """Fates and findings by one task per topic partition; with ``small``, Spark gets rows, not files.

    ``out`` is where they will be kept. If that, or the history, is behind a URI, scratch files are there too,
    where all workers reach them.
    """
    with _scratch_folder(out or source.folder) as folder:
        life, findings, transactions = (
            inside(folder, name) for name in ("life.parquet", "findings.parquet", TRANSACTIONS_FOLDER)
        )
        parts, records = (inside(transactions, name) for name in (PARTS_FOLDER, RECORDS_FOLDER))
        for place in (life, findings, parts, records):
            make_folder(place)
        job = JudgingContext(
            source=source, evidence=evidence, life=life, findings=findings, transactions=transactions
        )
        tallies = run(session, job, small=small)
        tallies = conclude(source, evidence, transactions, findings, tallies)
        yield Results(
            session=session,
            evidence=evidence,
            folder=folder,
            counts=check_health(evidence, findings, tallies),
            life=output_frame(session, "life", parquet_files(life), small=small),
            small=small,
        )


@contextmanager
def _scratch_folder(beside: str) -> Iterator[str]:
    """A folder for what is written in between: in ``beside`` if that is elsewhere than on this machine."""
    if local_path(beside) is not None:
        with tempfile.TemporaryDirectory(prefix="acked-judge-") as folder:
            yield folder
        return
    scratch = inside(beside, f".acked-judge-{uuid.uuid4().hex[:8]}")
    try:
        make_folder(scratch)
        yield scratch
    finally:
        remove(scratch)


def _parts(place: str) -> list[str]:
    """The files of a table that is a file or a folder."""
    return parquet_files(place) if is_folder(place) else [place] if exists(place) else []


def _keep(place: str, target: str, schema: pa.Schema) -> None:
    """Move the files of a table into the folder ``target``; a table without rows gets an empty file."""
    remove(target)
    parts = _parts(place)
    make_folder(target)
    for part in parts:
        move(part, inside(target, part.rpartition("/")[2]))
    if not parts:
        write_parquet(inside(target, "part-0.parquet"), schema.empty_table())
