"""Processes as forks of one that has imported what they need: importing takes longer than most of them work.

The process that forks has one thread, forks when it is told to, and tells who has ended. It ends with whoever
started it, and its forks with it. Both sides talk JSON through a socket that keeps messages apart:
``{"begin": 1, "module": "harness.series.cell", "arguments": [...], "network": "/run/netns/client1"}``, with
the descriptors of its standard streams, has a fork do what `python -m MODULE ARGUMENTS` would do (the
function `main` of that module), in that network where one is named; ``{"signal": 15, "to": 1}`` signals it,
and ``{"ended": 1, "status": 0}`` is the answer.
"""

from __future__ import annotations

import contextlib
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
from typing import Any, NoReturn

from harness.lab.embedded.namespaces import die_with_parent, enter_network, leave_with

_END_S = 10.0
_LONGEST = 1 << 20
"""Bytes of a message; arguments are names and paths."""


class Fork:
    """A process that was forked for one piece of work."""

    def __init__(self, forks: Forks, number: int) -> None:
        self._forks = forks
        self._number = number
        self._ended = threading.Event()
        self.status: int | None = None
        """Exit status; minus a signal's number where that ended it, None while it runs."""

    def wait(self, within_s: float | None = None) -> None:
        """Wait for its end. Raises TimeoutError."""
        if not self._ended.wait(within_s):
            raise TimeoutError(f"A fork did not end within {within_s:g} s.")

    def signal(self, number: int) -> None:
        """Signal it, where it still runs."""
        if self.status is None:
            self._forks.tell({"signal": number, "to": self._number})

    def end(self, status: int) -> None:
        """It has ended."""
        self.status = status
        self._ended.set()


class Forks:
    """The process that forks, as whoever started it sees it. Thread-safe."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        """Of a process that was started already; use `anew` or `of_this_process`."""
        self.pid = pid
        self._connection = connection
        self._lock = threading.Lock()
        self._running: dict[int, Fork] = {}
        self._begun = 0
        self._gone = False
        self._reader = threading.Thread(target=self._read, name="forks", daemon=True)
        self._reader.start()

    @classmethod
    def anew(cls, imports: Sequence[str]) -> Forks:
        """A new interpreter that imports these modules first, in a session of its own (no Ctrl-C there)."""
        ours, theirs = _pair()
        with theirs:
            theirs.set_inheritable(True)
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-m", "harness.forks", str(theirs.fileno()), *imports],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
                setsid=True,
            )
        return cls(ours, pid)

    @classmethod
    def of_this_process(cls) -> Forks:
        """A fork of this process, with all that it has imported; it should have one thread."""
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

    def begin(
        self, module: str, arguments: Sequence[str], streams: Sequence[int], network: Path | None = None
    ) -> Fork:
        """Have a fork do what `python -m MODULE ARGUMENTS` would do.

        ``streams`` are descriptors for its standard input, output and error; the caller's own stay open.
        """
        with self._lock:
            self._begun += 1
            fork = Fork(self, self._begun)
            if self._gone:
                fork.end(-signal.SIGKILL)
                return fork
            self._running[self._begun] = fork
            order = {"begin": self._begun, "module": module, "arguments": list(arguments)}
            self._send({**order, "network": None if network is None else str(network)}, streams)
        return fork

    def tell(self, order: dict[str, Any]) -> None:
        """Pass an order on."""
        with self._lock:
            self._send(order)

    def close(self) -> None:
        """End it; what it forked has ended, or is killed by the kernel now. Safe to call twice."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
        self._reader.join(_END_S)
        if self._reader.is_alive():
            os.kill(self.pid, signal.SIGKILL)
            self._reader.join()
        self._connection.close()

    def _send(self, order: dict[str, Any], streams: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self._connection, [json.dumps(order).encode()], list(streams))
        except OSError:  # it is gone, and with it all forks: the reader tells them
            return

    def _read(self) -> None:
        while message := _received(self._connection):
            answer = json.loads(message)
            with self._lock:
                fork = self._running.pop(answer["ended"])
            fork.end(answer["status"])
        os.waitpid(self.pid, 0)
        with self._lock:
            self._gone = True
            left, self._running = self._running, {}
        for fork in left.values():
            fork.end(-signal.SIGKILL)


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_LONGEST)
    except ConnectionResetError:  # it was killed with orders unread
        return b""


class _Server:
    """What runs in the process that forks. It has one thread: its forks may make namespaces."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._numbers: dict[int, int] = {}
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def serve(self) -> int:
        """Until the other side is closed; returns the exit status."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fd == self._woken:
                        os.read(self._woken, 1 << 16)
                        self._reap()
                    elif not self._obey():
                        return 0

    def _obey(self) -> bool:
        try:
            message, streams, _, _ = socket.recv_fds(self._connection, _LONGEST, 3)
        except ConnectionResetError:
            return False
        if not message:
            return False
        order = json.loads(message)
        if "begin" in order:
            self._fork(order, streams)
            for stream in streams:
                os.close(stream)
        else:
            self._signal(order["to"], order["signal"])
        return True

    def _fork(self, order: dict[str, Any], streams: list[int]) -> None:
        child = os.fork()
        if child:
            self._numbers[child] = order["begin"]
        else:
            leave_with(lambda: _work(order, streams))

    def _signal(self, number: int, wanted: int) -> None:
        for child, known in self._numbers.items():
            if known == number:
                os.kill(child, wanted)

    def _reap(self) -> None:
        while self._numbers:
            child, wait_status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            told = {"ended": self._numbers.pop(child), "status": os.waitstatus_to_exitcode(wait_status)}
            self._connection.send(json.dumps(told).encode())


def _work(order: dict[str, Any], streams: list[int]) -> int:
    """What a fork does."""
    die_with_parent()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    for target, source in enumerate(streams):
        os.dup2(source, target)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    if order["network"]:
        enter_network(Path(order["network"]))
    return importlib.import_module(order["module"]).main(order["arguments"]) or 0


def main(argv: Sequence[str]) -> NoReturn:
    """Arguments: the descriptor of the socket, then the modules to import before anything is forked."""
    descriptor, *modules = argv

    def work() -> int:
        die_with_parent()
        for name in modules:
            importlib.import_module(name)
        return _Server(socket.socket(fileno=int(descriptor))).serve()

    leave_with(work)


if __name__ == "__main__":
    main(sys.argv[1:])
