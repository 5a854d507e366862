"""A substitute for a lab: agents run as plain processes of this machine, and hosts share its network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from harness.errors import WaitTimeoutError
from harness.host_files import Folder
from harness.lab.model import Host, Topology


@dataclass
class LocalPipe:
    process: subprocess.Popen[str]

    @property
    def stdin(self) -> IO[str]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stdout(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def poll(self) -> int | None:
        return self.process.poll()

    def kill(self) -> None:
        self.process.kill()

    def wait(self, timeout_s: float) -> int:
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise WaitTimeoutError(f"The agent did not end within {timeout_s:g} s.") from None


@dataclass
class LocalLab:
    """The part of a lab that a client needs. It remembers the processes that it started."""

    run_dir: Path
    kind: str = "local"
    topology: Topology = Topology(
        (
            Host(name="client1", role="client", az="az1", address="127.0.0.1", node_id=1),
            Host(
                name="broker1",
                role="broker",
                az="az1",
                address="127.0.0.1",
                node_id=1,
                services={"kafka": (9092,)},
            ),
        ),
        "127.0.0.1",
    )
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def files(self, host: str) -> Folder:
        return Folder(self.run_dir)

    def inside(self, host: str, path: str) -> str:
        return str(self.run_dir / path)

    def python(self) -> tuple[str, ...]:
        return (sys.executable,)

    def open_module(self, host: str, module: str, arguments: Sequence[str]) -> LocalPipe:
        return self.open_pipe(host, [*self.python(), "-m", module, *arguments])

    def open_pipe(self, host: str, argv: Sequence[str]) -> LocalPipe:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.processes.append(process)
        return LocalPipe(process)

    def down(self) -> None:
        """Kill processes that still run, and fail if there are any: tests must end their processes."""
        running = [process for process in self.processes if process.poll() is None]
        for process in running:
            process.kill()
            process.wait()
        assert running == [], f"still running after the test: {[process.args for process in running]}"
