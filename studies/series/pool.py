"""Running cells side by side, each in a process of its own, and judging each as it ends."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from checkers.partition.fate import LOSSES
from checkers.verdict import TRANSACTIONS_AND_GROUPS
from harness.errors import AckedError
from harness.fork_server import ForkedProcess, ForkServer
from run.folder import RunFolder
from studies.series.plan import Cell
from studies.series.summary import AS_SAID, OTHERWISE, RunSummary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.verdict import Judgement

LIMIT_S = 420.0
"""A run that takes longer is ended and counts as crashed; none of the catalogue comes near it."""
END_S = 30.0
"""How long a run may take to end when it is asked to: it takes its hosts down first."""
LOG = "run.log"
IMPORTED_BEFORE = (
    "studies.series.cell",
    "harness.cluster.cluster_file",
    "harness.cluster.kraft",
    "harness.observer.broker_log",
    "nemesis.proof.agent",
    "workloads.agent.main",
    "workloads.agent.producers.raw",
    "workloads.agent.producers.stream",
    "workloads.agent.producers.scripted",
    "workloads.agent.consumers.assigned",
    "pandas",  # PyArrow imports it with the first array
    "pyarrow.dataset",  # and this one to read a Parquet file
)
"""What a run needs sooner or later: imported once, before the processes of runs are forked."""
UNJUDGED = 2
"""How many runs may wait to be judged, besides those that run; the judgements must keep up with the runs."""


@dataclass(frozen=True)
class CellRun:
    """A cell that has been run but not judged; ``seconds`` is the wall time from start to end."""

    cell: Cell
    folder: Path
    seconds: float


class RunProcesses:
    """The processes of the runs in progress, so that an interruption can end them all.

    A context: inside it, a process exists that forks them.
    """

    def __init__(self) -> None:
        self._children: set[ForkedProcess] = set()
        self._ended = False
        self._lock = threading.Lock()
        self._forks: ForkServer | None = None

    def begin(
        self,
        module: str,
        arguments: Sequence[str],
        log: Path,
        *,
        standard_input: int | None = None,
        output: int | None = None,
    ) -> ForkedProcess:
        """Start a module as a run whose output goes to ``log``. Raises KeyboardInterrupt like `check`.

        ``standard_input`` and ``output`` are descriptors to use instead of nothing and ``log``.
        """
        with self._lock:
            self.check()
            assert self._forks is not None
            with Path(os.devnull).open("rb") as nothing, log.open("ab") as logged:
                streams = (
                    nothing.fileno() if standard_input is None else standard_input,
                    logged.fileno() if output is None else output,
                    logged.fileno(),
                )
                child = self._forks.start(module, arguments, streams)
            self._children.add(child)
            return child

    def check(self) -> None:
        """Raises KeyboardInterrupt after `end_all`."""
        if self._ended:
            raise KeyboardInterrupt

    def end(self, child: ForkedProcess) -> None:
        """End one process, and all that it has started."""
        child.signal(signal.SIGTERM)  # its namespaces end with it, and with them everything inside
        try:
            child.wait(END_S)
        except TimeoutError:
            child.signal(signal.SIGKILL)
            child.wait()

    def forget(self, child: ForkedProcess) -> None:
        """Forget a process that has ended."""
        with self._lock:
            self._children.discard(child)

    def end_all(self) -> None:
        """Ask all processes to end, and start no further one."""
        with self._lock:
            self._ended = True
            for child in self._children:
                child.signal(signal.SIGTERM)

    def __enter__(self) -> RunProcesses:
        from run.catalogue import modules

        self._forks = ForkServer.spawn((*IMPORTED_BEFORE, *modules()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._forks is not None:
            self._forks.close()


def run_cells(
    cells: Sequence[Cell],
    runs: Path,
    *,
    parallel: int,
    lab: str = "embedded",
    may_start: Callable[[Cell], bool] = lambda cell: True,
    settings: Mapping[str, object] | None = None,
    cluster_file: Path | None = None,
) -> Generator[RunSummary]:
    """Run cells side by side and judge each as it ends, in one Spark session that starts meanwhile.

    ``may_start`` is asked just before a cell would start; ``settings`` are the user's, as data;
    ``cluster_file`` describes the layout, if it is not three AZs. A run that fails stops no other. Closing
    the generator ends every run in progress.
    """
    from checkers.spark.session import start_session

    room = threading.Semaphore(parallel + UNJUDGED)

    def run_when_there_is_room(cell: Cell) -> CellRun | None:
        room.acquire()
        return run_cell(cell, runs, lab, processes, settings, cluster_file) if may_start(cell) else None

    with RunProcesses() as processes, ThreadPoolExecutor(parallel, thread_name_prefix="cell") as pool:
        waiting = [pool.submit(run_when_there_is_room, cell) for cell in cells]
        try:
            session = start_session()
            for done in _as_they_end(waiting):
                ran = done.result()
                summary = None if ran is None else judge_cell(session, ran)
                room.release()
                if summary is not None:
                    yield summary
        finally:
            for future in waiting:
                future.cancel()
            processes.end_all()
            room.release(parallel)


def _as_they_end(futures: Sequence[Future[CellRun | None]]) -> Iterator[Future[CellRun | None]]:
    """Futures when they are done; if several are, the one that was submitted first."""
    left = list(futures)
    while left:
        wait(left, return_when=FIRST_COMPLETED)
        done = next(future for future in left if future.done())
        left.remove(done)
        yield done


def run_cell(
    cell: Cell,
    runs: Path,
    lab: str = "embedded",
    processes: RunProcesses | None = None,
    settings: Mapping[str, object] | None = None,
    cluster_file: Path | None = None,
) -> CellRun:
    """Run a cell in a process of its own and wait for it; its output goes to `run.log`.

    The run folder says how the run ended. If the process itself could not say, the run has crashed.
    Raises KeyboardInterrupt when ``processes`` have been asked to end.
    """
    if processes is None:
        with RunProcesses() as alone:
            return run_cell(cell, runs, lab, alone, settings, cluster_file)
    processes.check()
    folder = RunFolder.create(runs, cell.scenario, cell.file)
    folder.update(scenario=cell.scenario, kafka=cell.version, mode=cell.mode, lab=lab, status="running")
    began = time.monotonic()
    log = folder.path.absolute() / LOG
    arguments = [cell.scenario, cell.version, cell.mode, lab, str(folder.path.absolute())]
    arguments += [json.dumps(settings), "" if cluster_file is None else str(cluster_file.absolute())]
    arguments += [cell.client] if cell.client else []
    child = processes.begin("studies.series.cell", arguments, log)
    try:
        child.wait(LIMIT_S)
    except TimeoutError:
        folder.update(status="crashed", problem=f"{cell} did not end within {LIMIT_S:g} s")
    finally:
        processes.end(child)
        processes.forget(child)
    if folder.manifest().get("status") == "running":
        folder.update(status="crashed", problem=f"{cell} ended with status {child.status}; see {log}")
    return CellRun(cell, folder.path, time.monotonic() - began)


def unfit(cell: Cell, reason: str) -> RunSummary:
    """A cell that is not run, because something that it needs is missing."""
    return RunSummary(
        scenario=cell.scenario,
        version=cell.version,
        mode=cell.mode,
        client=cell.client,
        verdict="unfit",
        reasons=(reason,),
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def judge_cell(session: SparkSession, run: CellRun) -> RunSummary:
    """Judge a run; one that cannot be judged has crashed, and the reason says why."""
    from checkers.judge import judge

    unjudged = RunSummary(
        scenario=run.cell.scenario,
        version=run.cell.version,
        mode=run.cell.mode,
        client=run.cell.client,
        verdict="crashed",
        seconds=round(run.seconds, 1),
        folder=str(run.folder),
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    try:
        judgement = judge(session, run.folder)
    except AckedError as error:
        return replace(unjudged, reasons=(error.message,))
    return summarised(judgement, unjudged)


def summarised(judgement: Judgement, run: RunSummary) -> RunSummary:
    """The record of a run with its judgement."""
    fates, classes = judgement.fates, judgement.findings_by_class
    return replace(
        run,
        verdict=judgement.verdict,
        reasons=tuple(judgement.reasons),
        lost=sum(fates.get(fate, 0) for fate in LOSSES),
        duplicated=fates.get("duplicated", 0),
        moved=fates.get("moved", 0),
        kept=fates.get("kept", 0),
        findings={name: classes[name] for name in TRANSACTIONS_AND_GROUPS if classes.get(name)},
        claims={claim.name: claim.status for claim in judgement.claims},
        observed={claim.name: claim.observed for claim in judgement.claims},
        outcomes={
            claim.name: AS_SAID if claim.occurred == claim.says else OTHERWISE
            for claim in judgement.claims
            if claim.either and claim.occurred
        },
    )
