"""The process of a cluster whose runs do what their names say, and start nothing."""

from __future__ import annotations

import os
import sys
import time

from harness.errors import UsageError
from run.runner import RunOptions
from run.scenario import Scenario
from studies.series.serving import RunOrder, serve


def choose(options: RunOptions, order: RunOrder, number: int) -> tuple[Scenario, RunOptions]:
    if order.scenario == "prints-and-reads":
        sys.stdout.write(f"run {number} reads {sys.stdin.read()!r}\n")
        sys.stdout.flush()
    elif order.scenario == "fails":
        raise RuntimeError("a mistake")
    elif order.scenario == "ends":
        os._exit(3)
    elif order.scenario == "hangs":
        time.sleep(600)
    raise UsageError(f"{order.scenario} is not run.")


def main(argv: list[str]) -> int:
    return serve(argv, choose)
