"""The processes of clusters, as the command sees them: orders in, answers out."""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from harness.errors import AckedError
from harness.fork_server import ForkedProcess, ForkServer
from studies.series.job import Job, Place
from studies.series.serving import RunAnswer, RunOrder

LIMIT_S = 420.0
"""A run that takes longer is ended and counts as crashed; none of the catalogue comes near it."""
END_S = 30.0
"""How long a cluster may take to end when it is asked to: it takes its hosts down first."""
LOG = "run.log"
IMPORTED_BEFORE = (
    "studies.series.process",
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
"""What a run needs sooner or later: imported once, before the processes of clusters are forked."""


class LostClusterError(AckedError):
    """The process of a cluster has ended, or does not answer."""


class ClusterProcesses:
    """The processes of the clusters that run, so that an interruption can end them all.

    A context: inside it, a process exists that forks them.
    """

    def __init__(self) -> None:
        self._children: set[ForkedProcess] = set()
        self._ended = False
        self._lock = threading.Lock()
        self._forks: ForkServer | None = None

    def begin(self, module: str, arguments: Sequence[str], streams: tuple[int, int, int]) -> ForkedProcess:
        """Start a module with these standard streams. Raises KeyboardInterrupt like `check`."""
        with self._lock:
            self.check()
            assert self._forks is not None
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

    def __enter__(self) -> Self:
        from run.catalogue import modules

        self._forks = ForkServer.spawn((*IMPORTED_BEFORE, *modules()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._forks is not None:
            self._forks.close()


class ClusterProcess:
    """A process that keeps a cluster, and carries out runs on it one after the other; a context."""

    def __init__(
        self,
        processes: ClusterProcesses,
        program: str,
        job: Job,
        place: Place,
        *,
        path: Path | None,
        log: Path,
    ) -> None:
        """A cluster of the job's version and mode in the folder ``path``.

        ``program`` is a module that serves clusters (`studies.series.serving`). Without ``path``, the cluster
        serves one run and is kept in its folder. The output of the process goes to ``log``.
        """
        self.log = log
        arguments = [
            job.version,
            job.mode,
            place.lab,
            json.dumps(place.settings),
            "" if place.cluster_file is None else str(place.cluster_file.absolute()),
            place.upgrade_to,
            "" if path is None else str(path),
        ]
        theirs_in, self._orders = os.pipe()
        self._answers, theirs_out = os.pipe()
        self._processes = processes
        try:
            with log.open("ab") as logged:
                streams = theirs_in, theirs_out, logged.fileno()
                self._child = processes.begin(program, arguments, streams)
        except BaseException:
            os.close(self._orders)
            os.close(self._answers)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

    def carry_out(self, order: RunOrder) -> RunAnswer:
        """Send an order and return the answer to it.

        Raises LostClusterError, and KeyboardInterrupt when the processes have been asked to end.
        """
        self._processes.check()
        text = b""
        deadline = time.monotonic() + LIMIT_S
        with suppress(BrokenPipeError):  # there will be no answer either
            os.write(self._orders, msgspec.json.encode(order) + b"\n")
        while not text.endswith(b"\n"):
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self._processes.end(self._child)
                raise LostClusterError(f"did not end within {LIMIT_S:g} s")
            part = os.read(self._answers, 1 << 12)
            if not part:
                self._processes.check()
                with suppress(TimeoutError):
                    self._child.wait(END_S)
                status = self._child.status
                raise LostClusterError(
                    f"ended with its process, whose status is {status}", facts={"status": str(status)}
                )
            text += part
        return msgspec.json.decode(text, type=RunAnswer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Have the process take its cluster down."""
        os.close(self._orders)
        try:
            self._child.wait(END_S)
        except TimeoutError:
            self._processes.end(self._child)
        finally:
            os.close(self._answers)
            self._processes.forget(self._child)
