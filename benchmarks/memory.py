"""Memory of a run's hosts, in either lab, measured from outside: PSS, so that shared pages count once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

from docker.errors import DockerException

from harness.errors import UnfitError
from harness.lab.docker import engine as docker_engine

_EVERY_S = 1.0
_ENGINE = ("dockerd", "containerd", "containerd-shim")


@dataclass(frozen=True)
class Memory:
    """MiB at one moment, or the peak of each value."""

    cluster: float = 0.0
    """Brokers, ZooKeeper nodes, controllers."""
    helpers: float = 0.0
    """Everything else in the hosts: the clients' agents, probes, the first process of a container."""
    engine: float = 0.0
    """The container engine and its shims, including their work for other containers."""

    def peak(self, other: Memory) -> Memory:
        """The maximum of each."""
        return Memory(*(max(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))


def in_embedded_hosts(folder: str) -> Memory:
    """Memory of the processes in the hosts of the run below ``folder``.

    They share a PID namespace with the harness. Each host has its own network namespace; the harness is in
    that of the first process of the PID namespace.
    """
    runs = {_namespace(pid, "pid") for pid in pids() if _is_cluster(pid) and folder in command_of(pid)}
    members = [pid for pid in pids() if _namespace(pid, "pid") in runs - {_namespace(1, "pid")}]
    own = {_namespace(pid, "net") for pid in members if _is_first(pid)}
    return _sum(pid for pid in members if _namespace(pid, "net") not in own)


def in_containers(folder: str) -> Memory:
    """Memory of processes in the containers whose folders are below ``folder``, and of the engine."""
    found = _sum(_pids_in_containers(folder))
    engine = sum(pss_mib(pid) for pid in pids() if _name(pid) in _ENGINE)
    return Memory(found.cluster, found.helpers, engine)


@contextmanager
def sampling(look: Callable[[], None], every_s: float) -> Iterator[None]:
    """Meanwhile a thread of its own calls ``look`` every so many seconds."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(every_s):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Sampler:
    """Samples the memory once a second until it is stopped."""

    def __init__(self, lab: str, folder: str) -> None:
        """Start sampling; ``folder`` holds the run folders."""
        self._measure = in_containers if lab == "compose" else in_embedded_hosts
        self._folder = folder
        self._peak = Memory()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> Memory:
        """Stop sampling; returns the peaks."""
        self._stop.set()
        self._thread.join()
        return self._peak

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self._peak = self._peak.peak(self._measure(self._folder))


def _pids_in_containers(folder: str) -> list[int]:
    try:
        client = docker_engine.connect()
    except UnfitError:
        return []
    try:
        containers = client.api.containers(filters={"label": docker_engine.LABEL_RUN})
        mine = [
            entry["Id"]
            for entry in containers
            if any(mount["Source"].startswith(folder) for mount in entry["Mounts"])
        ]
        firsts = [client.api.inspect_container(container)["State"]["Pid"] for container in mine]
    except DockerException:  # a container that has just ended
        return []
    finally:
        client.close()
    inside = {_namespace(first, "pid") for first in firsts} - {_namespace(1, "pid"), ""}
    return [pid for pid in pids() if _namespace(pid, "pid") in inside]


def _sum(members: Iterable[int]) -> Memory:
    cluster = helpers = 0.0
    for pid in members:
        if _is_cluster(pid):
            cluster += pss_mib(pid)
        else:
            helpers += pss_mib(pid)
    return Memory(cluster, helpers)


def _is_cluster(pid: int) -> bool:
    return command_of(pid).startswith("java ") and "server.properties" in command_of(pid)


def _is_first(pid: int) -> bool:
    numbers = [line.split() for line in _read(pid, "status").splitlines() if line.startswith(b"NSpid:")]
    return any(line[-1] == b"1" for line in numbers)


def pids() -> list[int]:
    """All processes."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


def parents() -> dict[int, int]:
    """The parent of each process."""
    found = {}
    for pid in pids():
        fields = _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()
        if fields:
            found[pid] = int(fields[1])
    return found


def family(pid: int) -> set[int]:
    """A process and all below it."""
    parent_of, pids = parents(), {pid}
    while more := {child for child, parent in parent_of.items() if parent in pids} - pids:
        pids |= more
    return pids


def command_of(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    return _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")


def _name(pid: int) -> str:
    return _read(pid, "comm").decode(errors="replace").strip()


def _namespace(pid: int, kind: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except OSError:
        return ""


def pss_mib(pid: int) -> float:
    """Memory of a process, shared pages in proportion; 0 if it has ended."""
    for line in _read(pid, "smaps_rollup").decode().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0
