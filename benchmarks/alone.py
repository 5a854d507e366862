"""One run of a benchmark's own scenario, in a lab and a folder of its own."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from harness import artifacts
from harness.console import Progress
from harness.errors import as_printed
from harness.kafka.versions import kafka_version
from harness.lab.embedded.namespaces import run_inside
from run.client_choice import ClientChoice
from run.folder import RunFolder
from run.runner import RunOptions, run_scenario
from run.scenario import Scenario


def run_alone(prepare: Callable[[], tuple[Scenario, Callable[[Path], None]]], kafka: str) -> NoReturn:
    """Run a scenario with the Java client, report on its folder, remove it, and exit with the status.

    ``prepare`` is called inside the lab; it returns the scenario and the report.
    """
    version = kafka_version(kafka)
    artifacts.resolve(version)
    folder = Path(tempfile.mkdtemp(prefix="acked-benchmark-"))

    def work() -> int:
        scenario, report = prepare()
        options = RunOptions(version=version, mode=scenario.mode, client=ClientChoice(name="java"))
        run = RunFolder.create(folder, scenario.name)
        result = run_scenario(scenario, options, run, Progress())
        if result.status != "complete":
            sys.stderr.write(as_printed(result.problem) if result.problem else result.status)
            return 1
        report(run.path)
        sys.stdout.flush()
        return 0

    status = run_inside(work)
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(status)
