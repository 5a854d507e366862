"""A fork server: processes start as forks of a process that has already imported the modules that they need.

Importing takes longer than most of these processes run. The server is a process with one thread that forks
when it is asked to and reports which forks have ended. The kernel ends the server with the process that
started it, and the forks with the server.

The two sides exchange JSON messages over a SOCK_SEQPACKET socket. ``{"start": 1, "module":
"studies.series.process", "arguments": [...], "network": "/run/netns/client1"}``, sent with the descriptors of
three standard streams, makes a fork do what `python -m MODULE ARGUMENTS` would do (it calls the module's
function `main`), in that network namespace unless it is null. ``{"signal": 15, "to": 1}`` signals the fork,
and ``{"ended": 1, "status": 0}`` reports its end.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TypedDict, cast

from harness.errors import UsageError
from harness.lab.embedded.namespaces import die_with_parent, enter_network, leave_with

_END_S = 10.0
_MAX_MESSAGE = 1 << 20
"""Bytes; the arguments are names and paths."""


class _Start(TypedDict):
    start: int
    module: str
    arguments: list[str]
    network: str | None


class _Signal(TypedDict):
    signal: int
    to: int


class _Ended(TypedDict):
    ended: int
    status: int


class ForkedProcess:
    """A process that a fork server has started."""

    def __init__(self, server: ForkServer, number: int) -> None:
        """Use `ForkServer.start`."""
        self._server = server
        self._number = number
        self._ended = threading.Event()
        self.status: int | None = None
        """Exit status, or minus the number of the signal that ended it; None while the process runs."""

    def wait(self, within_s: float | None = None) -> None:
        """Wait until the process has ended. Raises TimeoutError."""
        if not self._ended.wait(within_s):
            raise TimeoutError(f"A forked process did not end within {within_s:g} s.")

    def signal(self, number: int) -> None:
        """Signal the process if it still runs."""
        if self.status is None:
            self._server.send_signal(number, self._number)

    def set_ended(self, status: int) -> None:
        """Record that the process has ended; only the fork server calls it."""
        self.status = status
        self._ended.set()


class ForkServer:
    """The fork server, as the process that started it sees it. Thread-safe."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        """Takes over a process that runs already; use `spawn` or `fork`."""
        self.pid = pid
        self._connection = connection
        self._lock = threading.Lock()
        self._running: dict[int, ForkedProcess] = {}
        self._last_number = 0
        self._gone = False
        self._reader = threading.Thread(target=self._read, name="fork-server", daemon=True)
        self._reader.start()

    @classmethod
    def spawn(cls, imports: Sequence[str]) -> ForkServer:
        """Start a new interpreter that imports these modules, in a session of its own (without Ctrl-C)."""
        ours, theirs = _pair()
        with theirs:
            theirs.set_inheritable(True)
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-m", "harness.fork_server", str(theirs.fileno()), *imports],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
                setsid=True,
            )
        return cls(ours, pid)

    @classmethod
    def fork(cls) -> ForkServer:
        """Fork this process, with all that it has imported. It should have one thread only."""
        sys.stdout.flush()
        sys.stderr.flush()
        ours, theirs = _pair()
        pid = os.fork()
        if not pid:
            ours.close()

            def work() -> int:
                os.setsid()
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                die_with_parent()
                return _Server(theirs).serve()

            leave_with(work)
        theirs.close()
        return cls(ours, pid)

    def start(
        self, module: str, arguments: Sequence[str], streams: Sequence[int], network: Path | None = None
    ) -> ForkedProcess:
        """Start a fork that does what `python -m MODULE ARGUMENTS` would do, in a network namespace if given.

        ``streams`` are descriptors for its standard input, output and error. The caller's own stay open.
        Raises UsageError for arguments that are too long for a message.
        """
        with self._lock:
            self._last_number += 1
            process = ForkedProcess(self, self._last_number)
            if self._gone:
                process.set_ended(-signal.SIGKILL)
                return process
            order: _Start = {
                "start": self._last_number,
                "module": module,
                "arguments": list(arguments),
                "network": None if network is None else str(network),
            }
            self._send(order, streams)
            self._running[self._last_number] = process
        return process

    def send_signal(self, number: int, to: int) -> None:
        """For a forked process: have the server signal it."""
        order: _Signal = {"signal": number, "to": to}
        with self._lock:
            self._send(order)

    def close(self) -> None:
        """End the server, and with it the forks that still run. Safe to call twice."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
        self._reader.join(_END_S)
        if self._reader.is_alive():
            os.kill(self.pid, signal.SIGKILL)
            self._reader.join()
        self._connection.close()

    def _send(self, order: _Start | _Signal, streams: Sequence[int] = ()) -> None:
        # If the server has ended, so have its forks: `_read` marks them as ended.
        message = json.dumps(order).encode()
        try:
            socket.send_fds(self._connection, [message], list(streams))
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                raise UsageError(
                    f"The arguments of a process, such as the settings of a cluster, have {len(message)} "
                    f"bytes, and the kernel passes on about 200,000; set fewer properties."
                ) from None

    def _read(self) -> None:
        while message := _receive(self._connection):
            report: _Ended = json.loads(message)
            with self._lock:
                process = self._running.pop(report["ended"])
            process.set_ended(report["status"])
        os.waitpid(self.pid, 0)
        with self._lock:
            self._gone = True
            left, self._running = self._running, {}
        for process in left.values():
            process.set_ended(-signal.SIGKILL)


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_MAX_MESSAGE)
    except ConnectionResetError:  # the server was killed before it had read all its orders
        return b""


class _Server:
    """The server's own side. It has one thread, so that its forks can enter namespaces."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._numbers: dict[int, int] = {}
        """Numbers of the running forks, by pid."""
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def serve(self) -> int:
        """Serve until the other side is closed; returns the exit status."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fd == self._woken:
                        os.read(self._woken, 1 << 16)
                        self._reap()
                    elif not self._carry_out():
                        return 0

    def _carry_out(self) -> bool:
        """Read one order and carry it out; returns False at the end of the orders."""
        try:
            message, streams, _, _ = socket.recv_fds(self._connection, _MAX_MESSAGE, 3)
        except ConnectionResetError:
            return False
        if not message:
            return False
        order = json.loads(message)
        if "start" in order:
            self._fork(cast(_Start, order), streams)
            for stream in streams:
                os.close(stream)
        else:
            self._signal(order["to"], order["signal"])
        return True

    def _fork(self, order: _Start, streams: list[int]) -> None:
        child = os.fork()
        if child:
            self._numbers[child] = order["start"]
        else:
            leave_with(lambda: _run(order, streams))

    def _signal(self, number: int, signal_number: int) -> None:
        for child, child_number in self._numbers.items():
            if child_number == number:
                os.kill(child, signal_number)

    def _reap(self) -> None:
        while self._numbers:
            child, wait_status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            status = os.waitstatus_to_exitcode(wait_status)
            report: _Ended = {"ended": self._numbers.pop(child), "status": status}
            self._connection.send(json.dumps(report).encode())


def _run(order: _Start, streams: list[int]) -> int:
    """The work of a fork; returns its exit status."""
    die_with_parent()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    for target, source in enumerate(streams):
        os.dup2(source, target)
    gc.freeze()  # a socket of the process that forked, collected here, would close a descriptor of this one
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    if order["network"] is not None:
        enter_network(Path(order["network"]))
    return importlib.import_module(order["module"]).main(order["arguments"]) or 0


def main(argv: Sequence[str]) -> NoReturn:
    """Arguments: the descriptor of the socket, then the modules to import before the first fork."""
    descriptor, *modules = argv

    def work() -> int:
        die_with_parent()
        for name in modules:
            importlib.import_module(name)
        gc.freeze()  # so that collections in the forks leave these pages shared
        return _Server(socket.socket(fileno=int(descriptor))).serve()

    leave_with(work)


if __name__ == "__main__":
    main(sys.argv[1:])
