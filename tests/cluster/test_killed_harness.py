"""However the harness dies, nothing of a run remains: the kernel removes it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.waiting import wait_until
from tests.cluster.conftest import left_on_machine, processes_of

pytestmark = pytest.mark.cluster
LONGEST_S = 22.0
"""From the start of a run to its judgement."""


def _namespaces_below(pid: int) -> set[str]:
    """Network namespaces of a process's descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    namespaces: set[str] = set()
    waiting = list(children.get(pid, ()))
    while waiting:
        child = waiting.pop()
        waiting += children.get(child, ())
        try:
            namespaces.add(str(Path(f"/proc/{child}/ns/net").readlink()))
        except OSError:
            continue
    return namespaces - {str(Path("/proc/self/ns/net").readlink())}


def _namespaces_in_use() -> set[str]:
    namespaces = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                namespaces.add(str((entry / "ns" / "net").readlink()))
            except OSError:
                continue
    return namespaces


def _kill_one(folder: Path, after_s: float) -> str:
    """Start a run, SIGKILL its first process after a while; returns what is left of it, or nothing."""
    command = [sys.executable, "-m", "cli.main", "run", "leader-az-isolated", "--runs", str(folder)]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began = time.monotonic()
    wait_until(
        lambda: time.monotonic() - began >= after_s or run.poll() is not None,
        within_s=after_s + 5,
        awaiting="the random moment",
    )
    namespaces = _namespaces_below(run.pid)
    run.send_signal(signal.SIGKILL)
    run.wait(10)
    wait_until(
        lambda: processes_of(folder) + sorted(namespaces & _namespaces_in_use()),
        accept=lambda left: not left,
        within_s=5,
        awaiting=f"processes and namespaces of a run that was killed after {after_s:.1f} s to vanish",
    )
    return f"{after_s:.1f} s"


@pytest.mark.parametrize("number", [3, pytest.param(10, marks=pytest.mark.long)])
def test_a_sigkill_at_random_moments_leaves_nothing(number: int, tmp_path: Path) -> None:
    """Runs, each killed in another part of its time from set-up to judgement: no process, namespace,
    interface, rule or mount is left.
    """
    seed = random.randrange(1 << 30)
    part_s = LONGEST_S / number
    moments = [0.1 + part_s * (n + random.Random(seed + n).random()) for n in range(number)]
    with ThreadPoolExecutor(3) as pool:
        killed = list(pool.map(lambda n: _kill_one(tmp_path / str(n), moments[n]), range(number)))
    assert len(killed) == number, f"seed {seed}"
    assert left_on_machine(tmp_path) == [], f"seed {seed}"
