"""The process of a client program: its requests become futures, and its events go to their handlers."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from queue import SimpleQueue

from harness.clock import now_ns
from harness.errors import InvalidRunError, UnfitError
from workloads.protocol.codec import Json
from workloads.protocol.lines import (
    FEATURES,
    HELLO_S,
    LONGEST_LINE,
    Event,
    Failure,
    Hello,
    OutcomeEvent,
    ProblemEvent,
    ProgramAnswer,
    parse_hello,
    parse_line,
    quoted_line,
    request_line,
)
from workloads.protocol.results import ProgramDescription
from workloads.protocol.spec import ClientProgram

Handler = Callable[[Event, int], None]
"""Takes an event and its time in ns. Raises ValueError for one that cannot be true."""
Answered = Failure | None
"""What a request came to: None if the program has carried it out."""
ANSWER_S = 10.0
"""Time for an answer beyond the time that the request itself may take."""


class RunningProgram:
    """One client program. Thread-safe.

    Create it on the thread that lives longest, because the process dies with that thread. A program that ends
    by itself or violates the protocol is killed; from then on every call raises InvalidRunError with the same
    sentence.
    """

    def __init__(self, program: ClientProgram, host: str, errors: Path) -> None:
        """Start the process; its stderr is appended to ``errors``. Raises InvalidRunError."""
        self._who = f"The client program {program.name} in {host}"
        self._errors = errors
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Answered]] = {}
        self._handlers: dict[tuple[str, int], Handler] = {}
        self._on_end: list[Callable[[InvalidRunError], None]] = []
        self._ending = False
        self._problem: InvalidRunError | None = None
        self._hello: Future[Hello] = Future()
        self._started_ns = now_ns()
        self._ready_s = 0.0
        wrapper = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        try:
            with errors.open("ab") as log:
                self._process = subprocess.Popen(
                    [*wrapper, *program.argv],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                )
        except OSError as error:
            raise InvalidRunError(f"{self._who} cannot be started: {error}.") from error
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        for work in (self._write, self._read):
            threading.Thread(target=work, name=f"program-{program.via}", daemon=True).start()

    def hello(self, within_s: float = HELLO_S) -> Hello:
        """What the program states about itself. Waits for it."""
        try:
            return self._hello.result(within_s)
        except FutureTimeoutError:
            raise self._break(f"wrote nothing within {within_s:g} s of its start") from None

    def require(self, feature: str, who: str) -> None:
        """Raise UnfitError if the program says that it lacks a feature that ``who`` needs."""
        hello = self.hello()
        if feature in hello.lacks or (feature in FEATURES and feature not in hello.features):
            raise UnfitError(f"{self._who} lacks {feature!r}, which {who} needs.")

    def describe(self) -> ProgramDescription:
        """The program's own statement, the time it took to start, and its memory."""
        hello = self.hello()
        return ProgramDescription(
            client=hello.client,
            version=hello.version,
            features=hello.features,
            ready_s=round(self._ready_s, 3),
            memory_mib=_peak_mib(self._process.pid),
        )

    def handle(self, kind: str, number: int, handler: Handler) -> None:
        """Pass the events of one producer or consumer (``kind``) to ``handler``, on the reading thread."""
        self._handlers[kind, number] = handler

    def at_end(self, callback: Callable[[InvalidRunError], None]) -> None:
        """Call ``callback`` with the reason if the program fails."""
        with self._lock:
            if self._problem is None:
                self._on_end.append(callback)
                return
        callback(self._problem)

    def post(self, op: str, **fields: Json) -> None:
        """Send a request that has no answer."""
        if self._problem is not None:
            raise self._problem
        self._lines.put(request_line(None, op, fields))

    def submit(self, op: str, **fields: Json) -> Future[Answered]:
        """Send a request; the future holds why it failed, or None."""
        future: Future[Answered] = Future()
        with self._lock:
            if self._problem is not None:
                future.set_exception(self._problem)
                return future
            number = next(self._numbers)
            self._waiting[number] = future
        self._lines.put(request_line(number, op, fields))
        return future

    def request(self, op: str, within_s: float, **fields: Json) -> Answered:
        """Send a request that may take ``within_s`` and wait for its answer."""
        future = self.submit(op, **fields, within_ms=int(within_s * 1000))
        self.hello()
        try:
            return future.result(within_s + ANSWER_S)
        except FutureTimeoutError:
            raise self._break(f"did not answer `{op}` within {within_s + ANSWER_S:g} s") from None

    def close(self, within_s: float) -> None:
        """Ask the program to end, and kill it if it does not. Later calls raise InvalidRunError at once."""
        if self._problem is None and self._process.poll() is None:
            future = self.submit("quit", within_ms=int(within_s * 1000))
            with contextlib.suppress(InvalidRunError, FutureTimeoutError):
                future.result(within_s + 2.0)
        self._ending = True
        with self._lock:
            self._problem = self._problem or InvalidRunError(f"{self._who} has been closed.")
        self._lines.put(None)
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with self._lock:
            orphans, self._waiting = self._waiting, {}
        for orphan in orphans.values():
            orphan.set_exception(self._problem)

    def overdue(self, what: str) -> InvalidRunError:
        """The error for a program that has not delivered ``what`` in time; kills the program."""
        return self._break(what)

    def _write(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError, ValueError):
            while (line := self._lines.get()) is not None:
                stdin.write(line.encode())
                if self._lines.empty():
                    stdin.flush()
            stdin.close()

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        while line := stdout.readline(LONGEST_LINE + 1):
            if not line.endswith(b"\n") and len(line) <= LONGEST_LINE:
                break  # it ended in the middle of a line
            ns = now_ns()
            try:
                if not self._hello.done():
                    self._greet(parse_hello(line), ns)
                else:
                    self._take(parse_line(line), ns)
            except ValueError as error:
                self._break(f"wrote a line that it must not: {error}; the line is {quoted_line(line)}")
                return
            except Exception as error:  # noqa: BLE001 - whatever waits for the program would wait in vain
                self._break(f"wrote a line that could not be recorded ({error!r}): {quoted_line(line)}")
                return
        if not self._ending:
            try:
                status: int | None = self._process.wait(2.0)
            except subprocess.TimeoutExpired:
                status = None
            how = "closed its output" if status is None else f"ended by itself (exit status {status})"
            self._break(f"{how}; see {self._errors}")

    def _greet(self, hello: Hello, ns: int) -> None:
        if hello.ns is not None and not self._started_ns <= hello.ns <= ns:
            raise ValueError(f"{hello.ns} is not the time of CLOCK_MONOTONIC in ns, which is {ns}")
        self._ready_s = (ns - self._started_ns) / 1e9
        self._hello.set_result(hello)

    def _take(self, line: ProgramAnswer | Event, ns: int) -> None:
        if isinstance(line, ProgramAnswer):
            with self._lock:
                future = self._waiting.pop(line.id, None)
            if future is None:
                raise ValueError(f"no request with id {line.id} waits for an answer")
            future.set_result(line.error)
            return
        kind, number = ("producer", line.producer) if isinstance(line, OutcomeEvent) else _consumer(line)
        handler = self._handlers.get((kind, number))
        if handler is None:
            raise ValueError(f"there is no {kind} {number}")
        stated = None if isinstance(line, ProblemEvent) else line.ns
        if stated is not None and not self._started_ns <= stated <= ns:
            raise ValueError(f"it says that it happened at {stated} ns, but now it is {ns} ns")
        handler(line, ns if stated is None else stated)

    def _break(self, what: str) -> InvalidRunError:
        """Kill the program, and let everything that waits for it fail."""
        with self._lock:
            if self._problem is None:
                self._problem = InvalidRunError(f"{self._who} {what}.")
            problem = self._problem
            orphans, self._waiting = self._waiting, {}
            callbacks, self._on_end = self._on_end, []
        self._process.kill()
        self._lines.put(None)
        for future in orphans.values():
            future.set_exception(problem)
        if not self._hello.done():
            self._hello.set_exception(problem)
        for callback in callbacks:
            callback(problem)
        return problem


def _consumer(event: Event) -> tuple[str, int]:
    assert not isinstance(event, OutcomeEvent)
    return "consumer", event.consumer


def _peak_mib(pid: int) -> float:
    """The most memory that a process has used, including its children that still run."""
    peak_mib = 0.0
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                peak_mib = int(line.split()[1]) / 1024
        for task in Path(f"/proc/{pid}/task").iterdir():
            peak_mib += sum(_peak_mib(int(child)) for child in (task / "children").read_text().split())
    return round(peak_mib, 1)
