"""The runs of schedules: how a fleet carries them out, and what is kept of a clean one."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from studies.search.findings import findings_of
from studies.search.rules import decode
from studies.search.scenario import NAME, preparations
from studies.search.schedule import FILE, Schedule
from studies.series.fleet import JobKind
from studies.series.job import Job
from studies.series.planned import Plan

SUMMARY = (FILE, "run.json", "judgement.json")
"""The files that a thinned run keeps."""


def job_of(plan: Plan, schedule: Schedule, number: int = 0, parent: int | None = None) -> Job:
    """The job that carries out a schedule."""
    return plan.job(NAME, files={FILE: schedule.encode()}, number=number, parent=parent)


def schedule_of(job: Job) -> Schedule:
    """The schedule that a job carries out."""
    return decode(job.files[FILE], str(job))


SCHEDULES = JobKind(
    program="studies.search.process",
    needs=lambda job: preparations(schedule_of(job)),
    findings=lambda job, folder: findings_of(folder, schedule_of(job)),
    repeatable=True,
)
"""Schedules of a search, a replay or a shrinking."""


def thin(folder: Path) -> None:
    """Remove everything of a run except what `SUMMARY` names."""
    for path in folder.iterdir():
        if path.name in SUMMARY:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()
