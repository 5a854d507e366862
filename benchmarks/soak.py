"""Memory, threads, open files and disk space of a search that runs, from outside, until it ends.

    .venv/bin/python -m benchmarks.soak runs/search/<time>

A line every 5 minutes; at the end, minimum, median and maximum of the first and of the second half.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
from dataclasses import dataclass, fields
from pathlib import Path

from benchmarks.memory import command_of, family, parents, pids, pss_mib
from harness.clock import now_ns

_EVERY_S = 20.0
_LINES = 15
"""A line is printed for every 15th sample."""


@dataclass(frozen=True)
class Sample:
    """One moment of a search."""

    search_mib: float
    """Memory of the process of `acked search` (PSS)."""
    spark_mib: float
    """Memory of Spark's JVM."""
    threads: int
    open_files: int
    folder_mib: float
    """Disk space of the search's folder; index files are sparse."""
    temporary: int
    """Entries in the directory for temporary files, those of other programs included."""

    def __str__(self) -> str:
        return "  ".join(f"{f.name} {getattr(self, f.name):.0f}" for f in fields(self))


def searching_in(folder: Path) -> int | None:
    """The process that searches in a folder; None if there is none."""
    plan, descendants = folder.resolve() / "plan.json", set[int]()
    for pid in pids():
        try:
            opened = {link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir()}
        except OSError:
            continue
        if plan in opened:
            descendants.add(pid)
    # A search keeps its plan locked, and the processes that it has forked share the open file.
    above = parents()
    return next((pid for pid in descendants if above.get(pid) not in descendants), None)


def sample(pid: int, folder: Path) -> Sample:
    """Measure now. Raises OSError if the process has ended."""
    proc = Path(f"/proc/{pid}")
    below = family(pid)
    return Sample(
        search_mib=pss_mib(pid),
        spark_mib=sum(pss_mib(child) for child in below if "SparkSubmit" in command_of(child)),
        threads=len(list((proc / "task").iterdir())),
        open_files=len(list((proc / "fd").iterdir())),
        folder_mib=sum(_size(file) for file in folder.rglob("*")) / 2**20,
        temporary=len(list(Path(tempfile.gettempdir()).iterdir())),
    )


def _size(file: Path) -> int:
    try:
        return file.lstat().st_blocks * 512 if file.is_file() and not file.is_symlink() else 0
    except OSError:
        return 0


def main() -> None:
    """Sample until the search ends."""
    parser = argparse.ArgumentParser(description="Measures a search that runs.")
    parser.add_argument("folder", type=Path, help="runs/search/<time>")
    folder = parser.parse_args().folder
    pid = searching_in(folder)
    if pid is None:
        parser.error(f"no search runs in {folder}")
    began, pause, samples = now_ns(), threading.Event(), list[Sample]()
    while True:
        try:
            samples.append(sample(pid, folder))
        except OSError:
            break
        if (len(samples) - 1) % _LINES == 0:
            print(f"{(now_ns() - began) / 60e9:5.0f} min  {samples[-1]}", flush=True)
        pause.wait(_EVERY_S)
    half = len(samples) // 2
    for name, part in (("first half", samples[:half]), ("second half", samples[half:])):
        for column in fields(Sample):
            values = [getattr(one, column.name) for one in part] or [0]
            least, middle, most = min(values), statistics.median(values), max(values)
            print(f"{name:11}  {column.name:11}  min {least:.0f}  median {middle:.0f}  max {most:.0f}")


if __name__ == "__main__":
    main()
