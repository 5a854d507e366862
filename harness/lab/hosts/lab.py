"""Hosts of others as a `Lab`: commands run in them, and faults may cut links and pause processes.

No process is started or ended there, and no file is written. A process that is paused goes on by itself after
a time-to-live, whatever becomes of the harness and of the connection.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from harness.errors import LabError, UnfitError, WaitTimeoutError
from harness.host_files import HostFiles
from harness.lab import expiry
from harness.lab.hosts.shipped import shipped
from harness.lab.hosts.transport import Target
from harness.lab.model import Host, MainProcess, Pipe, Result, Topology

PAUSE_TAG = "ACKED-pause"
_START_TIME = r"""sed 's/.*) //' /proc/$p/stat | cut -d' ' -f20"""
_PAUSE = f"p=$4; {expiry.ARM}; kill -STOP $p"
_RESUME = f'kill -CONT "$4"; status=$?; {expiry.DISARM}; exit $status'
_NOT_OF_A_BROKER = ("docker-proxy", "rootlessport", "sshd", "systemd", "init")
"""Names of processes that listen in the place of another one, or that nothing may stop."""


class HostsLab:
    """Satisfies `Lab`."""

    kind = "hosts"
    shares_files = False

    def __init__(
        self, topology: Topology, run_dir: Path, targets: Mapping[str, Target], ttl_s: float
    ) -> None:
        """``targets``: how each host is reached. A process that is paused goes on after ``ttl_s``."""
        self.topology = topology
        self.run_dir = run_dir
        self._targets = targets
        self.ttl_s = ttl_s
        self._shells = {host.name: targets[host.name].shell(host.name) for host in topology.hosts}
        self._paused: dict[str, tuple[int, str]] = {}

    def up(self) -> None:
        """Connect to every host; from then on rules spare these connections. Raises UnfitError."""
        with ThreadPoolExecutor(len(self._shells)) as pool:
            hosts = tuple(pool.map(self.reach, self.topology.hosts))
        self.topology = replace(self.topology, hosts=hosts)

    def reach(self, host: Host) -> Host:
        """Connect to one host; returns it with that connection. Raises UnfitError if it is not root's."""
        return replace(host, control=self._shells[host.name].reach())

    def apart(self) -> HostsLab:
        """The same hosts over connections of their own, which are not up yet."""
        targets = {name: target.apart() for name, target in self._targets.items()}
        return HostsLab(self.topology, self.run_dir, targets, self.ttl_s)

    def down(self) -> None:
        """End the connections."""
        for shell in self._shells.values():
            shell.close()

    def data_dir(self, host: str) -> Path:
        """What the harness itself keeps about the host."""
        return self.run_dir / "nodes" / host

    def files(self, host: str) -> HostFiles:
        """Raises UnfitError: files of others are not read."""
        raise UnfitError(f"acked reads no files of {host}, because it did not set it up.")

    def inside(self, _host: str, path: Path | str) -> str:
        """The path as it is."""
        return str(path)

    def start(self, host: str, process: MainProcess) -> int:
        """Raises UnfitError: acked starts nothing in hosts of others."""
        raise UnfitError(f"acked starts no process in {host}, because it did not set it up.")

    def signal(self, host: str, signal_number: int) -> None:
        """SIGSTOP, which ends by itself after the time-to-live, and SIGCONT. Raises UnfitError for others."""
        if signal_number == signals.SIGSTOP:
            pid = self.pid(host)
            if pid is None:
                raise LabError(f"No process of {host} listens on the ports of the hosts file.")
            start = self._checked(host, ("sh", "-c", f"p={pid}; {_START_TIME}")).strip()
            undo = f'p={pid}; [ "$({_START_TIME})" = {start} ] && kill -CONT $p'
            tag = f"{PAUSE_TAG}-{pid}"
            words = ("pause", tag, f"{self.ttl_s:g}", undo, str(pid))
            self._paused[host] = pid, tag
            watchdog = self._checked(host, ("sh", "-c", _PAUSE, *words)).strip()
            self._paused[host] = pid, f"{tag} {watchdog}"
        elif signal_number == signals.SIGCONT and host in self._paused:
            pid, tag = self._paused.pop(host)
            tag, _, watchdog = tag.partition(" ")
            self.execute(host, ("sh", "-c", _RESUME, "resume", tag, watchdog, "", str(pid)))
        elif signal_number != signals.SIGCONT:
            raise UnfitError(
                f"acked only pauses processes of {host}; it ends none that it cannot start again."
            )

    def wait_exit(self, host: str, within_s: float) -> int:
        """Raises WaitTimeoutError: acked ends no process there."""
        raise WaitTimeoutError(f"acked does not wait {within_s:g} s for the end of a process in {host}.")

    def alive(self, host: str) -> bool:
        """Whether a process listens on the host's ports."""
        return self.pid(host) is not None

    def pid(self, host: str) -> int | None:
        """The process that listens on the first of the host's ports; None if there is none.

        Raises UnfitError if it only listens for another one.
        """
        if host in self._paused:
            return self._paused[host][0]
        port = next(iter(self.topology.host(host).ports), 0)
        found = self._shells[host].listener(port)
        if found is None:
            return None
        name, pid = found
        if name in _NOT_OF_A_BROKER or pid == 1:
            raise UnfitError(
                f"Port {port} of {host} belongs to {name} (pid {pid}), which is not the node itself; "
                "name a port on which the node listens, or leave `pause` out of `allow`."
            )
        return pid

    def process_state(self, host: str) -> str | None:
        """The kernel's one-letter state of that process."""
        pid = self.pid(host)
        if pid is None:
            return None
        result = self.execute(host, ("cat", f"/proc/{pid}/stat"))
        return result.stdout[result.stdout.rindex(")") + 2] if ")" in result.stdout else None

    def exit_status(self, _host: str) -> int | None:
        """None: acked starts no process there."""
        return None

    def execute(self, host: str, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 10.0) -> Result:
        """Run a short command in the host, as root."""
        return self._shells[self.topology.host(host).name].run(argv, stdin=stdin, timeout_s=timeout_s)

    def execute_all(
        self, commands: Mapping[str, tuple[Sequence[str], str]], *, timeout_s: float = 10.0
    ) -> dict[str, Result]:
        """Run one command (argv, stdin) in each of several hosts at the same time.

        If some hosts do not answer, the others have carried out theirs; then raises the first error.
        """
        if not commands:
            return {}
        with ThreadPoolExecutor(len(commands)) as pool:
            futures = {
                host: pool.submit(self.execute, host, argv, stdin=stdin, timeout_s=timeout_s)
                for host, (argv, stdin) in commands.items()
            }
        return {host: future.result() for host, future in futures.items()}

    def open_module(self, host: str, module: str, arguments: Sequence[str]) -> Pipe:
        """Start a module in the host's own Python, over a connection of its own. Raises UnfitError."""
        if arguments:
            raise LabError(f"{module} takes no arguments in {host}.")
        return self._targets[host].shell(host).program(shipped(module))

    def lost(self) -> str:
        """Why a fault may not end by itself any more, in some host; empty if it does."""
        return next(filter(None, (shell.lost() for shell in self._shells.values())), "")

    def run_first(self) -> AbstractContextManager[bool]:
        """Not possible there."""
        return nullcontext(False)

    def python(self) -> tuple[str, ...]:
        """Raises UnfitError: this project is not installed there."""
        raise UnfitError("This project is not installed in hosts of others.")

    def on_new_network(self, _callback: Callable[[str], None]) -> None:
        """Nobody tells of it."""

    def on_start(self, _callback: Callable[[str], None]) -> None:
        """acked starts nothing there."""

    def _checked(self, host: str, argv: Sequence[str]) -> str:
        result = self.execute(host, argv)
        if result.status != 0:
            raise LabError(f"A command in {host} failed (status {result.status}).", detail=result.stderr)
        return result.stdout
