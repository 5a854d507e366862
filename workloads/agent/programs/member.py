"""What all readers in a client program have in common: they are created, asked and closed, and may fail."""

from __future__ import annotations

from collections.abc import Callable

from harness.errors import InvalidRunError
from workloads.agent.programs.exceptions import error_code
from workloads.agent.programs.process import RunningProgram
from workloads.agent.programs.producers import described
from workloads.protocol.codec import Json
from workloads.protocol.lines import Event, ProblemEvent
from workloads.protocol.spec import ApplicationSpec, Config, ConsumerSpec


class Member:
    """A reader of a client program, of which each event goes to ``event`` with its time in ns."""

    def __init__(
        self,
        program: RunningProgram,
        spec: ConsumerSpec | ApplicationSpec,
        config: Config,
        event: Callable[[Event, int], None],
    ) -> None:
        """``config`` has the secrets that no sentence may show."""
        self._program = program
        self._spec = spec
        self._config = config
        self._problem: InvalidRunError | None = None
        program.handle("consumer", spec.reader, event)
        program.at_end(self._broken)

    def create(self, op: str, what: str, **fields: Json) -> None:
        """Have the program create ``what``. A refusal is raised by later calls."""
        created = self._program.submit(op, consumer=self._spec.reader, **fields)

        def answered(answer: object) -> None:
            if created.exception() is None and (failure := created.result()) is not None:
                reason = described(failure, self._config)
                self._broken(InvalidRunError(f"The client refuses the {what}: {reason}."))

        created.add_done_callback(answered)

    def ask(self, op: str, within_s: float, **fields: Json) -> None:
        """Have the program do something. Raises InvalidRunError if it does not."""
        failure = self._program.request(op, within_s, consumer=self._spec.reader, **fields)
        if failure is not None:
            reason = described(failure, self._config)
            raise InvalidRunError(f"{self._spec.name} does not carry out {op}: {reason}.")

    def close(self, within_s: float) -> bool:
        """Stop reading; returns False if the program had failed before. Raises InvalidRunError."""
        if self._problem is None:
            self.ask("close_consumer", within_s)
            return True
        return False

    def require_sound(self) -> None:
        """Raises InvalidRunError if the program has failed."""
        if self._problem is not None:
            raise self._problem

    def described(self, event: ProblemEvent) -> tuple[int, str]:
        """The code of an error that the client tells of, and a sentence."""
        return error_code(event.error), described(event.error, self._config)

    def _broken(self, problem: InvalidRunError) -> None:
        self._problem = problem
