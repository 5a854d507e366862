"""One run in a process of its own, without a judgement: what `acked matrix` and `acked bisect` are made of.

`python -m harness.run.cell SCENARIO VERSION MODE LAB FOLDER` runs into a run folder that exists already.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from harness.console import Progress
from harness.errors import EXIT_AS_DECLARED, AckedError
from harness.kafka.versions import kafka_version
from harness.lab.namespaces import die_with_parent, run_inside
from harness.run.folder import RunFolder
from harness.scenario import Scenario

LIMIT_S = 420.0
"""No run takes that long; one that does is ended and counts as crashed."""
LOG = "run.log"


@dataclass(frozen=True)
class Cell:
    """One scenario on one Kafka version in one metadata mode."""

    scenario: str
    version: str
    mode: str

    def __str__(self) -> str:
        return f"{self.scenario} on {self.version} {self.mode}"


@dataclass(frozen=True)
class Ran:
    """A cell that was run, and its run folder; ``seconds`` from start to end."""

    cell: Cell
    folder: Path
    seconds: float


def run_cell(cell: Cell, runs: Path, lab: str = "embedded") -> Ran:
    """Run a cell in a process of its own and wait for it; all that it says goes to `run.log`.

    Whatever happens to it, the run folder says what: it ends as crashed where the process left no word.
    """
    folder = RunFolder.create(runs, cell.scenario)
    folder.update(scenario=cell.scenario, kafka=cell.version, mode=cell.mode, lab=lab, status="running")
    command = [sys.executable, "-m", "harness.run.cell", cell.scenario, cell.version, cell.mode, lab]
    began = time.monotonic()
    with (folder.path / LOG).open("ab") as log:
        process = subprocess.Popen(
            [*command, str(folder.path)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            folder.update(status="crashed", problem=f"{cell} did not end within {LIMIT_S:g} s")
        finally:
            if process.poll() is None:
                process.terminate()  # its namespaces go with it, and everything in them
                process.wait(30)
    if folder.manifest().get("status") == "running":
        folder.update(
            status="crashed",
            problem=f"{cell} ended with status {process.returncode}; see {folder.path / LOG}",
        )
    return Ran(cell, folder.path, time.monotonic() - began)


def _run(scenario: Scenario, cell: Cell, lab: str, folder: RunFolder) -> int:
    from harness.run.runner import RunOptions, run_scenario

    options = RunOptions(kafka_version(cell.version, force=True), cell.mode, lab)
    result = run_scenario(scenario, options, folder, Progress())
    if result.problem is not None:
        sys.stderr.write(f"{result.problem.message}\n{result.problem.detail}\n")
    return EXIT_AS_DECLARED


def main(argv: list[str]) -> int:
    """Arguments as in the module's own description."""
    from harness.run.catalogue import find

    die_with_parent()  # a matrix that is killed leaves no cluster behind
    name, version, mode, lab, path = argv
    cell, folder = Cell(name, version, mode), RunFolder.open(Path(path))

    def work() -> int:
        return _run(scenario, cell, lab, folder)

    try:
        scenario = find(name)
        return run_inside(work) if lab == "embedded" else work()
    except AckedError as error:
        folder.update(status="crashed", problem=error.message)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
