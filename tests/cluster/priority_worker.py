"""In an embedded lab: what nice values a process in a session of its own has; printed as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from harness.lab.embedded.namespaces import run_inside
from harness.lab.embedded.priority import first_to_run


def main() -> int:
    """Print the values before, meanwhile and afterwards."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:

        def values() -> list[str]:
            group = Path(f"/proc/{process.pid}/autogroup")
            nice = str(os.getpriority(os.PRIO_PROCESS, process.pid))
            return [nice, *(group.read_text().split()[-1:] if group.exists() else [])]

        seen = [values()]
        with first_to_run() as permitted:
            seen.append(values())
        seen.append(values())
        process.kill()
    print(json.dumps({"permitted": permitted, "seen": seen}))
    return 0


if __name__ == "__main__":
    sys.exit(run_inside(main))
