"""What the agent's producers have in common: each begins the commands that its kind knows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from harness.errors import UsageError
from workloads.agent.producers.recorder import Recorder
from workloads.protocol.commands import ProducerCommand
from workloads.protocol.spec import ProducerSpec

Reply = Callable[[object], None]
"""Takes the result of a command."""
Work = Callable[[], object]
"""What a command does that may block; its value is the result."""


class AgentProducer(ABC):
    """One producer of the agent."""

    def __init__(self, recorder: Recorder, spec: ProducerSpec) -> None:
        """Record the producer."""
        recorder.register(spec)
        self.recorder = recorder
        self.spec = spec

    @abstractmethod
    def dispatch(self, command: ProducerCommand[object], reply: Reply) -> Work | None:
        """Begin a command, as `Dispatcher.dispatch` does. Raises UsageError for one that its kind lacks."""

    @abstractmethod
    def close(self) -> None:
        """End it; messages without an outcome end as `info`."""

    def lacks(self, command: ProducerCommand[object]) -> UsageError:
        """The error for a command that this kind of producer does not know."""
        kind = "transactional" if self.spec.transactional_id else self.spec.role
        return UsageError(
            f"Producer {self.spec.writer} ({self.spec.name}) is a {kind} producer of {self.spec.via}, "
            f"which has no {type(command).__name__}."
        )
