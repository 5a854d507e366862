"""Runs the fault conformance cases in one lab, with trivial TCP listeners instead of Kafka.

`conformance_worker.py embedded|compose RUN_DIR [CASE...]` prints one JSON line per case. It is a separate
process, because only a process with one thread can enter the embedded lab's namespaces.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from pathlib import Path

import conformance_degrade
import conformance_hold
import conformance_links
import conformance_processes
import conformance_rules
import conformance_storage
from conformance_bench import CASES, Bench

from harness.errors import AckedError
from harness.lab.embedded.lab import EmbeddedLab
from harness.lab.embedded.namespaces import run_inside
from harness.lab.layout import three_azs
from harness.lab.model import Lab
from nemesis.storage.disks import Disks

FAMILIES = (
    conformance_links,
    conformance_hold,
    conformance_rules,
    conformance_degrade,
    conformance_processes,
    conformance_storage,
)
"""Importing them fills CASES, in this order."""


def run_cases(lab: Lab, names: list[str]) -> int:
    disks = Disks(lab)
    lab.up()
    try:
        bench = Bench(lab, disks)
        for name in names:
            began = time.monotonic()
            problem, detail = "", None
            try:
                detail = CASES[name](bench)
            except (AckedError, AssertionError, OSError) as error:
                problem = f"{error}\n{traceback.format_exc()}"
                bench.nemesis.heal_all()
            took_s = round(time.monotonic() - began, 3)
            print(
                json.dumps({"case": name, "problem": problem, "took_s": took_s, "detail": detail}), flush=True
            )
        bench.nemesis.close()
        print(json.dumps({"case": "clean_end", "problem": "", "took_s": 0, "detail": None}), flush=True)
    finally:
        lab.down()
        disks.close()
    return 0


def main() -> int:
    kind, run_dir, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3:] or list(CASES)
    topology = three_azs("zookeeper")
    if kind == "compose":
        from harness.lab.docker.lab import ComposeLab

        return run_cases(ComposeLab(topology, run_dir), names)
    return run_inside(lambda: run_cases(EmbeddedLab(topology, run_dir), names))


if __name__ == "__main__":
    sys.exit(main())
