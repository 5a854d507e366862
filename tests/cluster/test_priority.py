"""A cluster that is measured has the processors first, and nothing outside of its namespaces changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from harness.lab.embedded.priority import FIRST


def test_the_processes_of_a_lab_run_first_for_a_while(tmp_path: Path) -> None:
    """Also those that start meanwhile, as a killed broker does."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    command = [sys.executable, "-m", "tests.cluster.priority_worker", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    first, meanwhile, last = outcome["seen"]
    assert set(first) == set(last) == {"0"}
    assert set(meanwhile) == {str(FIRST) if outcome["permitted"] else "0"}
    assert outcome["permitted"] == _may_raise()
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def _may_raise() -> bool:
    """Whether the kernel permits it to this user; to root of a container it may not."""
    nice = ["nice", "-n", str(FIRST), "nice"]
    done = subprocess.run(nice, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() == str(FIRST)
