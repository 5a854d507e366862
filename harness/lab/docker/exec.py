"""Commands in a running container, as an engine's `exec`: short ones and main processes.

The SDK reads the headers of the engine's answer through a buffer and the process's output past it: what the
process says at once, on a machine that is too busy to read the headers first, is lost without a sign. So a
process whose output is wanted waits for a line before it begins.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from typing import Any

from docker import APIClient
from docker.errors import APIError, NotFound
from docker.utils.socket import frames_iter

from harness.errors import LabError
from harness.lab.docker.engine import explain
from harness.lab.model import Result
from harness.waiting import wait_until

_TIMED_OUT = 124
GO = b"\n"
"""The line that a process started by `start_waiting` waits for."""
_ALONE = 'read -r _; exec "$@" </dev/null'
_FED = 'read -r _; text=$1; shift; printf %s "$text" | "$@"'
"""Standard input handed over as an argument: works through every engine and proxy, unlike half-closing."""


def run(
    api: APIClient, container: str, host: str, argv: Sequence[str], stdin: str, timeout_s: float
) -> Result:
    """Run a short command as root and wait for it. Raises LabError when it cannot run or does not end."""
    command = ["timeout", "-k", "1", f"{timeout_s:g}", *argv]
    command = ["sh", "-c", _FED, "sh", stdin, *command] if stdin else ["sh", "-c", _ALONE, "sh", *command]
    said: dict[int, list[bytes]] = {1: [], 2: []}
    try:
        exec_id, response, connection = start_waiting(api, container, command, "0")
        with contextlib.closing(response):
            connection.sendall(GO)
            for stream, data in frames_iter(response, tty=False):  # type: ignore[no-untyped-call]
                said[stream].append(data)
        status = int(api.exec_inspect(exec_id)["ExitCode"])
    except (APIError, OSError) as error:
        why = explain(error) if isinstance(error, APIError) else error
        raise LabError(f"`{' '.join(argv)}` could not be run in {host}: {why}") from error
    if status == _TIMED_OUT:
        raise LabError(f"`{' '.join(argv)}` in {host} did not end within {timeout_s:g} s.")
    out, err = (b"".join(said[stream]).decode(errors="replace") for stream in (1, 2))
    return Result(status, out, err)


def start_waiting(
    api: APIClient, container: str, command: list[str], user: str
) -> tuple[str, Any, socket.socket]:
    """Start a process that waits for a line; returns its id, what is read from, and what is written to."""
    exec_id = api.exec_create(container, command, stdin=True, user=user)["Id"]
    response = api.exec_start(exec_id, socket=True)
    # The SDK wraps a local socket in a reader; only the socket below can be written to.
    connection: socket.socket = getattr(response, "_sock", response)  # type: ignore[arg-type]
    connection.settimeout(None)
    return exec_id, response, connection


class Exec:
    """One process started by `exec`, and what became of it."""

    def __init__(self, api: APIClient, container: str, exec_id: str, pid_file: str) -> None:
        """``pid_file`` is where, inside the container, the process wrote its own pid."""
        self._api = api
        self._container = container
        self._exec_id = exec_id
        self._pid_file = pid_file
        self._status: int | None = None

    def pid(self) -> int:
        """Its pid as the engine's machine sees it; 0 when it ended before the engine told."""

        def seen() -> int | None:
            state = self._api.exec_inspect(self._exec_id)
            return int(state["Pid"] or 0) if state["Pid"] or state["ExitCode"] is not None else None

        pid = wait_until(
            seen,
            within_s=10,
            awaiting="the engine to start a process",
            accept=lambda found: found is not None,
            poll_s=0.01,
        )
        assert pid is not None
        return pid

    def poll(self) -> int | None:
        """Exit status, negative for SIGKILL; None while it runs."""
        if self._status is None:
            try:
                seen = self._api.exec_inspect(self._exec_id)
            except NotFound:
                # The engine forgets ended processes with their container, and after some minutes.
                self._status = -9
                return self._status
            if not seen["Running"] and seen["ExitCode"] is not None:
                self._status = _as_popen(int(seen["ExitCode"]))
        return self._status

    def signal(self, number: int) -> None:
        """Send a signal; a process that has ended is left alone."""
        if self.poll() is not None:
            return
        command = ["sh", "-c", f'kill -{number} "$(cat {self._pid_file})"']
        with contextlib.suppress(NotFound):
            exec_id = self._api.exec_create(self._container, command, user="0")["Id"]
            self._api.exec_start(exec_id)


def start_main(api: APIClient, container: str, user: str) -> Exec:
    """Have the container's entry script exec what /data/command says."""
    exec_id = api.exec_create(container, ["/entry.sh", "run"], user=user)["Id"]
    api.exec_start(exec_id, detach=True)
    return Exec(api, container, exec_id, "/data/main.pid")


def _as_popen(status: int) -> int:
    # A JVM turns SIGTERM into status 143 by itself, so only SIGKILL can be told apart from outside.
    return -9 if status == 137 else status
