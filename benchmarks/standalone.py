"""The judgement of histories on a standalone Spark cluster of two workers, and what 10^9 messages would take.

    .venv/bin/python -m benchmarks.standalone --messages 1000000 10000000 100000000

A master and two workers with a processor each, on loopback, judge histories that `benchmarks.checker` makes.
A line through what they took by the clock (least squares) gives the time for 10^9 messages.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.checker import DAMAGES, make_history
from benchmarks.memory import command_of, family, pss_mib
from benchmarks.processor import stat_of
from tests.spark.standalone import Cluster, standalone_cluster

_EVERY_S = 0.5
_KINDS = {
    "executors' JVMs": r"CoarseGrainedExecutorBackend",
    "executors' Python": r"pyspark[./]daemon",
    "driver": r"cli\.main|pyspark-shell",
}
_ASKED = 1_000_000_000


@dataclass
class Usage:
    """What one judgement took."""

    wall_s: float = 0.0
    processor_s: Counter[str] = field(default_factory=Counter)
    """By kind of process, up to its last sample."""
    peak_mib: Counter[str] = field(default_factory=Counter)
    """Proportional memory, the maximum of each kind."""


class _Sampler:
    """Samples this process and all below it, twice a second."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[int, str], tuple[str, float]] = {}
        self._peak: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def usage(self, wall_s: float) -> Usage:
        seconds: Counter[str] = Counter()
        for kind, used in self._seconds.values():
            seconds[kind] += used
        return Usage(wall_s, seconds, self._peak)

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY_S):
            memory: Counter[str] = Counter()
            for pid in family(os.getpid()):
                command = command_of(pid)
                kind = next((name for name, pattern in _KINDS.items() if re.search(pattern, command)), None)
                if kind is None:
                    continue
                try:
                    _, used, start = stat_of(Path(f"/proc/{pid}/stat"))
                except (OSError, ValueError):  # it has ended
                    continue
                self._seconds[pid, start] = (kind, used)
                memory[kind] += round(pss_mib(pid))
            self._peak |= memory


def judge(cluster: Cluster, history: Path) -> tuple[Usage, dict[str, int]]:
    """Judge a history; returns what it took, and how many messages had each fate. Raises SystemExit."""
    command = [sys.executable, "-m", "cli.main", "check", "--import", str(history), "--json"]
    with _Sampler() as sampler:
        began = time.monotonic()
        done = subprocess.run(
            [*command, "--master", cluster.master],
            env=dict(cluster.environment),
            cwd=Path(__file__).resolve().parents[1],
            capture_output=True,
            text=True,
        )
        wall = time.monotonic() - began
    if not done.stdout:
        raise SystemExit(done.stderr)
    return sampler.usage(wall), json.loads(done.stdout)["fates"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, nargs="+", default=[1_000_000, 10_000_000, 100_000_000])
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--damage", choices=DAMAGES, default="lost")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="acked-benchmark-"))
    scratch.chmod(0o755)
    walls = []
    try:
        with standalone_cluster(scratch) as cluster:
            for messages in options.messages:
                history = scratch / f"history-{messages}"
                make_history(history, messages, options.partitions, options.damage)
                size = sum(file.stat().st_size for file in history.rglob("*.parquet"))
                usage, fates = judge(cluster, history)
                shutil.rmtree(history)
                walls.append(usage.wall_s)
                kinds = (
                    f"{kind} {usage.processor_s[kind]:.0f} s, {usage.peak_mib[kind]} MiB" for kind in _KINDS
                )
                print(
                    f"{messages} messages, {size / 2**20:.0f} MiB: {usage.wall_s:.1f} s; {'; '.join(kinds)}; "
                    f"{fates}",
                    flush=True,
                )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if len(walls) > 1:
        per_message, start = np.polyfit(np.array(options.messages, float), np.array(walls), 1)
        whole = start + per_message * _ASKED
        print(f"{start:.1f} s + {per_message * 1e6:.3f} µs a message: {_ASKED} in {whole:.0f} s")


if __name__ == "__main__":
    main()
