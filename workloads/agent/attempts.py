"""How often a producer's messages really left, and what each refused attempt was told.

Python is not told librdkafka's "possibly persisted" flag, and its statistics forget their counts with each
lost connection. Its debug log names every ProduceRequest and every error, in order, before the delivery
report; a test holds the wording of the pinned version.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from confluent_kafka import KafkaError

from workloads.agent.outcomes import RULES, refuses

_SENT = re.compile(r"^PRODUCE .*\[thrd:[^\]]*/(\d+)\].*: Produce MessageSet with ")
_ERROR = re.compile(r"^MSGSET .*: MessageSet with \d+ message\(s\) .*encountered error: (.*) \(actions ")


@dataclass(frozen=True)
class Position:
    """How far the log had come at some moment."""

    requests: int = 0
    errors: int = 0


@dataclass(frozen=True)
class Window:
    """What happened between a position and now."""

    nodes: tuple[int, ...]
    """Node ids to which ProduceRequests went, one entry per request."""
    all_refused: bool
    """Each request was answered with a definite refusal; true as well when there was none."""


class AttemptLog(logging.Handler):
    """The log of one producer that runs with ``debug=msg``; fed by the thread that polls it."""

    def __init__(self, acks: int) -> None:
        """``acks`` decides which errors are definite refusals."""
        super().__init__()
        self._acks = acks
        self._codes = {KafkaError(code).str(): code for code in RULES if code > 0}
        self._nodes: list[int] = []
        self._refused: list[bool] = []

    def logger(self, name: str) -> logging.Logger:
        """A logger for the producer's `logger` setting, whose lines go nowhere else."""
        logger = logging.Logger(name, logging.DEBUG)
        logger.addHandler(self)
        return logger

    def emit(self, record: logging.LogRecord) -> None:
        """Take one line of the producer's log."""
        line = record.getMessage()
        if found := _SENT.match(line):
            self._nodes.append(int(found[1]))
        elif found := _ERROR.match(line):
            self._refused.append(refuses(self._codes.get(found[1], -1), self._acks))

    def position(self) -> Position:
        """How far the log has come."""
        return Position(len(self._nodes), len(self._refused))

    def since(self, before: Position) -> Window:
        """What happened since ``before``."""
        nodes = tuple(self._nodes[before.requests :])
        refused = self._refused[before.errors :]
        return Window(nodes, all_refused=len(refused) == len(nodes) and all(refused))
