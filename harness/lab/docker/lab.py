"""The Compose lab: every host is a container on an internal network, driven with the Docker SDK.

The Compose file defines the containers (`up --no-start`); everything after that goes through the engine. The
entry script keeps each container running, and the main process is started inside it, so a host whose broker
was killed keeps its address and its rules, as in the embedded lab.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import docker
from docker.errors import APIError

from harness.artifacts.cache import cache_dir
from harness.errors import LabError, UsageError
from harness.host_files import Folder, HostFiles
from harness.lab.docker import engine as docker_engine
from harness.lab.docker import image as docker_image
from harness.lab.docker import mounts as docker_mounts
from harness.lab.docker import project as docker_project
from harness.lab.docker import sweep as docker_sweep
from harness.lab.docker.exec import DockerPipe, Exec, run, start_main
from harness.lab.model import MainProcess, Pipe, Result, Topology, process_state
from harness.waiting import wait_until

T = TypeVar("T")
_NETWORK = "lan"
"""Name of the network in the Compose files."""


class ComposeLab:
    """Hosts as containers of one Compose project."""

    kind = "compose"
    shares_files = False
    of_others = False

    def __init__(self, topology: Topology, run_dir: Path) -> None:
        """``topology`` names the hosts; `up` moves their addresses to a subnet of this run."""
        self.topology = topology
        self.run_dir = run_dir.absolute()
        self.project = f"acked-{os.getpid()}-{secrets.token_hex(3)}"
        """Compose project, and value of the `acked.run` label."""
        self._client: docker.DockerClient | None = None
        self._containers: dict[str, str] = {}
        self._main: dict[str, Exec] = {}
        self._callbacks: list[Callable[[str], None]] = []
        self._network_callbacks: list[Callable[[str], None]] = []
        self._user = f"{os.getuid()}:{os.getgid()}"

    def up(self) -> None:
        """Build the image if it is missing, create network and containers, and start them idle."""
        self._client = client = docker_engine.connect()
        docker_engine.compose_command()
        with contextlib.suppress(LabError):  # two runs may sweep at once; `acked clean` names what remains
            docker_sweep.remove(client, lambda thing: not thing.alive)
        image = docker_image.ensure(client)
        docker_engine.guard_route()
        for host in self.topology.hosts:
            self.data_dir(host.name).mkdir(parents=True, exist_ok=True)
        self.topology = docker_project.create(client, self.project, self.topology, self.run_dir, image)
        docker_engine.guard_route()  # another run may have ended, and removed it, in between
        label = f"{docker_engine.LABEL_RUN}={self.project}"
        for entry in client.api.containers(all=True, filters={"label": label}):
            self._containers[entry["Labels"]["com.docker.compose.service"]] = entry["Id"]
        self._each(self._containers, lambda host: client.api.start(self._containers[host]))
        docker_engine.require_on_bridge(self.topology.observer_address)

    def down(self) -> None:
        """Remove containers, network and volumes of this run; the run folder remains.

        While disks are mounted in the run folder, it remains a mount too; call `down` again after unmounting
        them.
        """
        client, self._client = self._client, None
        self._main.clear()
        self._containers.clear()
        try:
            if client is not None:
                docker_sweep.remove(client, lambda thing: thing.kind != "mount", run=self.project)
                if all(thing.kind == "mount" for thing in docker_sweep.leftovers(client)):
                    docker_engine.drop_guard_route()
        finally:
            if client is not None:
                client.close()
            docker_mounts.release(self.run_dir)

    def data_dir(self, host: str) -> Path:
        """The host's own folder; `/data` inside."""
        return self.run_dir / "nodes" / host

    def files(self, host: str) -> HostFiles:
        """The files below the host's own folder."""
        return Folder(self.data_dir(host))

    def inside(self, host: str, path: Path | str) -> str:
        """`/data/...` for the host's own folder; the artifact cache has the same path inside as outside."""
        path = (self.data_dir(host) / path if isinstance(path, str) else path).absolute()
        if path.is_relative_to(self.data_dir(host)):
            return str(Path("/data") / path.relative_to(self.data_dir(host)))
        if path.is_relative_to(cache_dir()):
            return str(path)
        raise UsageError(
            f"{host} does not see {path}: only {self.data_dir(host)} and {cache_dir()} are mounted there."
        )

    def start(self, host: str, process: MainProcess) -> int:
        """Start the main process; a host whose container was stopped is started first."""
        running = self._main.get(host)
        if running is not None and running.poll() is None:
            raise UsageError(f"{host} already runs (pid {running.pid()}); end it before it is started again.")
        docker_project.write_command(self.data_dir(host), process)
        api, container = self._api(), self._container(host)
        try:
            if not api.inspect_container(container)["State"]["Running"]:
                api.start(container)
                for callback in self._network_callbacks:
                    callback(host)
            self._main[host] = start_main(api, container, self._user)
        except APIError as error:
            raise LabError(
                f"The main process of {host} did not start: {docker_engine.explain(error)}"
            ) from error
        pid = self._main[host].pid()
        for callback in self._callbacks:
            callback(host)
        return pid

    def signal(self, host: str, signal_number: int) -> None:
        """Send a signal to the main process; has no effect after it has ended."""
        self._process(host).signal(signal_number)

    def run_first(self) -> contextlib.AbstractContextManager[bool]:
        """False: the engine runs the containers."""
        return contextlib.nullcontext(False)

    def wait_exit(self, host: str, within_s: float) -> int:
        """Wait until the main process ends; returns its exit status (-9 for SIGKILL)."""
        status = wait_until(
            self._process(host).poll,
            within_s=within_s,
            awaiting=f"the main process of {host} to end",
            accept=lambda seen: seen is not None,
            poll_s=0.02,
        )
        assert status is not None
        return status

    def alive(self, host: str) -> bool:
        """Whether the main process was started and has not ended."""
        process = self._main.get(host)
        return process is not None and process.poll() is None

    def pid(self, host: str) -> int | None:
        """Pid of the main process on the engine's machine, which is this one, while it runs."""
        process = self._main.get(host)
        return process.pid() if process is not None and process.poll() is None else None

    def process_state(self, host: str) -> str | None:
        """The kernel's one-letter state of the main process."""
        return process_state(self.pid(host))

    def exit_status(self, host: str) -> int | None:
        """Exit status of a main process that has ended."""
        process = self._main.get(host)
        return None if process is None else process.poll()

    def execute(self, host: str, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 10.0) -> Result:
        """Run a short command in the host."""
        return run(self._api(), self._container(host), host, argv, stdin, timeout_s)

    def execute_all(
        self, commands: Mapping[str, tuple[Sequence[str], str]], *, timeout_s: float = 10.0
    ) -> dict[str, Result]:
        """Run one command in each of several hosts at the same time."""

        def one(host: str) -> Result:
            argv, text = commands[host]
            return self.execute(host, argv, stdin=text, timeout_s=timeout_s)

        return self._each(commands, one)

    def open_pipe(self, host: str, argv: Sequence[str]) -> Pipe:
        """Start a helper process in the host; its stderr goes to `data_dir/helper.log`."""
        errors = self.data_dir(host) / "helper.log"
        return DockerPipe(self._api(), self._container(host), host, argv, self._user, errors)

    def open_module(self, host: str, module: str, arguments: Sequence[str]) -> Pipe:
        """Start a module of this project as a helper process in the host."""
        return self.open_pipe(host, [*self.python(), "-m", module, *arguments])

    def python(self) -> tuple[str, ...]:
        """The image's interpreter, which finds the mounted sources by PYTHONPATH."""
        return ("python3",)

    def on_new_network(self, callback: Callable[[str], None]) -> None:
        """Call ``callback(host)`` when a container was started that had been stopped."""
        self._network_callbacks.append(callback)

    def on_start(self, callback: Callable[[str], None]) -> None:
        """Call ``callback(host)`` after each start of a main process."""
        self._callbacks.append(callback)

    def container(self, host: str) -> str:
        """Id of a host's container, for faults of the container itself (pause, stop, disconnect)."""
        return self._container(host)

    def disconnect(self, host: str) -> None:
        """Remove the host's interface with its address; may be called twice."""
        docker_engine.disconnect_container(self._api(), self._container(host), f"{self.project}_{_NETWORK}")

    def reconnect(self, host: str) -> None:
        """Give the host an interface with its address again; may be called twice."""
        endpoint_host, network = self.topology.host(host), f"{self.project}_{_NETWORK}"
        docker_engine.connect_container(self._api(), self._container(host), network, endpoint_host)

    def _api(self) -> docker.APIClient:
        if self._client is None:
            raise LabError("The lab is not up, so nothing can be run in its hosts.")
        return self._client.api

    def _container(self, host: str) -> str:
        name = self.topology.host(host).name
        if name not in self._containers:
            raise LabError(f"There is no container of {host}: the lab is not up.")
        return self._containers[name]

    def _process(self, host: str) -> Exec:
        process = self._main.get(self.topology.host(host).name)
        if process is None:
            raise UsageError(f"{host} was never started, so it cannot be signalled or waited for.")
        return process

    def _each(self, hosts: Mapping[str, object], act: Callable[[str], T]) -> dict[str, T]:
        names = list(hosts)
        with ThreadPoolExecutor(max_workers=max(1, len(names))) as pool:
            return dict(zip(names, pool.map(act, names), strict=True))
