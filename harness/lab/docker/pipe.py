"""A process in a container that is spoken to line by line."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from docker import APIClient
from docker.errors import APIError
from docker.utils.socket import frames_iter

from harness.errors import LabError
from harness.lab.docker.engine import explain
from harness.lab.docker.exec import GO, Exec, start_waiting
from harness.waiting import wait_until

_PIPED = 'echo $$ >"$0"; read -r _; exec "$@"'


class DockerPipe:
    """A process in a container that is spoken to through its standard streams; satisfies `Pipe`."""

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
