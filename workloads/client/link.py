"""The harness's end of an agent's pipe: commands become futures, a dead agent fails all of them."""

from __future__ import annotations

import contextlib
import json
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any

from harness.errors import LabError, ProcessDiedError, WaitTimeoutError
from harness.lab.model import Pipe

_TAIL_CHARS = 2000


class AgentLink:
    """One agent. Thread-safe."""

    def __init__(self, pipe: Pipe, who: str, errors: Path) -> None:
        """``errors`` is the file with the agent's stderr, as the harness sees it."""
        self._pipe = pipe
        self._who = who
        self._errors = errors
        self._lock = threading.Lock()
        self._next = 0
        self._waiting: dict[int, Future[Any]] = {}
        self._ended = False
        self._reader = threading.Thread(target=self._listen, name=f"agent-{who}", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        """The agent's process runs and its pipe is open."""
        return not self._ended and self._pipe.poll() is None

    def submit(self, name: str, /, **arguments: Any) -> Future[Any]:
        """Send a command. The future fails with LabError, or ProcessDiedError when the agent is gone."""
        future: Future[Any] = Future()
        with self._lock:
            if self._ended:
                future.set_exception(self._death())
                return future
            self._next += 1
            number = self._next
            self._waiting[number] = future
            try:
                self._pipe.stdin.write(json.dumps({"id": number, "do": name, **arguments}) + "\n")
                self._pipe.stdin.flush()
            except (OSError, ValueError):
                del self._waiting[number]
                future.set_exception(self._death())
        return future

    def call(self, name: str, wait_s: float, /, **arguments: Any) -> Any:
        """Send a command and wait for its result. Raises WaitTimeoutError too."""
        return self.wait(self.submit(name, **arguments), name, wait_s)

    def wait(self, future: Future[Any], name: str, within_s: float) -> Any:
        """The result of a submitted command."""
        try:
            return future.result(within_s)
        except FutureTimeoutError:
            if future.done():
                raise
            raise WaitTimeoutError(
                f"Waited {within_s:.1f} s for {self._who} to answer {name!r}, in vain; its errors are in "
                f"{self._errors}."
            ) from None

    def close(self, within_s: float) -> None:
        """Ask the agent to end; kill it when it does not. Safe to call twice."""
        if self.alive:
            try:
                self.call("quit", within_s)
            except (WaitTimeoutError, ProcessDiedError, LabError):
                self._pipe.kill()
        self._close_input()
        try:
            self._pipe.wait(2.0)
        except (WaitTimeoutError, TimeoutError, OSError):
            self._pipe.kill()
        self._reader.join(2.0)

    def kill(self) -> None:
        """SIGKILL: what it was about to be told stays unknown."""
        self._pipe.kill()
        self._reader.join(5.0)

    def _close_input(self) -> None:
        # The agent may have been gone before its last command: then the rest cannot be flushed.
        with contextlib.suppress(OSError):
            self._pipe.stdin.close()

    def _listen(self) -> None:
        try:
            for line in self._pipe.stdout:
                self._settle(json.loads(line))
        except (OSError, ValueError):
            pass  # a torn last line, or a closed pipe: the agent is gone
        with contextlib.suppress(WaitTimeoutError, OSError):
            self._pipe.wait(1.0)  # its status is known a moment after its last word
        with self._lock:
            self._ended = True
            orphans, self._waiting = self._waiting, {}
        for future in orphans.values():
            future.set_exception(self._death())

    def _settle(self, answer: dict[str, Any]) -> None:
        with self._lock:
            future = self._waiting.pop(answer["id"], None)
        if future is None:
            return
        if "error" in answer:
            future.set_exception(LabError(f"{self._who} could not do it: {answer['error']}"))
        else:
            future.set_result(answer["result"])

    def _death(self) -> ProcessDiedError:
        status = self._pipe.poll()
        tail = ""
        if self._errors.is_file():
            tail = self._errors.read_text(errors="replace")[-_TAIL_CHARS:]
        return ProcessDiedError(
            f"The client process in {self._who} has ended (status {status}); start a new client there, "
            f"or see {self._errors}.",
            detail=tail,
        )
