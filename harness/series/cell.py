"""One run in a process of its own, without a judgement: what `acked matrix` and `acked bisect` are made of.

`python -m harness.series.cell SCENARIO VERSION MODE LAB FOLDER` runs into a run folder that exists already.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType, TracebackType

from harness.console import Progress
from harness.errors import EXIT_AS_DECLARED, EXIT_INTERRUPTED, AckedError
from harness.forks import Fork, Forks
from harness.kafka.versions import KafkaVersion, kafka_version
from harness.lab.embedded.namespaces import die_with_parent, run_inside
from harness.run.folder import RunFolder
from harness.scenario import Scenario

LIMIT_S = 420.0
"""No run takes that long; one that does is ended and counts as crashed."""
END_S = 30.0
"""A run that is told to end takes its hosts down first."""
LOG = "run.log"
NEEDED = (
    *(
        "harness.run.runner",
        "harness.cluster.kraft",
        "harness.observer.broker_log",
        "nemesis.proof.agent",
    ),
    *(
        "workloads.agent.main",
        "workloads.agent.producers.raw",
        "workloads.agent.producers.stream",
        "workloads.agent.producers.scripted",
        "workloads.agent.consumers.assigned",
    ),
    *("pandas", "pyarrow.dataset"),  # which PyArrow imports with the first array, and to read a Parquet file
)
"""What a run imports sooner or later; imported once, before runs are forked."""
PROTOCOL = "inter.broker.protocol.version"


@dataclass(frozen=True)
class Cell:
    """One scenario on one Kafka version (`2.7.1@2.6`: with an older protocol) in one metadata mode."""

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


class Running:
    """The processes of runs that last, so that whoever is interrupted can end them all."""

    def __init__(self) -> None:
        """None yet; use it as a context, in which there is a process that forks them."""
        self._children: set[Fork] = set()
        self._ended = False
        self._lock = threading.Lock()
        self._forks: Forks | None = None

    def begin(self, arguments: list[str], log: Path) -> Fork:
        """Start a run; all that it says goes to ``log``. Raises KeyboardInterrupt like `check`."""
        with self._lock:
            self.check()
            assert self._forks is not None
            with Path(os.devnull).open("rb") as nothing, log.open("ab") as said:
                streams = nothing.fileno(), said.fileno(), said.fileno()
                child = self._forks.begin("harness.series.cell", arguments, streams)
            self._children.add(child)
            return child

    def check(self) -> None:
        """Raises KeyboardInterrupt when all have been told to end."""
        if self._ended:
            raise KeyboardInterrupt

    def forget(self, child: Fork) -> None:
        """It has ended."""
        with self._lock:
            self._children.discard(child)

    def end_all(self) -> None:
        """Tell all of them to end; none is started from now on."""
        with self._lock:
            self._ended = True
            for child in self._children:
                child.signal(signal.SIGTERM)

    def __enter__(self) -> Running:
        from harness.run.catalogue import modules

        self._forks = Forks.anew((*NEEDED, *modules()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._forks is not None:
            self._forks.close()


def run_cell(cell: Cell, runs: Path, lab: str = "embedded", running: Running | None = None) -> Ran:
    """Run a cell in a process of its own and wait for it; all that it says goes to `run.log`.

    Whatever happens to it, the run folder says what: it ends as crashed where the process left no word.
    Raises KeyboardInterrupt when ``running`` has been told to end.
    """
    if running is None:
        with Running() as alone:
            return run_cell(cell, runs, lab, alone)
    running.check()
    folder = RunFolder.create(runs, cell.scenario)
    folder.update(scenario=cell.scenario, kafka=cell.version, mode=cell.mode, lab=lab, status="running")
    began = time.monotonic()
    log = folder.path.absolute() / LOG
    child = running.begin([cell.scenario, cell.version, cell.mode, lab, str(folder.path.absolute())], log)
    try:
        child.wait(LIMIT_S)
    except TimeoutError:
        folder.update(status="crashed", problem=f"{cell} did not end within {LIMIT_S:g} s")
    finally:
        _end(child)
        running.forget(child)
    if folder.manifest().get("status") == "running":
        folder.update(status="crashed", problem=f"{cell} ended with status {child.status}; see {log}")
    return Ran(cell, folder.path, time.monotonic() - began)


def _end(child: Fork) -> None:
    child.signal(signal.SIGTERM)  # its namespaces go with it, and everything in them
    try:
        child.wait(END_S)
    except TimeoutError:
        child.signal(signal.SIGKILL)
        child.wait()


def speaking(scenario: Scenario, version: KafkaVersion) -> Scenario:
    """The scenario with brokers that speak the version's protocol, where that is not its own."""
    if not version.protocol:
        return scenario
    config = {**scenario.setup.broker_config, PROTOCOL: version.protocol}
    return replace(scenario, setup=replace(scenario.setup, broker_config=config))


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: hosts are being taken down
    raise KeyboardInterrupt


def _run(scenario: Scenario, cell: Cell, lab: str, folder: RunFolder) -> int:
    from harness.run.runner import RunOptions, run_scenario

    signal.signal(signal.SIGTERM, _interrupt)
    version = kafka_version(cell.version, force=True)
    options = RunOptions(version, cell.mode, lab)
    try:
        result = run_scenario(speaking(scenario, version), options, folder, Progress())
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
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
