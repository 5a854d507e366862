"""Running the cases of an assessment on few clusters, several clusters side by side.

Starting a cluster costs more than a fault. A cluster therefore runs one case after the other, if they need
the same roles. Each case has a run folder, a topic and clients of its own. A run is judged while the next one
goes on. The next one counts only if that judgement finds nothing against the cluster. A new cluster is
started after

* a run that was not complete, or in which an operator had to act;
* a broken promise, or a finding that no fault explains (`STRANGE`);
* a fault that takes data from disks, because such cases need other disks;
* a failure to place the roles again.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec

from harness.errors import json_file
from run.folder import RunFolder
from studies.assess.battery import Case
from studies.assess.cell import CaseOrder
from studies.series.plan import Cell
from studies.series.pool import CellRun, RunProcesses, judge_cell
from studies.series.serving import RunAnswer
from studies.series.standing import LostClusterError, StandingProcess, passed
from studies.series.summary import RunSummary

PROGRAM = "studies.assess.cell"
MOST_CASES = 10
"""Cases on one cluster: topics of earlier ones stay, and logs grow."""
STRANGE = ("process_exit", "server_error", "not_converged", "config_mismatch", "diverged", "corrupt")
"""Classes of findings after which a cluster is not used again."""


def run_cases(
    cells: Sequence[Cell],
    cases: Mapping[str, Case],
    runs: Path,
    *,
    parallel: int,
    lab: str,
    settings: Mapping[str, object],
    cluster_file: Path | None = None,
    may_start: Callable[[Cell], bool] = lambda cell: True,
) -> Generator[RunSummary]:
    """Run cells, whose scenarios name ``cases``, and judge each as it ends.

    ``may_start`` is asked just before a case would start. Closing the generator ends every run in progress.
    """
    from checkers.spark.session import start_session

    work = _Work(cells, cases)
    ended: SimpleQueue[tuple[CellRun, Future[bool]]] = SimpleQueue()
    with RunProcesses() as processes, ThreadPoolExecutor(parallel, thread_name_prefix="cluster") as pool:
        line = _Line(
            processes=processes,
            runs=runs,
            lab=lab,
            settings=settings,
            cluster_file=cluster_file,
            may_start=may_start,
            ended=ended,
        )
        workers = [pool.submit(line.work_off, work) for _ in range(parallel)]
        verdicts: list[Future[bool]] = []
        try:
            session = start_session()
            while not (all(worker.done() for worker in workers) and ended.empty()):
                try:
                    run, verdict = ended.get(timeout=0.2)
                except Empty:
                    continue
                verdicts.append(verdict)
                summary = judge_cell(session, run)
                verdict.set_result(summary.judged and ordinary(run.folder))
                yield summary
            for worker in workers:
                worker.result()
        finally:
            line.stop()
            processes.end_all()


def ordinary(folder: Path) -> bool:
    """Whether nothing in a judged run speaks against its cluster."""
    judgement = json_file(folder / "judgement.json")
    strange = any(name in judgement["findings_by_class"] for name in STRANGE)
    return not strange and all(row["promise"] != "broken" for row in judgement["promises"])


@dataclass(frozen=True)
class _Needs:
    """What a cluster must have for a case."""

    controller: str
    quorum_leader: str
    pins: tuple[tuple[str, tuple[str, ...]], ...]
    """By broker, the ZooKeeper nodes that are the only ones it knows."""
    alone: bool
    """No other case may run on it."""


class _Work:
    """The cells that have not begun. Thread-safe."""

    def __init__(self, cells: Sequence[Cell], cases: Mapping[str, Case]) -> None:
        self._left, self._cases = list(cells), cases
        self._lock = threading.Lock()
        self._served: Counter[_Needs] = Counter()
        """How many clusters run, by what they offer."""

    def begin(self) -> Cell | None:
        """The first case for a new cluster, preferably one that no running cluster can take."""
        with self._lock:
            if not self._left:
                return None
            fresh = (cell for cell in self._left if not self._served[self._needs(cell)])
            cell = next(fresh, self._left[0])
            self._left.remove(cell)
            self._served[self._needs(cell)] += 1
            return cell

    def end(self, cell: Cell) -> None:
        """Record that a cluster that ran this case has ended."""
        with self._lock:
            self._served[self._needs(cell)] -= 1

    def follow(self, before: Cell) -> Cell | None:
        """The first case that can follow another one on its cluster."""
        needs = self._needs(before)
        with self._lock:
            for place, cell in enumerate(self._left):
                if not needs.alone and self._needs(cell) == needs:
                    return self._left.pop(place)
        return None

    def put_back(self, cell: Cell) -> None:
        """Put back a case that was not run after all."""
        with self._lock:
            self._left.insert(0, cell)

    def _needs(self, cell: Cell) -> _Needs:
        case = self._cases[cell.scenario]
        return _Needs(
            case.controller,
            case.quorum_leader,
            tuple(sorted(case.pins.items())),
            alone=case.needs_disks,
        )


@dataclass(frozen=True, kw_only=True)
class _Line:
    """What each thread that runs cases on a cluster needs."""

    processes: RunProcesses
    runs: Path
    lab: str
    settings: Mapping[str, object]
    cluster_file: Path | None
    may_start: Callable[[Cell], bool]
    ended: SimpleQueue[tuple[CellRun, Future[bool]]]
    _stopped: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Wait for no further judgement."""
        self._stopped.set()

    def work_off(self, work: _Work) -> None:
        """Run cases, on one cluster after the other, until none is left."""
        while (cell := work.begin()) is not None:
            try:
                if not self._on_one_cluster(cell, work):
                    return
            finally:
                work.end(cell)

    def _on_one_cluster(self, cell: Cell, work: _Work) -> bool:
        """Run a case, and others that can follow it. Returns False if nothing may start any more."""
        before: Future[bool] | None = None
        with _Cluster(self, cell) as cluster:
            for _ in range(MOST_CASES):
                if not self.may_start(cell):
                    return False
                folder = RunFolder.create(self.runs, cell.scenario)
                folder.update(
                    scenario=cell.scenario,
                    kafka=cell.version,
                    mode=cell.mode,
                    lab=self.lab,
                    status="running",
                    cluster=str(cluster.path),
                )
                began = time.monotonic()
                try:
                    answer = cluster.run(cell, folder)
                except LostClusterError as error:
                    answer = RunAnswer()
                    if folder.manifest().get("status") == "running":
                        folder.update(status="crashed", problem=f"{cell} {error}; see {cluster.log}")
                if answer.refused or not (before is None or passed(before, self._stopped.is_set)):
                    folder.update(status="unfit", problem="it was run again on another cluster")
                    work.put_back(cell)
                    return True
                before = Future()
                self.ended.put((CellRun(cell, folder.path, time.monotonic() - began), before))
                following = work.follow(cell) if answer.usable else None
                if following is None:
                    return True
                cell = following
            work.put_back(cell)
        return True


class _Cluster(StandingProcess):
    """The process of one cluster, which runs cases."""

    def __init__(self, line: _Line, cell: Cell) -> None:
        super().__init__(
            line.processes,
            PROGRAM,
            version=cell.version,
            mode=cell.mode,
            lab=line.lab,
            settings=line.settings,
            cluster_file=line.cluster_file,
            runs=line.runs,
        )

    def run(self, cell: Cell, folder: RunFolder) -> RunAnswer:
        """Run a case. Raises LostClusterError, and KeyboardInterrupt as `carry_out` does."""
        order = CaseOrder(case=cell.scenario, folder=str(folder.path.absolute()))
        return msgspec.json.decode(self.carry_out(msgspec.json.encode(order)), type=RunAnswer)
