"""What `acked run --all` and `acked matrix` have in common: run the cells of a plan and record each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from harness.errors import StoppedError
from harness.series.folder import SeriesFolder, seconds_of_earlier_runs
from harness.series.plan import Cell, longest_first
from harness.series.pool import run_cells
from harness.series.summary import RunSummary

SIDE_BY_SIDE = 3
"""A scenario mostly waits for sessions and lags to end, so that two cores carry three clusters."""


def open_folder(runs: Path, kind: str, resume: Path | None) -> SeriesFolder:
    """A new folder for a series, or the one to resume. Raises UsageError, BadDataError."""
    return SeriesFolder.create(runs, kind) if resume is None else SeriesFolder.resume(resume)


def run_series(
    cells: Sequence[Cell],
    folder: SeriesFolder,
    *,
    runs: Path,
    lab: str,
    parallel: int,
    ended: Callable[[RunSummary], None],
) -> bool:
    """Run and judge the cells; each run is recorded in ``folder`` and passed to ``ended``.

    Returns whether Ctrl-C ended the series early.
    """
    ordered = longest_first(cells, seconds_of_earlier_runs(runs))
    try:
        with closing(run_cells(ordered, runs, parallel=parallel, lab=lab)) as summaries:
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
