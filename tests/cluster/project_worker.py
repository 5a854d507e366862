"""A harness of its own that breaks a Compose project, says so, and waits for its end.

`python -m tests.cluster.project_worker FOLDER PROJECT TTL` isolates eu-a, pauses broker7, slows broker1001.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.cluster.hosts_file import ALLOWABLE, compose_project
from harness.history.journal import Journal
from nemesis.attached.safety import locked
from nemesis.nemesis import Nemesis
from nemesis.network.queues import Throttle
from run.attached.hosts import lab_of


def main(arguments: Sequence[str]) -> None:
    """Break it."""
    folder, project, ttl_s = Path(arguments[0]), arguments[1], float(arguments[2])
    lab = lab_of(compose_project(project), ALLOWABLE)
    lab.ttl_s = ttl_s
    lab.up()
    with locked(lab, ttl_s):
        nemesis = Nemesis(lab, Journal(folder / "faults.jsonl"), ttl_s=ttl_s)
        nemesis.isolate("eu-a").inject()
        nemesis.pause("broker7").inject()
        nemesis.make(Throttle, "broker1001", [lab.topology.host("broker1001")], 400.0).inject()
        print("broken", flush=True)
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
