"""The process of a cluster that outlasts a run, as the command sees it: orders in, answers out."""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Self

from studies.series.pool import END_S, LIMIT_S, LOG, RunProcesses

_POLL_S = 0.2


class LostClusterError(Exception):
    """The process of a cluster has ended, or does not answer."""


class StandingProcess:
    """A process that keeps a cluster, and carries out runs on it one after the other; a context.

    The process runs a module that reads each order as a line, and answers it with a line.
    """

    def __init__(
        self,
        processes: RunProcesses,
        program: str,
        *,
        version: str,
        mode: str,
        lab: str,
        settings: Mapping[str, object],
        cluster_file: Path | None,
        runs: Path,
    ) -> None:
        """The cluster gets a folder beside ``runs``; its arguments are those of `studies.series.serving`."""
        self.path = _made(runs.parent.absolute() / "clusters")
        file = () if cluster_file is None else (str(cluster_file.absolute()),)
        self.log = self.path / LOG
        theirs_in, self._orders = os.pipe()
        self._answers, theirs_out = os.pipe()
        self._processes = processes
        try:
            self._child = processes.begin(
                program,
                [version, mode, lab, str(self.path), json.dumps(settings), *file],
                self.log,
                standard_input=theirs_in,
                output=theirs_out,
            )
        except BaseException:
            os.close(self._orders)
            os.close(self._answers)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

    def carry_out(self, order: bytes) -> bytes:
        """Send an order, a line, and return the answer to it.

        Raises LostClusterError, and KeyboardInterrupt when the processes have been asked to end.
        """
        self._processes.check()
        try:
            os.write(self._orders, order + b"\n")
        except BrokenPipeError:
            raise LostClusterError("could not start: the process of its cluster has ended") from None
        text = b""
        deadline = time.monotonic() + LIMIT_S
        while not text.endswith(b"\n"):
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise LostClusterError(f"did not end within {LIMIT_S:g} s")
            part = os.read(self._answers, 1 << 12)
            if not part:
                self._processes.check()
                raise LostClusterError("ended with the process of its cluster")
            text += part
        return text

    def remove(self) -> None:
        """Remove the cluster's folder, once its process has ended."""
        shutil.rmtree(self.path, ignore_errors=True)

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


def passed(verdict: Future[bool], stopped: Callable[[], bool]) -> bool:
    """Wait for the verdict on a run, on which the next one depends; False if there will be none."""
    while not stopped() or verdict.done():
        with suppress(TimeoutError):
            return verdict.result(timeout=_POLL_S)
    return False


def _made(parent: Path) -> Path:
    """A new folder for a cluster."""
    for number in itertools.count(1):
        with suppress(FileExistsError):
            (parent / str(number) / "nodes").mkdir(parents=True)
            break
    return parent / str(number)
