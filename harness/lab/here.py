"""This machine as the only host of clients, for a cluster whose hosts belong to somebody else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.fork_server import ForkServer
from harness.host_files import Folder, HostFiles
from harness.lab.embedded.lab import Helper
from harness.lab.model import Pipe, Topology

HERE = "here"
"""The name of the host, and of the AZ that it is in."""


class Here:
    """Satisfies `ClientHosts`: helper processes are forks on this machine, in the user's own network.

    They end with the process that made them, whatever ends it.
    """

    def __init__(self, topology: Topology, run_dir: Path) -> None:
        """``topology`` has the host `HERE`. Call it while the process has one thread: it forks."""
        self.topology = topology
        self._folder = run_dir / "nodes" / HERE
        self._folder.mkdir(parents=True, exist_ok=True)
        self._forks = ForkServer.fork()

    def files(self, _host: str) -> HostFiles:
        """The files that its helpers write."""
        return Folder(self._folder)

    def inside(self, _host: str, path: Path | str) -> str:
        """Paths are the same inside as outside."""
        return str(self._folder / path)

    def open_module(self, _host: str, module: str, arguments: Sequence[str]) -> Pipe:
        """A fork on this machine; its stderr goes to `helper.log`."""
        return Helper(self._forks, module, arguments, self._folder / "helper.log")

    def down(self) -> None:
        """End all helpers."""
        self._forks.close()
