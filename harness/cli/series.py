"""What `acked run --all` and `acked matrix` have in common: run the cells of a plan and record each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.settings import NO_SETTINGS, Settings
from harness.console import Progress
from harness.errors import StoppedError
from harness.series.capacity import Machine, choose
from harness.series.folder import SeriesFolder, seconds_of_earlier_runs
from harness.series.plan import Cell, longest_first, remaining
from harness.series.pool import run_cells
from harness.series.summary import RunSummary
from report import series as report


@dataclass(frozen=True, kw_only=True)
class Series:
    """A series that is about to start, or to be resumed."""

    folder: SeriesFolder
    left: Sequence[Cell]
    """What has not been run yet."""
    clusters: int
    """How many to run side by side."""
    runs: Path
    lab: str
    settings: Settings = NO_SETTINGS


def open_series(
    kind: str,
    planned: Sequence[Cell],
    *,
    runs: Path,
    resume: Path | None,
    parallel: int,
    lab: str,
    progress: Progress,
    settings: Settings = NO_SETTINGS,
) -> Series:
    """Make the folder of a series, or read the one to resume, and say what will be run.

    Raises UsageError, UnfitError, BadDataError.
    """
    old = None if resume is None else SeriesFolder.resume(resume)
    left = planned if old is None else remaining(planned, [run.cell for run in old.runs])
    choice = choose(parallel, len(left), Machine.here())
    folder = old or SeriesFolder.create(runs, kind)
    if choice.warning:
        progress.say(choice.warning)
    count = report.number_of_runs(len(left))
    progress.say(f"{count}, {choice.clusters} side by side; {folder.file} gets a line for each")
    return Series(folder=folder, left=left, clusters=choice.clusters, runs=runs, lab=lab, settings=settings)


def run_series(series: Series, ended: Callable[[RunSummary], None]) -> bool:
    """Run and judge what is left; each run is recorded in the folder and passed to ``ended``.

    Returns whether Ctrl-C ended the series early.
    """
    folder = series.folder
    ordered = longest_first(series.left, seconds_of_earlier_runs(series.runs))
    try:
        running = run_cells(
            ordered, series.runs, parallel=series.clusters, lab=series.lab, settings=series.settings.as_json()
        )
        with closing(running) as summaries:
            for summary in summaries:
                folder.add(summary)
                ended(summary)
    except KeyboardInterrupt:
        return True
    return False


def interrupted(folder: SeriesFolder, planned: int) -> StoppedError:
    """What to tell somebody who has pressed Ctrl-C."""
    done = len(folder.runs)
    hint = f" To continue, use --resume {folder.path}." if done else ""
    return StoppedError(
        f"interrupted after {done} of {planned} runs; everything that was started has been ended.{hint}"
    )
