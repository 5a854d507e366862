"""`priority_worker.py RUN_DIR`: the nice values of processes of hosts in an embedded lab, printed as JSON.

For each process: its own, and that of its scheduling group, if the kernel has them. One process starts
before the cluster runs first, and one meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from harness.lab.embedded.lab import EmbeddedLab
from harness.lab.embedded.namespaces import run_inside
from harness.lab.layout import three_azs
from harness.lab.model import MainProcess


def main() -> int:
    """Print the values before, meanwhile (also of the process that starts then) and afterwards."""
    lab = EmbeddedLab(three_azs("zookeeper"), Path(sys.argv[1]))
    lab.up()
    try:
        sleeping = MainProcess(("sleep", "60"), {})
        before = lab.start("broker1", sleeping)
        seen = [_values(before)]
        with lab.run_first() as permitted:
            later = lab.start("broker2", sleeping)
            seen.append(_values(before) + _values(later))
        seen.append(_values(before) + _values(later))
    finally:
        lab.down()
    print(json.dumps({"permitted": permitted, "seen": seen}))
    return 0


def _values(process: int) -> list[str]:
    group = Path(f"/proc/{process}/autogroup")
    nice = str(os.getpriority(os.PRIO_PROCESS, process))
    return [nice, *(group.read_text().split()[-1:] if group.exists() else [])]


if __name__ == "__main__":
    sys.exit(run_inside(main))
