"""A cluster that is measured has the processors first, and nothing outside of its namespaces changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from harness.lab.embedded.priority import FIRST


def test_the_processes_of_a_lab_run_first_for_a_while() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    command = [sys.executable, "-m", "tests.cluster.priority_worker"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    first, meanwhile, last = found["seen"]
    assert set(first) == set(last) == {"0"}
    assert set(meanwhile) == {str(FIRST) if found["permitted"] else "0"}
    assert found["permitted"] == (os.geteuid() == 0 and _may_raise())
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def _may_raise() -> bool:
    """Whether this process has CAP_SYS_NICE; root of a container may lack it."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (effective,) = (int(line.split()[1], 16) for line in status if line.startswith("CapEff:"))
    return bool(effective >> 23 & 1)
