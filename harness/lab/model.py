"""The lab protocol: hosts in AZs, processes in hosts. Both labs (embedded, compose) implement it.

A host has an address of its own and runs one main process (a ZooKeeper node, a broker, a controller, or a
client's agent). Short commands run inside a host's network with `execute`: firewall rules are loaded and
links are probed that way. Of Kafka, a lab knows only which ports belong to which service.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Protocol

from harness.errors import UsageError
from harness.host_files import HostFiles
from harness.kafka.model import (
    BROKER_PORT,
    CONTROLLER_PORT,
    ZOOKEEPER_PEER_PORTS,
    ZOOKEEPER_PORT,
    Endpoint,
)
from harness.kafka.security import PLAINTEXT, ClientSecurity

DATA = "data"
"""Where a host keeps the data of its main process, below its folder."""
SECOND_DATA = "data2"
"""The second directory of a broker's `log.dirs`, where a set-up asks for one."""
SERVER_LOG = "server.log"
"""The log of a host's main process."""
OUTPUT_LOG = "out.log"
"""What a host's main process writes to its standard output and error."""
ROLES = ("zookeeper", "controller", "broker", "client")
SERVICES: Mapping[str, tuple[int, ...]] = {
    "kafka": (BROKER_PORT,),
    "controller": (CONTROLLER_PORT,),
    "zookeeper": (ZOOKEEPER_PORT,),
    "zookeeper-peer": ZOOKEEPER_PEER_PORTS,
}
"""TCP ports by service name, as faults name them (`broker1 -> broker2:kafka`), where a lab starts them."""


@dataclass(frozen=True)
class Control:
    """The TCP connection by which the harness commands a host; no fault may stop its packets."""

    client: str
    """The address that the host sees it come from: the harness, or a jump host."""
    server: str
    port: int
    """Where the host has accepted it."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """One host. ``name`` is role and number (`broker1`); ``node_id`` is its id in Kafka or ZooKeeper.

    ``az`` is `az1`, `az2` and so on, whatever name the AZ has (`Topology.az_names`).
    """

    name: str
    """Such as `broker1`."""
    role: str
    """`broker`, `zookeeper`, `controller` or `client`."""
    az: str
    """The AZ: `az1` and so on."""
    address: str
    """IP address."""
    node_id: int
    """Its id in Kafka or ZooKeeper."""
    services: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    """TCP ports that its main process listens on, by service (`SERVICES`); clients connect to the first."""
    security: ClientSecurity = PLAINTEXT
    """What its Kafka listeners speak, and with what the harness proves there who it is."""
    control: Control | None = None
    """None in a lab that needs no network to command its hosts."""

    @property
    def ports(self) -> tuple[int, ...]:
        """TCP ports that its main process listens on."""
        return tuple(port for ports in self.services.values() for port in ports)

    @property
    def broker_endpoint(self) -> Endpoint:
        """Where a broker in this host listens."""
        return self._endpoint("kafka", self.security.protocol, self.security)

    @property
    def controller_endpoint(self) -> Endpoint:
        """Where a KRaft controller in this host listens."""
        return self._endpoint("controller", "CONTROLLER", self.security)

    @property
    def zookeeper_endpoint(self) -> Endpoint:
        """Where a ZooKeeper node in this host serves clients."""
        return self._endpoint("zookeeper", "", PLAINTEXT)

    def _endpoint(self, service: str, listener: str, security: ClientSecurity) -> Endpoint:
        return Endpoint(
            self.address,
            self.services.get(service, SERVICES[service])[0],
            listener=listener,
            security=security,
            node_id=self.node_id,
            node=self.name,
        )


@dataclass(frozen=True)
class Topology:
    """All hosts of a lab, and the address from which the harness observes them, which no fault names."""

    hosts: tuple[Host, ...]
    """All hosts."""
    observer_address: str
    """Address of the harness itself in the hosts' network."""
    az_names: Mapping[str, str] = field(default_factory=dict)
    """The AZs in order, with the names that their owner gave them: `az1` → `frankfurt`."""
    clients: ClientSecurity = PLAINTEXT
    """With what producers and consumers prove who they are; the harness has `Host.security`."""

    @property
    def azs(self) -> tuple[str, ...]:
        """The AZs, in order: `az1`, `az2`, ..."""
        return tuple(self.az_names) or tuple(dict.fromkeys(host.az for host in self.hosts))

    def client_endpoint(self, host: Host) -> Endpoint:
        """Where producers and consumers reach the broker in a host."""
        return replace(host.broker_endpoint, security=self.clients)

    def az_name(self, az: str) -> str:
        """The name of an AZ; `az1` and so on if its owner gave it none."""
        return self.az_names.get(az, az)

    def host(self, name: str) -> Host:
        """The host of exactly this name. Raises UsageError with the known names."""
        for host in self.hosts:
            if host.name == name:
                return host
        names = ", ".join(host.name for host in self.hosts)
        raise UsageError(f"There is no host {name!r} in this lab; its hosts are {names}.")

    def select(self, pattern: str) -> tuple[Host, ...]:
        """Hosts that ``pattern`` selects: a name, an AZ, a role's plural, a glob, or `clients@az1`.

        An AZ is `az1` or its own name. Names are matched whole, never by substring. Raises UsageError when
        nothing matches.
        """
        name, _, az = pattern.partition("@")
        chosen = tuple(
            host
            for host in self.hosts
            if (not az or az in self._names_of(host.az))
            and (name in (*self._names_of(host.az), host.role + "s", "*") or _fits(host.name, name))
        )
        if not chosen:
            names = ", ".join(host.name for host in self.hosts)
            azs = ", ".join(self.az_name(az) for az in self.azs)
            raise UsageError(
                f"{pattern!r} names no host of this lab; name a host ({names}), an AZ ({azs}), "
                f"a role (brokers, clients, ...) or role@az."
            )
        return chosen

    def _names_of(self, az: str) -> tuple[str, str]:
        return az, self.az_name(az)

    def role(self, role: str) -> tuple[Host, ...]:
        """Hosts of one role, in order of number."""
        return tuple(host for host in self.hosts if host.role == role)


_fits = fnmatch.fnmatchcase


@dataclass(frozen=True)
class Result:
    """Exit status and output of a short command inside a host."""

    status: int
    """Exit status."""
    stdout: str
    """Standard output."""
    stderr: str
    """Standard error."""


class Pipe(Protocol):
    """A long-running helper process inside a host, used through its standard streams (text)."""

    @property
    def stdin(self) -> IO[str]:
        """Writable text stream."""

    @property
    def stdout(self) -> IO[str]:
        """Readable text stream."""

    def poll(self) -> int | None:
        """Exit status, or None while it runs."""

    def kill(self) -> None:
        """SIGKILL."""

    def wait(self, timeout_s: float) -> int:
        """Exit status, once it has ended. Raises WaitTimeoutError."""


@dataclass(frozen=True)
class MainProcess:
    """The main process of a host: its command line and environment, as seen inside the host."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


def process_state(pid: int | None) -> str | None:
    """The kernel's one-letter state of a process of this machine; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text[text.rindex(")") + 2]


class ClientHosts(Protocol):
    """Hosts in which clients run: a `Lab`, or this machine itself (`harness.lab.here`)."""

    topology: Topology
    """All hosts, also those of brokers."""

    def files(self, host: str) -> HostFiles:
        """The files below the host's own folder."""

    def inside(self, host: str, path: Path | str) -> str:
        """The path inside the host of one of its `files`."""

    def open_module(self, host: str, module: str, arguments: Sequence[str]) -> Pipe:
        """Start a module of this project as a helper process in the host's network."""


class Lab(Protocol):
    """A set of hosts, up or down."""

    kind: str
    """`embedded` or `compose`."""
    topology: Topology
    """Its hosts."""
    run_dir: Path
    """The run folder."""
    shares_files: bool
    """Whether hosts see all files of this machine, under the same paths."""
    of_others: bool
    """Whether somebody else has set the hosts up, so that they stay when the harness is gone."""

    def up(self) -> None:
        """Create the hosts and their network, without main processes. Raises UnfitError, LabError."""

    def down(self) -> None:
        """End every process and remove every host. May be called twice, and after a failed `up`."""

    def data_dir(self, host: str) -> Path:
        """The host's own folder as the harness sees it (`<run_dir>/nodes/<host>`)."""

    def files(self, host: str) -> HostFiles:
        """The files below the host's own folder: its configuration, its logs (`SERVER_LOG`), its `DATA`."""

    def inside(self, host: str, path: Path | str) -> str:
        """The path inside the host of one of its `files` (a str), or of one of `data_dir` or the cache."""

    def start(self, host: str, process: MainProcess) -> int:
        """Start the host's main process; output goes to `data_dir/out.log`. Returns its pid as seen here."""

    def signal(self, host: str, signal_number: int) -> None:
        """Send a signal to the main process (SIGKILL, SIGTERM, SIGSTOP, SIGCONT)."""

    def wait_exit(self, host: str, within_s: float) -> int:
        """Wait for the main process to end; its exit status (negative: signal). Raises WaitTimeoutError."""

    def alive(self, host: str) -> bool:
        """Whether the main process runs; a stopped one counts as running."""

    def pid(self, host: str) -> int | None:
        """The main process's pid as seen by the harness (its `/proc` entry); None while it does not run."""

    def process_state(self, host: str) -> str | None:
        """The kernel's one-letter state of the main process; None while it does not run.

        `T` is stopped, `S` sleeps, `R` runs.
        """

    def exit_status(self, host: str) -> int | None:
        """Exit status of a main process that has ended; None while it runs or before it was started."""

    def execute(self, host: str, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 10.0) -> Result:
        """Run a short command inside the host's network and wait for it."""

    def execute_all(
        self, commands: Mapping[str, tuple[Sequence[str], str]], *, timeout_s: float = 10.0
    ) -> dict[str, Result]:
        """Run one command (argv, stdin) in each of several hosts at the same time."""

    def open_module(self, host: str, module: str, arguments: Sequence[str]) -> Pipe:
        """Start a module of this project (its function `main`) as a helper process in the host's network."""

    def run_first(self) -> AbstractContextManager[bool]:
        """Let the hosts' processes have the processors first; False if that is not possible here."""

    def python(self) -> tuple[str, ...]:
        """Command prefix that runs this project's Python inside a host."""

    def on_new_network(self, callback: Callable[[str], None]) -> None:
        """Call ``callback(host)`` when a host has a new network, without rules, before its process starts."""

    def on_start(self, callback: Callable[[str], None]) -> None:
        """Call ``callback(host)`` after each `start`, so that the cuts in force can be applied again."""
