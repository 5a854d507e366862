"""The folder of a series: a line for each run, written as the run ends, so that a series can be resumed."""

from __future__ import annotations

import itertools
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import BadDataError, UsageError
from harness.series.summary import FILE, RunSummary, append, read_summaries


class SeriesFolder:
    """`<runs>/<kind>/<UTC time>` with its `runs.jsonl`."""

    def __init__(self, path: Path) -> None:
        """Read the runs that the folder has. Raises BadDataError."""
        self.path = path
        self.file = path / FILE
        self.runs = read_summaries([self.file]) if self.file.exists() else []

    @classmethod
    def create(cls, runs: Path, kind: str) -> SeriesFolder:
        """A new folder. Raises UsageError where it cannot be made."""
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
        """The folder of an interrupted series. Raises BadDataError where it is none or is damaged."""
        if not (path / FILE).is_file():
            raise BadDataError(
                f"{path} has no {FILE}, so there is nothing to resume; name a folder like runs/all/<time>."
            )
        return cls(path)

    def add(self, run: RunSummary) -> None:
        """Record a run."""
        append(self.file, run)
        self.runs.append(run)

    def keep(self, name: str, text: str) -> None:
        """Write a file beside the lines: the outcome as a document."""
        (self.path / name).write_text(text.rstrip("\n") + "\n", encoding="utf-8")

    def remove_if_empty(self) -> None:
        """Remove the folder of a series that was interrupted before its first run ended."""
        if not self.runs and not any(self.path.iterdir()):
            self.path.rmdir()


def earlier_runs(runs: Path) -> list[RunSummary]:
    """The runs of the series below ``runs``, oldest series first; a file that cannot be read is skipped."""
    found: list[RunSummary] = []
    for file in sorted(runs.glob(f"*/*/{FILE}")):
        with suppress(BadDataError):
            found += read_summaries([file])
    return found
