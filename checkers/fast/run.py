"""The fast plan on Spark: its tasks run in the workers, and write life and findings to a temporary folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.claims.expected import mark_expected, sample_findings
from checkers.claims.moments import Moments
from checkers.evidence import Evidence
from checkers.fast.cut import PIECE_MESSAGES
from checkers.fast.judging import answer
from checkers.fast.plan import judge_all
from checkers.fast.tasks import WIRE_DDL, JudgingContext, Result, Task, decode
from checkers.fast.transactions import ANOMALIES_FILE, FATES_FILE, conclude
from checkers.health import check_health
from checkers.promises.facts import Facts
from checkers.promises.judging import with_promises
from checkers.promises.summary import counted
from checkers.spark.views import output_frame
from checkers.tables.output import FINDING, LIFE, TRANSACTION_TABLES
from checkers.tables.source import Source
from checkers.tables.transactions import PARTS_FOLDER, RECORDS_FOLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIECE_VARIABLE = "ACKED_PIECE_MESSAGES"
"""Environment variable: how many messages a piece of a large partition holds, for tests of the cutting."""


def run(
    session: SparkSession,
    job: JudgingContext,
    *,
    small: bool = False,
    slots: int = 2,
    piece_messages: int | None = None,
) -> pa.Table:
    """Judge every topic partition in Spark's workers; see `judge_all`.

    With ``small``, this process does the look-ups that the first results ask for: for few rows, a Spark job
    takes longer.
    """
    size = piece_messages or int(os.environ.get(PIECE_VARIABLE, PIECE_MESSAGES))
    in_workers = partial(run_tasks, session)
    job = replace(job, evidence=job.evidence.for_tasks())
    return judge_all(
        in_workers,
        job,
        follow_up_runner=run_here if small else in_workers,
        slots=slots,
        piece_messages=size,
    )


def run_tasks(
    session: SparkSession, job: JudgingContext, groups: Sequence[Sequence[Task]]
) -> dict[int, Result]:
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


def run_here(job: JudgingContext, groups: Sequence[Sequence[Task]]) -> dict[int, Result]:
    """The same in this process, one task after the other."""
    tasks = [task for group in groups for task in group]
    return decode(pa.Table.from_batches([answer(job, place, task) for place, task in enumerate(tasks)]))


@dataclass(frozen=True, kw_only=True)
class FastResults:
    """See `checkers.judge.Results`."""

    session: SparkSession
    evidence: Evidence
    folder: Path
    """Holds `life.parquet` and `findings.parquet`, both folders."""
    counts: pa.Table
    life: DataFrame
    small: bool

    def mark_expected(self, expected: Sequence[Mapping[str, Any]], moments: Moments) -> Mapping[str, int]:
        """Fill the findings' column `expected`; returns the expected findings by class."""
        return mark_expected(self.session, self.life, self._findings, expected, moments, small=self.small)

    def findings_of(self, classes: Sequence[str]) -> pa.Table:
        """The findings of some classes."""
        wanted = pc.field("class").isin(list(classes))
        parts = [pq.read_table(path, schema=FINDING, filters=wanted) for path in _parts(self._findings)]
        return pa.concat_tables(parts or [FINDING.empty_table()])

    def judge_promises(self, facts: Facts) -> pa.Table:
        """Fill the columns about promises, file by file; returns their counts."""
        counts = []
        for path in _parts(self._findings):
            judged = with_promises(pq.read_table(path, schema=FINDING), facts)
            pq.write_table(judged, path)
            counts.append(counted(judged))
        return pa.concat_tables(counts)

    def findings(self) -> DataFrame:
        """All findings."""
        return output_frame(self.session, "findings", _parts(self._findings), small=self.small)

    def tallies(self) -> pa.Table:
        """Fates and findings, counted."""
        return self.counts

    def sample(self, limit: int) -> list[dict[str, Any]]:
        """Up to ``limit`` findings for people, unexpected ones first."""
        return sample_findings(self._findings, limit, self.evidence.start_ns, self.evidence.acks)

    def keep(self, out: str) -> None:
        """Put life and findings into the folder ``out``."""
        for name, schema in (("life.parquet", LIFE), ("findings.parquet", FINDING)):
            _keep(self.folder / name, Path(out) / name, schema)
        for name in TRANSACTION_TABLES:
            _keep(self._transactions[name], Path(out) / f"{name}.parquet", None)

    def transactions(self, names: Collection[str]) -> Mapping[str, DataFrame]:
        """Those of the tables about transactions that are among ``names``."""
        found = {}
        for name, place in self._transactions.items():
            if name not in names:
                continue
            paths = [str(place)] if place.is_file() else _parts(place) if place.is_dir() else []
            found[name] = output_frame(self.session, name, paths, small=self.small)
        return found

    @property
    def _transactions(self) -> Mapping[str, Path]:
        base = self.folder / "transactions"
        return {
            "transaction_fates": base / FATES_FILE,
            "transaction_records": base / RECORDS_FOLDER,
            "isolation_anomalies": base / ANOMALIES_FILE,
        }

    @property
    def _findings(self) -> Path:
        return self.folder / "findings.parquet"


@contextmanager
def judge_fast(
    session: SparkSession, source: Source, evidence: Evidence, *, small: bool
) -> Iterator[FastResults]:
    """Fates and findings by one task per topic partition; with ``small``, Spark gets rows, not files."""
    with tempfile.TemporaryDirectory(prefix="acked-judge-") as scratch:
        folder = Path(scratch)
        life, findings = folder / "life.parquet", folder / "findings.parquet"
        life.mkdir()
        findings.mkdir()
        transactions = folder / "transactions"
        for name in (PARTS_FOLDER, RECORDS_FOLDER):
            (transactions / name).mkdir(parents=True)
        job = JudgingContext(
            source=source,
            evidence=evidence,
            life=str(life),
            findings=str(findings),
            transactions=str(transactions),
        )
        tallies = run(session, job, small=small)
        tallies = conclude(source, evidence, transactions, findings, tallies)
        yield FastResults(
            session=session,
            evidence=evidence,
            folder=folder,
            counts=check_health(evidence, findings, tallies),
            life=output_frame(session, "life", _parts(life), small=small),
            small=small,
        )


def _parts(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.glob("*.parquet"))


def _keep(place: Path, target: Path, schema: pa.Schema | None) -> None:
    """Put a table into ``target``; an empty table is written only if it has a schema here."""
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    parts = [str(place)] if place.is_file() else _parts(place)
    if len(parts) == 1:
        shutil.copyfile(parts[0], target)
    elif parts:
        shutil.copytree(place, target)
    elif schema is not None:
        pq.write_table(schema.empty_table(), target)
