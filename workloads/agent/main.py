"""The process that stands in a client's host: commands in, answers out, one JSON line each.

A command is ``{"id": 1, "do": "send", ...arguments}``; its answer ``{"id": 1, "result": ...}`` or
``{"id": 1, "error": "..."}``. Commands run at the same time; answers come as they are ready. The end of the
input ends the agent. What happened is in the journal, whatever becomes of the agent.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import AckedError
from harness.history.journal import Journal
from workloads.agent.commands import Commands, Work
from workloads.agent.recorder import Recorder


class Agent:
    """Reads commands until the input ends."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._out = threading.Lock()

    def run(self) -> None:
        """Serve until `quit` or the end of the input."""
        try:
            for line in sys.stdin:
                command = json.loads(line)
                if command["do"] == "quit":
                    self._commands.close()
                    self._answer(command["id"], result=None)
                    return
                self._start(command)
                _preload()
        finally:
            self._commands.close()

    def _start(self, command: dict[str, Any]) -> None:
        number = command.pop("id")
        name = command.pop("do")
        method = None if name.startswith("_") or name == "close" else getattr(self._commands, name, None)
        if method is None:
            self._answer(number, error=f"The agent knows no command {name!r}.")
            return

        def reply(result: Any) -> None:
            self._answer(number, result=result)

        try:
            work: Work | None = method(command, reply)
        except Exception as error:  # noqa: BLE001 - one bad command must not end the clients of a run
            self._failed(number, error)
            return
        if work is not None:
            threading.Thread(target=self._work, args=(number, work), daemon=True).start()

    def _work(self, number: int, work: Work) -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - reported to the caller, who decides
            self._failed(number, error)
            return
        self._answer(number, result=result)

    def _failed(self, number: int, error: Exception) -> None:
        if not isinstance(error, (AckedError, OSError)):
            traceback.print_exception(error)
        self._answer(number, error=str(error) if isinstance(error, AckedError) else repr(error))

    def _answer(self, number: int, **content: Any) -> None:
        with self._out:
            sys.stdout.write(json.dumps({"id": number, **content}) + "\n")
            sys.stdout.flush()


def _preload() -> None:
    """Import the client libraries once the harness knows that the agent lives; no message waits for them.

    On the main thread like all imports: two threads that import the same packages may see half of one.
    """
    for name in (
        "workloads.agent.producers.raw",
        "workloads.agent.producers.stream",
        "workloads.agent.producers.scripted",
        "workloads.agent.consumers.assigned",
    ):
        importlib.import_module(name)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``python -m workloads.agent.main``."""
    parser = argparse.ArgumentParser(prog="workloads.agent.main", description=__doc__)
    parser.add_argument("--host", required=True, help="host it runs in")
    parser.add_argument("--az", required=True, help="that host's availability zone")
    parser.add_argument("--journal", required=True, type=Path, help="journal to append to")
    arguments = parser.parse_args(argv)
    # Ctrl-C reaches the whole terminal group; the harness ends its clients in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Journal(arguments.journal) as journal:
        errors = os.open(arguments.journal.with_suffix(".err"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(errors, 2)
        os.close(errors)
        Agent(Commands(Recorder(journal, arguments.host, arguments.az))).run()


if __name__ == "__main__":
    main()
