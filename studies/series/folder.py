"""The folder of a series: a line for each run, written as the run ends, so that a series can be resumed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import BadDataError, UsageError
from harness.plain_files import require_plain, write_plain
from studies.series.job import Job
from studies.series.plan import remaining
from studies.series.summary import FILE, RunSummary, append, read_summaries

PLANNED = "planned.jsonl"
"""A line for each job that a series is to run, so that others can tell what it has not run."""
PLAN, CLUSTER = "plan.json", "cluster.toml"
"""Files of a series that has a plan: the plan, and the cluster file that it was made with."""


KINDS = {"all": "night", "assess": "assessment", "compare": "comparison", "shrink": "shrinking"}
"""What series are called, by the name of the folder above, where that is another one."""


@dataclass(frozen=True)
class _PlannedJob:
    """A line of `PLANNED`."""

    scenario: str
    version: str
    mode: str
    client: str = ""


class SeriesFolder:
    """`<runs>/<kind>/<UTC time>` with its `runs.jsonl`."""

    def __init__(self, path: Path, file: str = FILE) -> None:
        """Read the runs that the folder has. Raises BadDataError."""
        require_plain(path)
        self.path = path
        self.file = path / file
        self.runs = read_summaries([self.file]) if self.file.exists() else []

    @property
    def kind(self) -> str:
        """What the series is called: `night`, `matrix` and so on."""
        kind = self.path.resolve().parent.name
        return KINDS.get(kind, kind)

    @property
    def time(self) -> str:
        """The name of the folder: the UTC time at which the series began."""
        return self.path.resolve().name

    @classmethod
    def create(cls, runs: Path, kind: str) -> SeriesFolder:
        """A new folder. Raises UsageError if it cannot be made."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
        for number in itertools.count(1):
            path = runs / kind / (stamp if number == 1 else f"{stamp}.{number}")
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise UsageError(
                    f"The folder {path} cannot be made ({error.strerror}); name another one with --runs."
                ) from error
            break
        return cls(path)

    @classmethod
    def resume(cls, path: Path) -> SeriesFolder:
        """The folder of an interrupted series. Raises BadDataError if it is none or is damaged.

        One that was killed before its first run had ended has a plan alone.
        """
        if not (path / FILE).is_file() and not (path / PLANNED).is_file():
            raise BadDataError(
                f"{path} has neither {FILE} nor {PLANNED}, so there is nothing to resume; name a folder like "
                f"runs/all/<time>."
            )
        return cls(path)

    def plan(self, jobs: Sequence[Job]) -> None:
        """Record what the series is to run."""
        lines = [
            json.dumps(asdict(_PlannedJob(job.scenario, job.version, job.mode, job.client))) for job in jobs
        ]
        self.keep(PLANNED, "\n".join(lines))

    def planned(self) -> list[Job]:
        """What the series is to run, as far as it recorded that. Raises BadDataError."""
        file = self.path / PLANNED
        if not file.is_file():
            return []
        import msgspec  # the command line begins without it

        try:
            lines = file.read_text(encoding="utf-8").split("\n")
            planned = [msgspec.json.decode(line, type=_PlannedJob) for line in lines if line]
            return [Job(**asdict(one)) for one in planned]
        except (OSError, ValueError, RecursionError) as error:
            raise BadDataError(
                f"{file} cannot be read ({error}); it should hold a line per planned run. Remove it, and "
                f"nothing counts as not run."
            ) from error

    def not_run(self) -> list[Job]:
        """What the series was to run and has not run, as far as it recorded its plan. Raises BadDataError."""
        return remaining(self.planned(), [run.job for run in self.runs])

    def add(self, run: RunSummary) -> None:
        """Record a run."""
        append(self.file, run)
        self.runs.append(run)

    def keep(self, name: str, text: str) -> None:
        """Write the outcome as a document into the folder."""
        write_plain(self.path / name, text.rstrip("\n") + "\n")

    def remove_if_empty(self, *, stopped: bool = True) -> None:
        """Remove the folder of a series that was interrupted before its first run ended.

        That of a series which was not ``stopped`` keeps its plan, if it has one: all of it was left out.
        """
        if self.runs:
            return
        file = self.path / PLANNED
        if file.is_file() and (stopped or not self.not_run()):
            file.unlink()
        if not any(self.path.iterdir()):
            self.path.rmdir()


def runs_before(runs: Path, earlier: Sequence[RunSummary] = ()) -> list[RunSummary]:
    """The runs of all series below ``runs`` and those of other nights, each once, oldest first."""
    by_run = {(run.job, run.ended, run.folder): run for run in (*earlier_runs(runs), *earlier)}
    return sorted(by_run.values(), key=lambda run: run.ended)


def earlier_runs(runs: Path) -> list[RunSummary]:
    """The runs of the series below ``runs``, oldest series first; a file that cannot be read is skipped."""
    summaries: list[RunSummary] = []
    for file in sorted(runs.glob(f"*/*/{FILE}")):
        with suppress(BadDataError):
            summaries += read_summaries([file])
    return summaries
