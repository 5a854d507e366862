"""Runs as forks of one process that has imported what a run needs: importing takes longer than a lab.

`python -m harness.run.prefork` reads a JSON line for each order and writes one for each fork that has ended:
``{"begin": 1, "arguments": [...], "log": "run.log"}`` forks a child that does what
`python -m harness.run.cell ARGUMENTS` would do, ``{"signal": 15, "to": 1}`` signals it, and
``{"ended": 1, "status": 0}`` is the answer. It ends with its input, or with whoever started it.
"""

from __future__ import annotations

import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

from harness.lab.namespaces import die_with_parent, leave_with

_NEEDED = ("harness.run.runner", "harness.cluster.kraft", "harness.run.catalogue")
_END_S = 10.0


class Child:
    """A fork that runs one cell."""

    def __init__(self, prefork: Prefork, number: int) -> None:
        self._prefork = prefork
        self._number = number
        self._ended = threading.Event()
        self.status: int | None = None
        """Exit status; minus a signal's number where that ended it, None while it runs."""

    def wait(self, within_s: float | None = None) -> None:
        """Wait for its end. Raises TimeoutError."""
        if not self._ended.wait(within_s):
            raise TimeoutError(f"A run did not end within {within_s:g} s.")

    def signal(self, number: int) -> None:
        """Signal it, where it still runs."""
        if self.status is None:
            self._prefork.tell({"signal": number, "to": self._number})

    def end(self, status: int) -> None:
        """It has ended."""
        self.status = status
        self._ended.set()


class Prefork:
    """The process that forks. Thread-safe."""

    def __init__(self) -> None:
        """Start it, in a session of its own: a Ctrl-C reaches runs through us, and only once."""
        self._lock = threading.Lock()
        self._children: dict[int, Child] = {}
        self._begun = 0
        self._gone = False
        command = [sys.executable, "-m", "harness.run.prefork"]
        self._process: subprocess.Popen[str] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._reader = threading.Thread(target=self._read, name="prefork", daemon=True)
        self._reader.start()

    def begin(self, arguments: list[str], log: Path) -> Child:
        """Fork a child for a cell; all that it says goes to ``log``."""
        with self._lock:
            self._begun += 1
            child = Child(self, self._begun)
            if self._gone:
                child.end(-signal.SIGKILL)
                return child
            self._children[self._begun] = child
            self._write({"begin": self._begun, "arguments": arguments, "log": str(log)})
        return child

    def tell(self, order: dict[str, Any]) -> None:
        """Pass an order on."""
        with self._lock:
            self._write(order)

    def close(self) -> None:
        """End it; what it forked has ended, or is killed by the kernel now."""
        _input(self._process).close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_END_S)

    def _write(self, order: dict[str, Any]) -> None:
        try:
            _input(self._process).write(json.dumps(order) + "\n")
            _input(self._process).flush()
        except OSError:  # it is gone, and with it all children: the reader tells them
            return

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            with self._lock:
                child = self._children.pop(answer["ended"])
            child.end(answer["status"])
        with self._lock:
            self._gone = True
            left, self._children = self._children, {}
        for child in left.values():
            child.end(-signal.SIGKILL)


def _input(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdin is not None
    return process.stdin


class _Server:
    """What runs in the process that forks. It has one thread: its forks make namespaces."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._unread = b""
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Until the input ends."""
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fd == self._woken:
                        os.read(self._woken, 1 << 16)
                        self._reap()
                    elif not self._orders():
                        return

    def _orders(self) -> bool:
        came = os.read(0, 1 << 16)
        *lines, self._unread = (self._unread + came).split(b"\n")
        for line in lines:
            order = json.loads(line)
            if "begin" in order:
                self._fork(order)
            else:
                self._signal(order["to"], order["signal"])
        return bool(came)

    def _fork(self, order: dict[str, Any]) -> None:
        child = os.fork()
        if child:
            self._numbers[child] = order["begin"]
            return

        def begin() -> int:
            die_with_parent()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((nothing, 0), (log, 1), (log, 2)):
                os.dup2(source, target)
            os.closerange(3, max(nothing, log, self._wake) + 1)
            from harness.run.cell import main

            return main(order["arguments"])

        leave_with(begin)

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
            os.write(1, (json.dumps(told) + "\n").encode())


def main() -> None:
    """Import, then serve."""
    die_with_parent()
    for name in _NEEDED:
        importlib.import_module(name)
    importlib.import_module("harness.run.catalogue").all_scenarios()
    _Server().serve()


if __name__ == "__main__":
    main()
