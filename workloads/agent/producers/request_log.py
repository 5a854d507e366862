"""The ProduceRequests of a librdkafka producer and their errors, read from its debug log.

Python has no access to librdkafka's message status ("possibly persisted"), and librdkafka's statistics lose
their counts with every lost connection. Its debug log names each ProduceRequest and each error, in order and
before the delivery report. The wording is that of the pinned version; a test checks it.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from confluent_kafka import KafkaError

from workloads.agent.producers.outcomes import RULES, refuses

_REQUEST = re.compile(r"^PRODUCE .*\[thrd:[^\]]*/(\d+)\].*: Produce MessageSet with ")
_ERROR = re.compile(r"^MSGSET .*: MessageSet with \d+ message\(s\) .*encountered error: (.*) \(actions ")


@dataclass(frozen=True)
class Position:
    """A place in the log: the requests and the errors before it."""

    requests: int = 0
    errors: int = 0


@dataclass(frozen=True)
class Attempts:
    """The requests since a position."""

    brokers: tuple[int, ...]
    """Broker ids to which the ProduceRequests went, one per request."""
    all_refused: bool
    """Whether each of them was answered with a definite refusal; also true if there was none."""


class RequestLog(logging.Handler):
    """The log of one producer that runs with ``debug=msg``. The thread that polls the producer writes it."""

    def __init__(self, acks: int) -> None:
        """``acks`` decides which errors are definite refusals."""
        super().__init__()
        self._acks = acks
        self._codes = {KafkaError(code).str(): code for code in RULES if code > 0}
        self._brokers: list[int] = []
        self._refused: list[bool] = []

    def logger(self, name: str) -> logging.Logger:
        """A logger for the producer's `logger` setting, whose lines go nowhere else."""
        logger = logging.Logger(name, logging.DEBUG)
        logger.addHandler(self)
        return logger

    def emit(self, record: logging.LogRecord) -> None:
        """Read one line of the producer's log."""
        line = record.getMessage()
        if match := _REQUEST.match(line):
            self._brokers.append(int(match[1]))
        elif match := _ERROR.match(line):
            self._refused.append(refuses(self._codes.get(match[1], -1), self._acks))

    def position(self) -> Position:
        """The present end of the log."""
        return Position(len(self._brokers), len(self._refused))

    def since(self, position: Position) -> Attempts:
        """The requests after ``position``."""
        brokers = tuple(self._brokers[position.requests :])
        refused = self._refused[position.errors :]
        return Attempts(brokers, all_refused=len(refused) == len(brokers) and all(refused))
