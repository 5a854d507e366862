"""Memory and processor time of a search or soak that runs, from outside, until it ends.

    .venv/bin/python -m benchmarks.soak runs/search/<time>
    .venv/bin/python -m benchmarks.soak runs/soak/<time>

Of a search, a line every 5 minutes: memory, threads, open files and disk space. Of a soak, a line every
minute: the memory of the harness, and the cores that its parts take; `recording` is what judges and decodes,
and `clients` are producers and readers, together with their journals. At the end, minimum, median and maximum
of the first and of the second half.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path

from benchmarks.memory import command_of, family, parents, pids, pss_mib
from benchmarks.processor import stat_of
from harness.clock import now_ns

_EVERY_S = 20.0
_LINES, _SOAK_LINES = 15, 3
"""A line is printed for every 15th or third sample."""
_SETTLED_S = 600.0
"""From when on the memory of a soak is to be flat."""


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


@dataclass(frozen=True)
class SoakSample:
    """One moment of a soak; cores are those since the moment before."""

    harness_mib: float
    """Memory of the harness (PSS)."""
    recording: float
    """Cores of the harness and of the decoder of batches."""
    clients: float
    """Cores of producers and readers, and of their journals."""
    cluster: float
    """Cores of brokers and controllers."""

    def __str__(self) -> str:
        cores = (f"{one.name} {getattr(self, one.name):.2f}" for one in fields(self)[1:])
        return f"harness {self.harness_mib:.0f} MiB; cores: {', '.join(cores)}"


@dataclass
class SoakMeter:
    """Measures a soak."""

    _used: dict[tuple[int, str], float] = field(default_factory=dict)
    _measured_ns: int = 0

    def sample(self, pid: int, folder: Path) -> SoakSample | None:
        """Measure now; None: the load is over, and Spark judges. Raises OSError if the process has ended."""
        stat_of(Path(f"/proc/{pid}/stat"))
        below, clients = family(pid), set[int]()
        if any("SparkSubmit" in command_of(child) for child in below):
            return None
        for child in below:
            if any(name.endswith("/client.jsonl") for name in opened_by(child)):
                clients |= family(child)
        seconds, before_ns = defaultdict[str, float](float), self._measured_ns
        self._measured_ns = now_ns()
        for child in below:
            try:
                _, used, start = stat_of(Path(f"/proc/{child}/stat"))
            except (OSError, ValueError):
                continue
            command = command_of(child)
            before = self._used.get((child, start), 0.0 if before_ns else used)
            self._used[child, start] = used
            kind = "clients" if child in clients else _kind(command)
            seconds["recording" if child == pid else kind] += used - before
        passed_s = (self._measured_ns - before_ns) / 1e9
        cores = {one.name: seconds[one.name] / passed_s for one in fields(SoakSample)[1:]}
        return SoakSample(harness_mib=pss_mib(pid), **cores)


def _kind(command: str) -> str:
    kinds = {" BatchDecoder": "recording", "kafka.Kafka": "cluster"}
    return next((kind for text, kind in kinds.items() if text in command), "others")


def working_in(folder: Path) -> int | None:
    """The process that searches or soaks in a folder; None if there is none."""
    locked, descendants = {folder.resolve(), folder.resolve() / "plan.json"}, set[int]()
    for pid in pids():
        if locked & {Path(name) for name in opened_by(pid)}:
            descendants.add(pid)
    # It keeps the folder, or its plan, locked, and the processes that it has forked share the open file.
    above = parents()
    return next((pid for pid in descendants if above.get(pid) not in descendants), None)


def opened_by(pid: int) -> list[str]:
    """The paths of what a process has open."""
    try:
        return [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []


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


def measured(
    pid: int, folder: Path, sample: Callable[[int, Path], Sample | SoakSample | None], lines: int
) -> Sequence[Sample | SoakSample]:
    """Sample until the process ends, or what is measured of it, or until Ctrl-C; print every so many."""
    began, pause, samples = now_ns(), threading.Event(), list[Sample | SoakSample]()
    with suppress(OSError, KeyboardInterrupt):
        while (one := sample(pid, folder)) is not None:
            samples.append(one)
            if (len(samples) - 1) % lines == 0:
                print(f"{(now_ns() - began) / 60e9:5.0f} min  {one}", flush=True)
            pause.wait(_EVERY_S)
    return samples


def main() -> None:
    """Sample until the search or soak ends."""
    parser = argparse.ArgumentParser(description="Measures a search or a soak that runs.")
    parser.add_argument("folder", type=Path, help="runs/search/<time> or runs/soak/<time>")
    folder = parser.parse_args().folder
    pid = working_in(folder)
    if pid is None:
        parser.error(f"nothing runs in {folder}")
    soak = not (folder / "plan.json").exists()
    if soak:
        samples = measured(pid, folder, SoakMeter().sample, _SOAK_LINES)
    else:
        samples = measured(pid, folder, sample, _LINES)
    half, settled = len(samples) // 2, int(_SETTLED_S / _EVERY_S)
    parts = {"first half": samples[:half], "second half": samples[half:]}
    if soak:
        parts["from 10 min on"] = samples[settled:]
    for name, part in parts.items():
        for column in fields(part[0]) if part else ():
            values = [getattr(one, column.name) for one in part]
            least, middle, most = min(values), statistics.median(values), max(values)
            print(f"{name:15}  {column.name:11}  min {least:.2f}  median {middle:.2f}  max {most:.2f}")


if __name__ == "__main__":
    main()
