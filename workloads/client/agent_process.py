"""An agent's process as the harness sees it: commands become futures, and all of them fail if it dies."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import TypeVar

from harness.errors import (
    AckedError,
    InvalidRunError,
    LabError,
    ProcessDiedError,
    UnfitError,
    WaitTimeoutError,
)
from harness.history import read_journal, stream_journal
from harness.host_files import HostFiles, text_of_file
from harness.lab.model import Pipe
from harness.waiting import waiting_for
from workloads.protocol.commands import AgentAnswer, Command, Quit, Request

ANSWER_S = 10.0
"""Time for an answer beyond the time that the command itself may take."""
_BESIDE = (stream_journal.SUFFIX, read_journal.SUFFIX)
JOURNAL, ERRORS = "client.jsonl", "client.err"
"""Files of a client host: what its agent records, and its stderr."""
_TAIL_CHARS = 2000
_EXIT_S = 10.0
"""Time for an agent to end: after its last answer it has nothing else to do."""
R = TypeVar("R")


def take_journals(files: HostFiles, folder: Path, name: str) -> None:
    """Move the journals of a client's host to a folder: its lines, and the others beside them.

    ``name`` takes the place of `client` in the names of the files.
    """
    begin = Path(JOURNAL).stem
    for file in files.names():
        if file == JOURNAL or (file.startswith(f"{begin}.") and file.endswith(_BESIDE)):
            files.take(file, folder / f"{name}{file.removeprefix(begin)}")


class AgentProcess:
    """One agent. Thread-safe."""

    def __init__(self, pipe: Pipe, host: str, files: HostFiles) -> None:
        """``files`` are those of the host; `ERRORS` among them gets the agent's stderr."""
        self._pipe = pipe
        self._host = host
        self._files = files
        self._lock = threading.Lock()
        self._last_number = 0
        self._waiting: dict[int, Callable[[AgentAnswer | AckedError], None]] = {}
        self._ended = False
        self._reader = threading.Thread(target=self._read_answers, name=f"agent-{host}", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        """Whether the process runs and its pipe is open."""
        return not self._ended and self._pipe.poll() is None

    def submit(self, command: Command[R]) -> Future[R]:
        """Send a command. The future fails with LabError, or with ProcessDiedError if the agent has ended.

        It fails with InvalidRunError if a client program in the agent violated the protocol, and with
        UnfitError if the program lacks a feature that the command needs.
        """
        future: Future[R] = Future()

        def settle(answer: AgentAnswer | AckedError) -> None:
            if isinstance(answer, AckedError):
                future.set_exception(answer)
            elif answer.error is not None and answer.ends:
                kind = InvalidRunError if answer.ends == "invalid" else UnfitError
                future.set_exception(kind(answer.error))
            elif answer.error is not None:
                name = type(command).__name__
                future.set_exception(LabError(f"The client in {self._host} failed to {name}: {answer.error}"))
            else:
                future.set_result(command.result_from_json(answer.result))

        with self._lock:
            if self._ended:
                settle(self._death())
                return future
            self._last_number += 1
            number = self._last_number
            self._waiting[number] = settle
            try:
                self._pipe.stdin.write(Request.of(number, command).line())
                self._pipe.stdin.flush()
            except (OSError, ValueError):  # a broken pipe, or a closed one
                del self._waiting[number]
                settle(self._death())
        return future

    def call(self, command: Command[R]) -> R:
        """Send a command and wait for its result. Raises what `submit` does, and WaitTimeoutError."""
        return self.wait(self.submit(command), type(command).__name__, command.limit_s + ANSWER_S)

    def wait(self, future: Future[R], name: str, within_s: float) -> R:
        """The result of the submitted command ``name``."""
        try:
            with waiting_for(f"{self._host} to answer {name}"):
                return future.result(within_s)
        except FutureTimeoutError:
            if future.done():
                raise
            raise WaitTimeoutError(
                f"The client in {self._host} did not answer {name} within {within_s:.1f} s; see "
                f"{self._files}/{ERRORS}."
            ) from None

    def close(self, within_s: float) -> None:
        """Ask the agent to end, and kill it if it does not. Safe to call twice."""
        if self.alive:
            try:
                self.wait(self.submit(Quit()), Quit.__name__, within_s)
            except AckedError:
                self._pipe.kill()
        self._close_input()
        try:
            self._pipe.wait(_EXIT_S)
        except (WaitTimeoutError, OSError):
            self._pipe.kill()
        self._reader.join(_EXIT_S)

    def kill(self) -> None:
        """SIGKILL. Messages without an outcome stay unknown."""
        self._pipe.kill()
        self._reader.join(_EXIT_S)

    def _close_input(self) -> None:
        # This flushes the buffer, which fails if the agent ended before it read its last command.
        with contextlib.suppress(OSError):
            self._pipe.stdin.close()

    def _read_answers(self) -> None:
        try:
            for line in self._pipe.stdout:
                self._settle(AgentAnswer.parse(line))
        except (OSError, ValueError):
            pass  # a line that was cut short, or a closed pipe: the agent has ended
        with contextlib.suppress(WaitTimeoutError, OSError):
            self._pipe.wait(_EXIT_S)  # its exit status is available shortly after its last output
        with self._lock:
            self._ended = True
            orphans, self._waiting = self._waiting, {}
        for settle in orphans.values():
            settle(self._death())

    def _settle(self, answer: AgentAnswer) -> None:
        with self._lock:
            settle = self._waiting.pop(answer.number, None)
        if settle is not None:
            settle(answer)

    def _death(self) -> ProcessDiedError:
        status = self._pipe.poll()
        last = ""
        with contextlib.suppress(OSError):
            last = text_of_file(self._files, ERRORS)[-_TAIL_CHARS:]
        return ProcessDiedError(
            f"The client in {self._host} has ended (exit status {status}); see {self._files}/{ERRORS}, and "
            f"start another client.",
            detail=last,
        )
