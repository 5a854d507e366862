"""The embedded lab: every host is a network namespace on one bridge; nothing to install, no daemon.

Runs inside the namespaces of `harness.lab.embedded.namespaces`. The bridge has its own namespace, because
FORWARD policies of a Docker engine on the same machine would block it; the harness has an address on it that
no fault names. No namespace of the lab has a default route.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from harness.errors import LabError, UsageError, WaitTimeoutError
from harness.fork_server import ForkServer
from harness.host_files import Folder, HostFiles
from harness.lab.embedded.namespaces import NAMESPACE_DIR
from harness.lab.embedded.priority import first_to_run, follow
from harness.lab.model import MainProcess, Pipe, Result, Topology, process_state
from harness.privileges import unprivileged
from harness.waiting import wait_until

_LAN = "lan"
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Helper:
    """A forked helper process, used through pipes; satisfies `Pipe`."""

    def __init__(
        self, forks: ForkServer, module: str, arguments: Sequence[str], log: Path, network: Path | None = None
    ) -> None:
        """Fork it in the namespace ``network``, or in ours; its stderr goes to ``log``."""
        its_input, ours = os.pipe()
        our_output, its = os.pipe()
        errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._fork = forks.start(module, arguments, (its_input, its, errors), network)
        for given in (its_input, its, errors):
            os.close(given)
        self.stdin: IO[str] = os.fdopen(ours, "w")
        self.stdout: IO[str] = os.fdopen(our_output)

    def poll(self) -> int | None:
        return self._fork.status

    def kill(self) -> None:
        self._fork.signal(signal.SIGKILL)

    def wait(self, timeout_s: float) -> int:
        try:
            self._fork.wait(timeout_s)
        except TimeoutError:
            raise WaitTimeoutError(f"A helper process did not end within {timeout_s:.1f} s.") from None
        assert self._fork.status is not None
        return self._fork.status


class EmbeddedLab:
    """Hosts as network namespaces of this process's PID and mount namespace."""

    kind = "embedded"
    shares_files = True
    of_others = False

    def __init__(self, topology: Topology, run_dir: Path) -> None:
        """``run_dir`` is the run folder; hosts keep their files in ``run_dir/nodes/<host>``."""
        self.topology = topology
        self.run_dir = run_dir
        self._main: dict[str, subprocess.Popen[bytes]] = {}
        self._callbacks: list[Callable[[str], None]] = []
        self._forks: ForkServer | None = None
        self._up = False

    def up(self) -> None:
        """Create a namespace, a link to the bridge and an address for every host."""
        self._forks = ForkServer.fork()  # first of all, while the process has one thread
        names = [host.name for host in self.topology.hosts]
        observer = self.topology.observer_address
        _ip("".join(f"netns add {name}\n" for name in [_LAN, *names]))
        lan = ["link set lo up", "link add lan0 type bridge", "link set lan0 up"]
        for name in names:
            lan.append(f"link add v-{name} type veth peer name eth0 netns {name}")
            lan.append(f"link set v-{name} master lan0 up")
        _ip("\n".join(lan) + "\n", _LAN)
        _ip(f"link set lo up\nlink add eth0 type veth peer name v-observer netns {_LAN}\n")
        _ip("link set v-observer master lan0 up\n", _LAN)
        _ip(f"addr add {observer}/24 dev eth0\nlink set eth0 up\n")
        pending = [
            (
                host.name,
                _ip_start(
                    f"link set lo up\naddr add {host.address}/24 dev eth0\nlink set eth0 up\n", host.name
                ),
            )
            for host in self.topology.hosts
        ]
        for name, process in pending:
            _ip_end(process, name)
        for name in names:
            self.data_dir(name).mkdir(parents=True, exist_ok=True)
        self._up = True

    def down(self) -> None:
        """Kill every main process and remove the namespaces."""
        for process in self._main.values():
            if process.poll() is None:
                _signal_group(process.pid, signal.SIGKILL)
        for process in self._main.values():
            process.wait()
        self._main.clear()
        if self._forks is not None:
            self._forks.close()
            self._forks = None
        if self._up:
            self._up = False
            names = [_LAN, *(host.name for host in self.topology.hosts)]
            _ip("".join(f"netns del {name}\n" for name in names))

    def data_dir(self, host: str) -> Path:
        """The host's own folder."""
        return self.run_dir / "nodes" / host

    def files(self, host: str) -> HostFiles:
        """The files below the host's own folder."""
        return Folder(self.data_dir(host))

    def inside(self, host: str, path: Path | str) -> str:
        """Paths are the same inside an embedded host as outside."""
        return str(self.data_dir(host) / path if isinstance(path, str) else path)

    def start(self, host: str, process: MainProcess) -> int:
        """Start the main process in its own session; the pid is that of the Java process."""
        running = self._main.get(host)
        if running is not None and running.poll() is None:
            raise UsageError(f"{host} already runs (pid {running.pid}); end it before it is started again.")
        folder = self.data_dir(host)
        with (folder / "out.log").open("ab") as output:
            self._main[host] = subprocess.Popen(
                self._inside(host, unprivileged(process.argv, folder.resolve(), Path(sys.prefix))),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={"PATH": _PATH, "HOME": str(folder), "LC_ALL": "C.UTF-8", **process.env},
                start_new_session=True,
            )
        follow(self._main[host].pid)
        for callback in self._callbacks:
            callback(host)
        return self._main[host].pid

    def run_first(self) -> AbstractContextManager[bool]:
        """Prefer all processes of this PID namespace; True with CAP_SYS_NICE."""
        return first_to_run()

    def signal(self, host: str, signal_number: int) -> None:
        """Send a signal to the main process; has no effect after it has ended."""
        process = self._process(host)
        if process.poll() is None:
            _signal_group(process.pid, signal_number)

    def wait_exit(self, host: str, within_s: float) -> int:
        """Wait until the main process ends; returns its exit status."""
        process = self._process(host)
        wait_until(
            process.poll,
            within_s=within_s,
            awaiting=f"{host} (pid {process.pid}) to end",
            accept=lambda status: status is not None,
            poll_s=0.01,
        )
        return process.returncode

    def alive(self, host: str) -> bool:
        """Whether the main process was started and has not ended."""
        process = self._main.get(host)
        return process is not None and process.poll() is None

    def pid(self, host: str) -> int | None:
        """Pid of the main process while it runs."""
        process = self._main.get(host)
        return process.pid if process is not None and process.poll() is None else None

    def process_state(self, host: str) -> str | None:
        """The kernel's one-letter state of the main process."""
        return process_state(self.pid(host))

    def exit_status(self, host: str) -> int | None:
        """Exit status of a main process that has ended."""
        process = self._main.get(host)
        return None if process is None else process.poll()

    def execute(self, host: str, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 10.0) -> Result:
        """Run a short command in the host's network."""
        return self.execute_all({host: (argv, stdin)}, timeout_s=timeout_s)[host]

    def execute_all(
        self, commands: Mapping[str, tuple[Sequence[str], str]], *, timeout_s: float = 10.0
    ) -> dict[str, Result]:
        """Run one command in each of several hosts at the same time."""
        running: dict[str, subprocess.Popen[str]] = {}
        for host, (argv, text) in commands.items():
            self.topology.host(host)
            process = subprocess.Popen(
                self._inside(host, argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            running[host] = process
            if len(text) < 60_000 and process.stdin is not None:
                try:
                    process.stdin.write(text)
                    process.stdin.close()
                except BrokenPipeError:
                    pass
                process.stdin = None
        results: dict[str, Result] = {}
        for host, process in running.items():
            unsent = commands[host][1] if process.stdin is not None else None
            try:
                out, err = process.communicate(unsent, timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise LabError(
                    f"`{' '.join(commands[host][0])}` in {host} did not end within {timeout_s:g} s."
                ) from None
            results[host] = Result(process.returncode, out, err)
        return results

    def open_module(self, host: str, module: str, arguments: Sequence[str]) -> Pipe:
        """A fork in the host's network; its stderr goes to `data_dir/helper.log`."""
        if self._forks is None:
            raise LabError(f"{host} is not up, so {module} cannot be started in it.")
        network = NAMESPACE_DIR / self.topology.host(host).name
        return Helper(self._forks, module, arguments, self.data_dir(host) / "helper.log", network)

    def python(self) -> tuple[str, ...]:
        """This interpreter."""
        return (sys.executable,)

    def on_new_network(self, _callback: Callable[[str], None]) -> None:
        """Hosts keep their networks, and their rules, as long as the lab is up: there is nothing to call."""

    def on_start(self, callback: Callable[[str], None]) -> None:
        """Call ``callback(host)`` after each start of a main process."""
        self._callbacks.append(callback)

    def _inside(self, host: str, argv: Sequence[str]) -> list[str]:
        return ["nsenter", f"--net={NAMESPACE_DIR / self.topology.host(host).name}", "--", *argv]

    def _process(self, host: str) -> subprocess.Popen[bytes]:
        process = self._main.get(self.topology.host(host).name)
        if process is None:
            raise UsageError(f"{host} was never started, so it cannot be signalled or waited for.")
        return process


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _ip_start(batch: str, namespace: str = "") -> subprocess.Popen[str]:
    scope = ["-n", namespace] if namespace else []
    process = subprocess.Popen(
        ["ip", *scope, "-batch", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(batch)
    process.stdin.close()
    process.stdin = None
    return process


def _ip_end(process: subprocess.Popen[str], where: str) -> None:
    output, _ = process.communicate()
    if process.returncode != 0:
        raise LabError(f"Setting up the network of {where} failed: {output.strip()}")


def _ip(batch: str, namespace: str = "") -> None:
    _ip_end(_ip_start(batch, namespace), namespace or "the harness")
