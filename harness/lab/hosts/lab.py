"""Hosts of others as a `Lab`: commands run in them, and faults may cut links, pause and end processes.

No file is written there, and no process is ended but one whose start command is known. A process that is
paused goes on by itself after a time-to-live, and one that was ended is started again, whatever becomes of
the harness and of the connection.
"""

from __future__ import annotations

import shlex
import signal as signals
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from types import MappingProxyType

from harness.errors import AckedError, LabError, UnfitError, WaitTimeoutError
from harness.host_files import HostFiles
from harness.lab import expiry
from harness.lab.hosts.shipped import shipped
from harness.lab.hosts.transport import HostShell, Target
from harness.lab.model import Host, MainProcess, Pipe, Result, Topology
from harness.waiting import wait_until

PAUSE_TAG, END_TAG = "ACKED-pause", "ACKED-end"
_START_TIME = r"""sed 's/.*) //' /proc/$p/stat | cut -d' ' -f20"""
_PAUSE = f"p=$4; {expiry.ARM}; kill -STOP $p"
_GUARD = ("sh", "-c", expiry.ARM, "guard")
_RESUME = f'kill -CONT "$4"; status=$?; {expiry.DISARM}; exit $status'
# Sent only to the process that was found: its start time is compared.
_END = f"""p=$4; {expiry.ARM}; [ "$({_START_TIME})" = "$5" ] && kill "-$6" $p"""
_STATE = f"""p=$1; [ "$({_START_TIME} 2>/dev/null)" = "$2" ] && sed 's/.*) //' /proc/$p/stat | cut -c 1"""
_LISTENS = "ss -Hltn 'sport = :{port}' | grep -q ."
# In a session of its own, so that it outlives the login and the watchdog; it writes to no terminal of ours.
_START = "${{ACKED_DETACH:-setsid}} sh -c {command} </dev/null >/dev/null 2>&1 &"
_END_POLL_S = 0.05
_UNREAPED_S = 5.0
"""How long a process may be a zombie until nobody seems to wait for it. It is one as soon as its first thread
has ended; that the others have ended too, its parent learns later."""
START_S = 120.0
"""How long a node may take from its start command until it listens."""
_NOT_OF_A_BROKER = ("docker-proxy", "rootlessport", "sshd", "systemd", "init")
"""Names of processes that listen in the place of another one, or that nothing may stop."""


@dataclass(frozen=True)
class _Paused:
    """A process that acked has stopped, and the watchdogs that resume it, by pid."""

    pid: int
    tag: str
    watchdog: str = ""
    guarded: str = ""
    """That of a guard."""


@dataclass(frozen=True)
class _Ended:
    """A process that acked has ended, and the watchdog that starts the node again."""

    pid: int
    start: str
    watchdog: str
    signal: int


class HostsLab:
    """Satisfies `Lab`."""

    kind = "hosts"
    shares_files = False
    of_others = True

    def __init__(
        self,
        topology: Topology,
        run_dir: Path,
        targets: Mapping[str, Target],
        ttl_s: float,
        starts: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``targets``: how each host is reached; ``starts``: what starts its node again, as root.

        A process that is paused goes on after ``ttl_s``, and one that was ended is started after
        `start_ttl_s`, which is the same unless it is set.
        """
        self.topology = topology
        self.run_dir = run_dir
        self._targets = targets
        self.ttl_s = self.start_ttl_s = ttl_s
        self._shells = {host.name: targets[host.name].shell(host.name) for host in topology.hosts}
        self._guards: dict[str, HostShell] = {}
        self._starts = starts
        self._paused: dict[str, _Paused] = {}
        self._ended: dict[str, _Ended] = {}

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
        return HostsLab(self.topology, self.run_dir, targets, self.ttl_s, self._starts)

    def down(self) -> None:
        """End the connections."""
        for shell in (*self._shells.values(), *self._guards.values()):
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
        """Raises UnfitError: acked starts nothing there but what it has ended (`start_again`)."""
        raise UnfitError(f"acked starts no process in {host}, because it did not set it up.")

    def may_start(self, host: str) -> bool:
        """Whether its start command is known."""
        return host in self._starts

    def start_again(self, host: str, within_s: float = START_S) -> int:
        """Start the node with the host's own command, unless it runs, and wait until it listens.

        Returns its pid. Raises UnfitError without a command, WaitTimeoutError.
        """
        ended, script = self._ended.get(host), self._start_script(host)
        self.disarm(host)
        self._checked(host, ("sh", "-c", f"{self._listens(host)} || {{ {script} }}"))
        pid = wait_until(
            lambda: self.pid(host),
            accept=lambda pid: pid is not None and (ended is None or pid != ended.pid),
            within_s=within_s,
            poll_s=0.5,
            awaiting=f"{host} to listen on port {self._port(host)} after its start command",
        )
        assert pid is not None
        return pid

    def disarm(self, host: str) -> None:
        """End the watchdog that would start the node again, if it was ended."""
        if (ended := self._ended.pop(host, None)) is not None:
            self.execute(host, ("sh", "-c", expiry.DISARM, "disarm", END_TAG, ended.watchdog))

    def signal(self, host: str, signal_number: int) -> None:
        """SIGSTOP and SIGCONT; SIGTERM and SIGKILL where a start command is known.

        What the signal changes ends by itself after the time-to-live. Raises UnfitError for others.
        """
        if signal_number == signals.SIGSTOP:
            self._pause(host)
        elif signal_number == signals.SIGCONT and host in self._paused:
            paused = self._paused.pop(host)
            words = (paused.tag, paused.watchdog, "", str(paused.pid))
            self.execute(host, ("sh", "-c", _RESUME, "resume", *words))
            if guard := self._guards.pop(host, None):
                guard.run(("sh", "-c", expiry.DISARM, "disarm", paused.tag, paused.guarded))
                guard.close()
        elif signal_number in (signals.SIGTERM, signals.SIGKILL):
            self._end(host, signal_number)
        elif signal_number != signals.SIGCONT:
            raise UnfitError(f"acked sends no signal {signal_number} to processes of {host}.")

    def _pause(self, host: str) -> None:
        pid, start = self._process(host)
        undo = f'p={pid}; [ "$({_START_TIME})" = {start} ] && kill -CONT $p'
        paused = _Paused(pid, f"{PAUSE_TAG}-{pid}")
        words = (paused.tag, f"{self.ttl_s:g}", undo)
        if target := self._targets[host].guard():
            guard = self._guards[host] = target.shell(host)
            paused = replace(paused, guarded=guard.run((*_GUARD, *words)).stdout.strip())
        self._paused[host] = paused
        watchdog = self._checked(host, ("sh", "-c", _PAUSE, "pause", *words, str(pid))).strip()
        self._paused[host] = replace(paused, watchdog=watchdog)

    def _end(self, host: str, number: int) -> None:
        script = self._start_script(host)
        pid, start = self._process(host)
        undo = f"{self._listens(host)} || {{ {script} }}"
        words = (f"{END_TAG}-{pid}", f"{self.start_ttl_s:g}", undo, str(pid), start, str(number))
        watchdog = self._checked(host, ("sh", "-c", _END, "end", *words)).strip()
        self._ended[host] = _Ended(pid, start, watchdog, number)

    def _process(self, host: str) -> tuple[int, str]:
        """Pid and start time of the node. Raises LabError if there is none."""
        pid = self.pid(host)
        if pid is None:
            raise LabError(f"No process of {host} listens on the ports of the hosts file.")
        return pid, self._checked(host, ("sh", "-c", f"p={pid}; {_START_TIME}")).strip()

    def _start_script(self, host: str) -> str:
        if host not in self._starts:
            raise UnfitError(f"No start command of {host} is known (`start`), so its node is not ended.")
        return _START.format(command=shlex.quote(self._starts[host]))

    def _listens(self, host: str) -> str:
        return _LISTENS.format(port=self._port(host))

    def _port(self, host: str) -> int:
        return next(iter(self.topology.host(host).ports), 0)

    def wait_exit(self, host: str, within_s: float) -> int:
        """Wait until the process that was signalled is no more; returns minus the signal.

        Its service manager must have noticed, or its start command would do nothing. Nobody tells the status
        of a process that others have started. Raises WaitTimeoutError.
        """
        ended = self._ended.get(host)
        if ended is None:
            raise WaitTimeoutError(f"acked has ended no process in {host}.")
        ask = ("sh", "-c", _STATE, "state", str(ended.pid), ended.start)
        dead_since: list[float] = []

        def is_gone(state: str) -> bool:
            if state in ("Z", "X"):
                dead_since.append(monotonic())
            return not state or (state in ("Z", "X") and dead_since[-1] - dead_since[0] >= _UNREAPED_S)

        wait_until(
            lambda: self.execute(host, ask).stdout.strip(),
            accept=is_gone,
            within_s=within_s,
            poll_s=_END_POLL_S,
            awaiting=f"the process {ended.pid} of {host} to end",
        )
        return -ended.signal

    def alive(self, host: str) -> bool:
        """Whether a process listens on the host's ports."""
        return self.pid(host) is not None

    def pid(self, host: str) -> int | None:
        """The process that listens on the first of the host's ports; None if there is none.

        Raises UnfitError if it only listens for another one.
        """
        if host in self._paused:
            return self._paused[host].pid
        port = self._port(host)
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
        return self._shells[self.topology.host(host).name].program(shipped(module))

    def resume(self, host: str) -> tuple[str, ...]:
        """Resume processes that acked has stopped and that no watchdog resumes any more; what was resumed."""
        resumed = self._shells[host].resume()
        if (pid := self.stopped(host)) is None:
            return resumed
        self._checked(host, ("kill", "-CONT", str(pid)))
        return (*resumed, f"pause of {pid}")

    def stopped(self, host: str) -> int | None:
        """The node's process, if somebody has stopped it (SIGSTOP); None also if it is not known."""
        try:
            return self.pid(host) if self.process_state(host) == "T" else None
        except AckedError:
            return None

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
