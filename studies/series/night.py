"""What a nightly job asks of a series: a share of the jobs, their order, and few folders left behind."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from studies.series.job import Job
from studies.series.summary import RunSummary


@dataclass(frozen=True)
class Shard:
    """One of several equal shares of a plan, for machines that do not know of each other."""

    number: int
    """From 1."""
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse `2/4`, the second of four shares. Raises UsageError."""
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"--shard {text}: give a share and the number of shares, such as 2/4.")
        return cls(int(match[1]), int(match[2]))

    def share(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs of this share. Repeats of a job stay together, to show whether they agree."""
        order = {job: number for number, job in enumerate(dict.fromkeys(jobs))}
        return [job for job in jobs if order[job] % self.of == self.number - 1]


def longest_unseen_first(jobs: Iterable[Job], earlier: Iterable[RunSummary]) -> list[Job]:
    """Jobs in rounds; in each round, those that never ran first, then those whose last run is the oldest."""
    last: dict[Job, str] = {}
    for run in earlier:
        last[run.job] = max(run.ended, last.get(run.job, ""))
    rounds: list[tuple[int, str, Job]] = []
    seen: Counter[Job] = Counter()
    for job in jobs:
        rounds.append((seen[job], last.get(job, ""), job))
        seen[job] += 1
    return [job for _, _, job in sorted(rounds, key=lambda entry: entry[:2])]


def remove_folder(run: RunSummary) -> None:
    """Remove the folder of a run, and `latest` where it points to it."""
    folder = Path(run.folder)
    if not run.folder or not folder.is_dir():
        return
    latest = folder.parent / "latest"
    if latest.is_symlink() and latest.resolve() == folder.resolve():
        latest.unlink()
    shutil.rmtree(folder)
