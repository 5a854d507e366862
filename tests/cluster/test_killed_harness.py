"""However the harness dies, nothing of a run is left: the kernel takes it away."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.lab.namespaces import NAMESPACE_DIR
from harness.waiting import wait_until
from tests.cluster.conftest import processes_of

pytestmark = pytest.mark.cluster
MOMENTS = 10


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
    found: set[str] = set()
    waiting = list(children.get(pid, ()))
    while waiting:
        child = waiting.pop()
        waiting += children.get(child, ())
        try:
            found.add(str(Path(f"/proc/{child}/ns/net").readlink()))
        except OSError:
            continue
    return found - {str(Path("/proc/self/ns/net").readlink())}


def _namespaces_in_use() -> set[str]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.add(str((entry / "ns" / "net").readlink()))
            except OSError:
                continue
    return found


_HOST = "(broker|zookeeper|client|observer)"
_OURS = {
    ("ip", "-o", "link"): re.compile(rf"^\d+: (v-{_HOST}|lan0)"),
    ("iptables-save",): re.compile(r"ACKED"),
    ("cat", "/proc/self/mounts"): re.compile(rf" {NAMESPACE_DIR}/{_HOST}|/test_a_sigkill_at_ten_random_m"),
}
"""Commands that list the machine's state, and what only a run adds to it: its links and its bridge, its
rules' chains, its namespaces and disks. Whatever else comes and goes beside us, a Docker engine's links
and namespaces for instance, has other names."""


def _left_by_runs() -> dict[str, set[str]]:
    """Lines of the machine's state that speak of a run, by the command that lists them."""
    return {
        " ".join(command): {
            line
            for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
            if ours.search(line)
        }
        for command, ours in _OURS.items()
    }


def _kill_one(folder: Path, after_s: float) -> str:
    """Start a run, SIGKILL its first process after a while; returns what is left of it, or nothing."""
    command = [sys.executable, "-m", "harness.cli.main", "run", "leader-az-isolated", "--runs", str(folder)]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began = time.monotonic()
    wait_until(
        lambda: time.monotonic() - began >= after_s or run.poll() is not None,
        within_s=after_s + 5,
        awaiting="the random moment",
    )
    mine = _namespaces_below(run.pid)
    run.send_signal(signal.SIGKILL)
    run.wait(10)
    wait_until(
        lambda: processes_of(folder) + sorted(mine & _namespaces_in_use()),
        accept=lambda left: not left,
        within_s=5,
        awaiting=f"processes and namespaces of a run that was killed after {after_s:.1f} s to vanish",
    )
    return f"{after_s:.1f} s"


def test_a_sigkill_at_ten_random_moments_leaves_nothing(tmp_path: Path) -> None:
    """Ten runs, killed at moments from set-up to judgement: no process, namespace, interface, rule, mount."""
    seed = random.randrange(1 << 30)
    moments = [random.Random(seed + number).uniform(0.1, 22.0) for number in range(MOMENTS)]
    before = _left_by_runs()
    with ThreadPoolExecutor(3) as pool:
        killed = list(pool.map(lambda n: _kill_one(tmp_path / str(n), moments[n]), range(MOMENTS)))
    assert len(killed) == MOMENTS, f"seed {seed}"
    assert _left_by_runs() == before, f"seed {seed}"
