"""Processes in a running container, started by the engine's `exec`: short commands, main processes, helpers.

The SDK reads the headers of the engine's response through a buffer, but reads the output of the process
without it. Output that the process prints before the headers are read is silently lost. So a process whose
output is needed waits for a line before it begins.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from docker import APIClient
from docker.errors import APIError, NotFound
from docker.utils.socket import frames_iter

from harness.errors import LabError
from harness.lab.docker.engine import explain
from harness.lab.model import Result
from harness.waiting import wait_until

_TIMED_OUT = 124
GO = b"\n"
"""The line for which a process started by `start_waiting` waits."""
_ALONE = 'read -r _; exec "$@" </dev/null'
_PIPED = 'echo $$ >"$0"; read -r _; exec "$@"'
"""Write the pid to a file, wait for the line, then become the command."""
_FED = 'read -r _; text=$1; shift; printf %s "$text" | "$@"'
"""Standard input is passed as an argument: that works through every engine and proxy, unlike half-closing."""


def run(
    api: APIClient, container: str, host: str, argv: Sequence[str], stdin: str, timeout_s: float
) -> Result:
    """Run a short command as root and wait for it. Raises LabError when it cannot run or does not end."""
    command = ["timeout", "-k", "1", f"{timeout_s:g}", *argv]
    command = ["sh", "-c", _FED, "sh", stdin, *command] if stdin else ["sh", "-c", _ALONE, "sh", *command]
    output: dict[int, list[bytes]] = {1: [], 2: []}
    try:
        exec_id, response, connection = start_waiting(api, container, command, "0")
        with contextlib.closing(response):
            connection.sendall(GO)
            for stream, data in frames_iter(response, tty=False):  # type: ignore[no-untyped-call]
                output[stream].append(data)
        status = int(api.exec_inspect(exec_id)["ExitCode"])
    except (APIError, OSError) as error:
        why = explain(error) if isinstance(error, APIError) else error
        raise LabError(f"`{' '.join(argv)}` could not be run in {host}: {why}") from error
    if status == _TIMED_OUT:
        raise LabError(f"`{' '.join(argv)}` in {host} did not end within {timeout_s:g} s.")
    out, err = (b"".join(output[stream]).decode(errors="replace") for stream in (1, 2))
    return Result(status, out, err)


def start_waiting(
    api: APIClient, container: str, command: list[str], user: str
) -> tuple[str, Any, socket.socket]:
    """Start a process that waits for a line; returns its id, the stream to read and the socket to write."""
    exec_id = api.exec_create(container, command, stdin=True, user=user)["Id"]
    response = api.exec_start(exec_id, socket=True)
    # The SDK wraps a local socket in a reader; only the socket below can be written to.
    connection: socket.socket = getattr(response, "_sock", response)  # type: ignore[arg-type]
    connection.settimeout(None)
    return exec_id, response, connection


class Exec:
    """One process started by `exec`, and its exit status."""

    def __init__(self, api: APIClient, container: str, exec_id: str, pid_file: str) -> None:
        """``pid_file`` is the file inside the container to which the process has written its pid."""
        self._api = api
        self._container = container
        self._exec_id = exec_id
        self._pid_file = pid_file
        self._status: int | None = None

    def pid(self) -> int:
        """Its pid on the engine's machine; 0 if it ended before the engine reported one."""

        def seen() -> int | None:
            state = self._api.exec_inspect(self._exec_id)
            return int(state["Pid"] or 0) if state["Pid"] or state["ExitCode"] is not None else None

        pid = wait_until(
            seen,
            within_s=10,
            awaiting="the engine to start a process",
            accept=lambda pid: pid is not None,
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
    # A JVM turns SIGTERM into status 143 by itself, so only SIGKILL can be recognised from outside.
    return -9 if status == 137 else status


class DockerPipe:
    """A helper process in a container, used through its standard streams; satisfies `Pipe`."""

    def __init__(
        self, api: APIClient, container: str, host: str, argv: Sequence[str], user: str, errors: Path
    ) -> None:
        """Start it; its stderr is appended to ``errors``."""
        pid_file = f"/tmp/pipe-{uuid.uuid4().hex}.pid"
        command = ["sh", "-c", _PIPED, pid_file, *argv]
        try:
            exec_id, self._response, self._socket = start_waiting(api, container, command, user)
        except APIError as error:
            raise LabError(f"`{' '.join(argv)}` could not be started in {host}: {explain(error)}") from error
        self._exec = Exec(api, container, exec_id, pid_file)
        self._host = host
        self._socket.sendall(GO)
        self._stdin = os.fdopen(self._forward_input(), "w")
        reading, writing = os.pipe()
        self._stdout = os.fdopen(reading, "r")
        threading.Thread(
            target=self._forward_output, args=(writing, errors), name=f"pipe-{host}", daemon=True
        ).start()

    @property
    def stdin(self) -> IO[str]:
        """Writable text stream; closing it closes the process's standard input."""
        return self._stdin

    @property
    def stdout(self) -> IO[str]:
        """Readable text stream."""
        return self._stdout

    def poll(self) -> int | None:
        """Exit status, or None while it runs."""
        return self._exec.poll()

    def kill(self) -> None:
        """SIGKILL."""
        self._exec.signal(9)

    def wait(self, timeout_s: float) -> int:
        """Exit status, once it has ended. Raises WaitTimeoutError."""
        status = wait_until(
            self.poll,
            within_s=timeout_s,
            awaiting=f"a helper process in {self._host} to end",
            accept=lambda seen: seen is not None,
            poll_s=0.02,
        )
        assert status is not None
        return status

    def _forward_input(self) -> int:
        reading, writing = os.pipe()

        def forward() -> None:
            with contextlib.suppress(OSError):
                while data := os.read(reading, 65536):
                    self._socket.sendall(data)
                self._socket.shutdown(socket.SHUT_WR)
            os.close(reading)

        threading.Thread(target=forward, name=f"pipe-in-{self._host}", daemon=True).start()
        return writing

    def _forward_output(self, writing: int, errors: Path) -> None:
        with (
            errors.open("ab", buffering=0) as error_file,
            os.fdopen(writing, "wb", buffering=0) as output,
            contextlib.suppress(OSError),
        ):
            frames = frames_iter(self._response, tty=False)  # type: ignore[no-untyped-call]
            for stream, data in frames:
                (error_file if stream == 2 else output).write(data)
