"""Processor time of a series of runs, by kind of process, and by thread of the brokers on request.

    .venv/bin/python -m benchmarks.processor 'leader-*'
    .venv/bin/python -m benchmarks.processor 'leader-*' --code FOLDER    # another checkout of acked, in turn
    .venv/bin/python -m benchmarks.processor kraft-quorum-lost --kafka 4.3.1 --threads

With ``--code``, rounds alternate between the other checkout and this one, because the speed of a machine
changes. A process counts until its last sample, two a second.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.memory import command_of, family

_EVERY_S = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")
_HERE = Path(__file__).resolve().parent.parent
_KINDS = {
    "brokers": r"kafka\.Kafka .*/broker",
    "controllers": r"kafka\.Kafka .*/controller",
    "ZooKeeper": r"QuorumPeerMain",
    "Spark's JVM": r"pyspark-shell",
    "Spark's Python workers": r"pyspark",
    "harness and clients": r"harness\.forks?(_server)?\b",
    "command": r"\backed run\b|harness\.cli\.main",
}


@dataclass
class _Process:
    command: str
    seconds: float
    threads: Mapping[int, tuple[str, float]]


@dataclass
class Usage:
    """Seconds of processor time of one series."""

    wall_s: float
    cases: int
    kinds: Counter[str] = field(default_factory=Counter)
    threads: Counter[str] = field(default_factory=Counter)
    """Of brokers and controllers; numbers in the names of threads are `N`."""

    @property
    def per_case(self) -> float:
        """Seconds per case, all kinds."""
        return sum(self.kinds.values()) / self.cases


def measure(code: Path, arguments: list[str]) -> Usage:
    """Run `acked run` with the code of a checkout. Raises SystemExit if no run ends."""
    seen: dict[tuple[int, str], _Process] = {}
    environment = {**os.environ, "PYTHONPATH": str(code)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else every command compiles all modules again
    with tempfile.TemporaryDirectory(prefix="acked-benchmark-") as folder:
        command = [sys.executable, "-m", "cli.main", "run", *arguments]
        began = time.monotonic()
        log = Path(folder, "log")
        with log.open("w") as out:
            series = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out)
            while series.poll() is None:
                for pid in family(series.pid):
                    _sample(pid, seen)
                time.sleep(_EVERY_S)
        wall = time.monotonic() - began
        manifests = Path(folder).glob("runs/*/*/run.json")
        cases = len({file.resolve() for file in manifests})  # `latest` is a link to a run
        if not cases:
            raise SystemExit(f"No run ended:\n{log.read_text()}")
        print("   ", log.read_text().splitlines()[-1])
    usage = Usage(wall, cases)
    for process in seen.values():
        kinds = (name for name, pattern in _KINDS.items() if re.search(pattern, process.command))
        kind = next(kinds, "others")
        usage.kinds[kind] += process.seconds
        if kind in ("brokers", "controllers"):
            for name, seconds in process.threads.values():
                usage.threads[re.sub(r"\d+", "N", name)] += seconds
    return usage


def _sample(pid: int, seen: dict[tuple[int, str], _Process]) -> None:
    try:
        name, seconds, start = stat_of(Path(f"/proc/{pid}/stat"))
        earlier = seen.get((pid, start))
        command = command_of(pid) or (earlier.command if earlier else name)  # of a zombie it is empty
        threads = {}
        if "kafka.Kafka" in command:
            for task in Path(f"/proc/{pid}/task").iterdir():
                thread, used, _ = stat_of(task / "stat")
                threads[int(task.name)] = (thread, used)
    except (OSError, ValueError):  # it has ended
        return
    seen[pid, start] = _Process(command, seconds, {**(earlier.threads if earlier else {}), **threads})


def stat_of(file: Path) -> tuple[str, float, str]:
    """Name, seconds of processor time and time of the start of a process or thread."""
    before, _, after = file.read_text(errors="replace").rpartition(")")
    fields = after.split()
    return before.partition("(")[2], (int(fields[11]) + int(fields[12])) / _TICKS, fields[19]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("filter", help="scenarios, as for `acked run --all --filter`; with --kafka, one")
    parser.add_argument("--code", type=Path, help="another checkout, measured in turn with this one")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kafka")
    parser.add_argument("--threads", action="store_true", help="also by thread of brokers and controllers")
    options = parser.parse_args()
    chosen = [options.filter, "--kafka", options.kafka]
    arguments = chosen if options.kafka else ["--all", "--filter", options.filter]
    checkouts = [*([options.code.resolve()] if options.code else []), _HERE]
    for _ in range(options.rounds):
        for code in checkouts:
            usage = measure(code, arguments)
            print(f"{code}: {usage.cases} cases in {usage.wall_s:.0f} s, {usage.per_case:.1f} s per case")
            for kind, seconds in usage.kinds.most_common():
                print(f"    {seconds / usage.cases:6.2f} s  {kind}")
            for name, seconds in usage.threads.most_common(12 if options.threads else 0):
                print(f"        {seconds / usage.cases:6.2f} s  thread {name}")


if __name__ == "__main__":
    main()
