"""The agent's process: reads commands from its input and writes their answers, one JSON line each.

Commands run concurrently, and each answer is written when it is ready. The agent ends at the end of its
input. However it ends, its journal holds what happened before.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path

from harness.errors import AckedError, InvalidRunError, UnfitError
from harness.history.journal import Journal
from harness.privileges import give_up_capabilities
from workloads.agent.dispatcher import Dispatcher
from workloads.agent.producers.producer import Work
from workloads.agent.producers.recorder import Recorder
from workloads.protocol.codec import to_json
from workloads.protocol.commands import AgentAnswer, Ends, Quit, Request


class Agent:
    """Reads commands until the input ends."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._output = threading.Lock()

    def run(self) -> None:
        """Serve until `Quit` or the end of the input."""
        try:
            for line in sys.stdin:
                request = Request.parse(line)
                if request.name == Quit.__name__:
                    self._dispatcher.close()
                    self._answer(AgentAnswer(request.number))
                    return
                self._start(request)
                _preload()
        finally:
            self._dispatcher.close()

    def _start(self, request: Request) -> None:
        def reply(result: object) -> None:
            self._answer(AgentAnswer(request.number, to_json(result)))

        try:
            work = self._dispatcher.dispatch(request.command(), reply)
        except Exception as error:  # noqa: BLE001 - a bad command must not end the run's clients
            self._fail(request, error)
            return
        if work is not None:
            threading.Thread(target=self._work, args=(request, work), daemon=True).start()

    def _work(self, request: Request, work: Work) -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - reported to the caller, who decides
            self._fail(request, error)
            return
        self._answer(AgentAnswer(request.number, to_json(result)))

    def _fail(self, request: Request, error: Exception) -> None:
        if not isinstance(error, (AckedError, OSError)):
            traceback.print_exception(error)
        text = error.message if isinstance(error, AckedError) else repr(error)
        ends: Ends = ""
        if isinstance(error, InvalidRunError):
            ends = "invalid"
        elif isinstance(error, UnfitError):
            ends = "unfit"
        self._answer(AgentAnswer(request.number, error=text, ends=ends))

    def _answer(self, answer: AgentAnswer) -> None:
        with self._output:
            sys.stdout.write(answer.line())
            sys.stdout.flush()


def _preload() -> None:
    """Import the client libraries after the first answer, so that no message waits for them.

    Runs on the main thread, as all imports do: if two threads import the same packages, one may see modules
    that are only half initialised.
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
    parser.add_argument("--host", required=True, help="host in which the agent runs")
    parser.add_argument("--az", required=True, help="availability zone of that host")
    parser.add_argument("--journal", required=True, type=Path, help="journal to append to")
    arguments = parser.parse_args(argv)
    # Ctrl-C reaches every process of the terminal; the harness ends its clients itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    give_up_capabilities(arguments.journal.parent.resolve(), Path(sys.prefix))
    with Journal(arguments.journal) as journal:
        errors = os.open(arguments.journal.with_suffix(".err"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(errors, 2)
        os.close(errors)
        recorder = Recorder(journal, arguments.host, arguments.az)
        Agent(Dispatcher(journal, recorder, arguments.host, arguments.journal)).run()


if __name__ == "__main__":
    main()
