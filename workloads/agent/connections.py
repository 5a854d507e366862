"""Connection attempts from inside a host, and connections that are kept to see whether they outlive a cut."""

from __future__ import annotations

import errno
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from workloads.protocol.results import ProbeResult
from workloads.protocol.spec import Heartbeat

# ApiVersions v0: harmless, answered by every broker and controller, needs no state.
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_REQUESTS: dict[str, bytes] = {"kafka": _API_VERSIONS, "zookeeper": b"srvr"}


def probe_one(address: str, port: int, timeout_s: float) -> ProbeResult:
    """One connection attempt."""
    started = time.monotonic()
    try:
        socket.create_connection((address, port), timeout_s).close()
        result = "open"
    except OSError as error:
        result = name_error(error)
    return ProbeResult(address, port, result, time.monotonic() - started)


def probe_all(targets: list[tuple[str, int, float]]) -> list[ProbeResult]:
    """All connection attempts at the same time, in the order given."""
    if not targets:
        return []
    with ThreadPoolExecutor(max_workers=min(len(targets), 32)) as pool:
        return list(pool.map(lambda target: probe_one(*target), targets))


def name_error(error: OSError) -> str:
    """The error of a connection in one word."""
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, (ConnectionResetError, BrokenPipeError, ConnectionAbortedError)):
        return "reset"
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EPERM):
        return "unreachable"
    return error.strerror or type(error).__name__


class HeldConnections:
    """Connections by name that were made before a fault. Thread-safe.

    A ZooKeeper server closes a connection without a session after 10 s, and each after its one answer.
    """

    def __init__(self) -> None:
        self._sockets: dict[str, tuple[socket.socket, Heartbeat]] = {}
        self._lock = threading.Lock()

    def hold(self, name: str, address: str, port: int, protocol: Heartbeat, timeout_s: float) -> None:
        """Connect and keep the connection as ``name``. Raises OSError when it cannot be made."""
        connection = socket.create_connection((address, port), timeout_s)
        with self._lock:
            old = self._sockets.pop(name, None)
            self._sockets[name] = (connection, protocol)
        if old is not None:
            old[0].close()

    def check(self, name: str, timeout_s: float) -> str:
        """`answer`, `timeout` (silence), `closed`, `reset` or `unheld`: what a harmless request meets.

        After anything but an answer the connection is dropped.
        """
        with self._lock:
            held = self._sockets.get(name)
        if held is None:
            return "unheld"
        connection, protocol = held
        try:
            connection.settimeout(timeout_s)
            connection.sendall(_REQUESTS[protocol])
            result = "answer" if connection.recv(65536) else "closed"
        except OSError as error:
            result = name_error(error)
        if result != "answer" or protocol == "zookeeper":
            self.release(name)
        return result

    def release(self, name: str) -> None:
        """Close one connection, if it is held."""
        with self._lock:
            held = self._sockets.pop(name, None)
        if held is not None:
            held[0].close()

    def close(self) -> None:
        """Close all of them."""
        for name in list(self._sockets):
            self.release(name)
