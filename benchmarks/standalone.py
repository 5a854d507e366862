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
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.checker import DAMAGES, make_history
from benchmarks.memory import command_of, family, pss_mib, sampling
from benchmarks.processor import stat_of
from tests.spark.standalone import Cluster, standalone_cluster

_EVERY_S = 0.5
_KINDS = {
    "executors' JVMs": r"CoarseGrainedExecutorBackend",
    "executors' Python": r"pyspark[./]daemon",
    "driver": r"cli\.main|pyspark-shell",
}
_ASKED = 1_000_000_000


class Usage:
    """What this process and all below it take, by kind of process, as far as it is looked at."""

    def __init__(self) -> None:
        self.wall_s = 0.0
        self.peak_mib: Counter[str] = Counter()
        """Proportional memory, the maximum of each kind."""
        self._seconds: dict[tuple[int, str], tuple[str, float]] = {}

    @property
    def processor_s(self) -> Counter[str]:
        """Up to the last look at each process."""
        seconds: Counter[str] = Counter()
        for kind, used in self._seconds.values():
            seconds[kind] += used
        return seconds

    def look(self) -> None:
        """Take this moment into account."""
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
        self.peak_mib |= memory


def judge(cluster: Cluster, history: Path) -> tuple[Usage, dict[str, int]]:
    """Judge a history; returns what it took, and how many messages had each fate. Raises SystemExit."""
    command = [sys.executable, "-m", "cli.main", "check", "--import", str(history), "--json"]
    usage = Usage()
    with sampling(usage.look, _EVERY_S):
        began = time.monotonic()
        done = subprocess.run(
            [*command, "--master", cluster.master],
            env=dict(cluster.environment),
            cwd=Path(__file__).resolve().parents[1],
            capture_output=True,
            text=True,
        )
        usage.wall_s = time.monotonic() - began
    if not done.stdout:
        raise SystemExit(done.stderr)
    return usage, json.loads(done.stdout)["fates"]


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
