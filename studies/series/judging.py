"""Judging runs that have ended, one after the other, in one Spark session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.partition.fate import LOSSES
from checkers.verdict import TRANSACTIONS_AND_GROUPS
from harness.errors import AckedError, cause_of, json_file
from harness.version import commit
from run.folder import MANIFEST
from studies.series.job import Job
from studies.series.summary import AS_SAID, OTHERWISE, RunSummary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.claims.evaluate import ClaimResult
    from checkers.verdict import Judgement

_TRIES = 2


@dataclass(frozen=True)
class JobRun:
    """A job whose run has ended and is not judged; ``seconds`` is the wall time from start to end."""

    job: Job
    folder: Path
    seconds: float


class Judge:
    """A Spark session that judges runs. It starts with the first use; one whose JVM has ended is replaced."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None

    def start(self) -> SparkSession:
        """Start the session, unless it runs."""
        from checkers.spark.session import start_session

        if self._session is None:
            self._session = start_session()
        return self._session

    def judged(self, run: JobRun) -> RunSummary:
        """The record of a run. One that cannot be judged has crashed, and the reason says why."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from checkers.spark.session import forget_session, session_ended

        reason = ""
        for _ in range(_TRIES):
            try:
                summary = judge_job(self.start, run)
                if summary.judged or not session_ended():
                    return summary
                reason = next(iter(summary.reasons), "")
            except (Py4JError, PySparkException, OSError) as error:
                reason = (
                    f"The run could not be judged ({type(error).__name__}); see `acked check {run.folder}`."
                )
            forget_session()
            self._session = None
        return _unjudged(run, reason)


def judge_job(session: Callable[[], SparkSession], run: JobRun) -> RunSummary:
    """Judge a run; one that cannot be judged has crashed, and the reason says why.

    One that has nothing to judge needs no ``session``, so that it is known at once that it failed.
    """
    from checkers.judge import judge, judge_without_logs

    try:
        judgement = judge_without_logs(run.folder) or judge(session(), run.folder)
    except AckedError as error:
        return replace(_unjudged(run, error.message), cause=cause_of(error))
    return replace(summarised(judgement, _unjudged(run)), cause=_cause(run.folder))


def _cause(folder: Path) -> Mapping[str, str]:
    """Why a run failed, as its folder says; empty if it did not."""
    cause = json_file(folder / MANIFEST).get("cause")
    named = cause.items() if isinstance(cause, dict) else ()
    return {str(name): str(value) for name, value in named}


def _unjudged(run: JobRun, *reasons: str) -> RunSummary:
    record = _record(run.job, "crashed", reasons)
    return replace(record, seconds=round(run.seconds, 1), folder=str(run.folder))


def unfit(job: Job, reason: str) -> RunSummary:
    """The record of a job whose run is not made, because something that it needs is missing."""
    return _record(job, "unfit", (reason,))


def _record(job: Job, verdict: str, reasons: tuple[str, ...]) -> RunSummary:
    """The record of a job without a judgement."""
    return RunSummary(
        scenario=job.scenario,
        version=job.version,
        mode=job.mode,
        client=job.client,
        verdict=verdict,
        reasons=reasons,
        commit=_commit(),
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
    )


_commit = cache(commit)
"""The commit of this process, which is read once."""


def summarised(judgement: Judgement, run: RunSummary) -> RunSummary:
    """The record of a run with its judgement."""
    fates, classes = judgement.fates, judgement.findings_by_class
    deviating = [claim for claim in judgement.claims if not claim.as_declared]
    return replace(
        run,
        verdict=judgement.verdict,
        reasons=tuple(judgement.reasons),
        lost=sum(fates.get(fate, 0) for fate in LOSSES),
        duplicated=fates.get("duplicated", 0),
        moved=fates.get("moved", 0),
        kept=fates.get("kept", 0),
        findings={name: classes[name] for name in TRANSACTIONS_AND_GROUPS if classes.get(name)},
        claims={claim.name: claim.status for claim in judgement.claims},
        observed={claim.name: claim.observed for claim in judgement.claims},
        says={claim.name: claim.says for claim in deviating},
        expected={claim.name: _expected(claim) for claim in deviating},
        outcomes={
            claim.name: AS_SAID if claim.occurred == claim.says else OTHERWISE
            for claim in judgement.claims
            if claim.either and claim.occurred
        },
    )


def _expected(claim: ClaimResult) -> list[str]:
    """The sentences of which the scenario expects one to be true."""
    if claim.erratum:
        return [str(claim.erratum["says"])]
    return [claim.says, *([str(claim.either["says"])] if claim.either else [])]
