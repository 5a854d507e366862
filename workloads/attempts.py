"""How often a producer's messages really left, and what each refused attempt was told.

Python is not told librdkafka's "possibly persisted" flag. Its statistics count the ProduceRequests that
left; its debug log names the error of each one that was refused. Where both agree, they decide.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError

from workloads.outcomes import RULES, refuses

_REFUSED = re.compile(r"MessageSet with \d+ message\(s\) .*encountered error: (.*) \(actions ")


@dataclass(frozen=True)
class Snapshot:
    """ProduceRequests that had left by node id (-1: a bootstrap entry), and errors logged until then."""

    sent: Mapping[int, int] = field(default_factory=dict)
    errors: int = 0


@dataclass(frozen=True)
class Window:
    """What left between a snapshot and now; ``all_refused`` is true as well if nothing did."""

    requests: int
    nodes: tuple[int, ...]
    all_refused: bool


class AttemptLog(logging.Handler):
    """Collects both sources of one producer; used by the one thread that polls it."""

    def __init__(self, acks: int) -> None:
        """``acks`` decides which errors are definite refusals."""
        super().__init__()
        self._acks = acks
        self._codes = {KafkaError(code).str(): code for code in RULES if code > 0}
        self._errors: list[bool] = []
        self._sent: dict[int, int] = {}
        self.idempotence = ""
        """librdkafka's state of the idempotent producer; `Assigned` once it has its id."""

    def logger(self, name: str) -> logging.Logger:
        """A logger for the producer's `logger` setting, whose lines go nowhere else."""
        logger = logging.Logger(name, logging.DEBUG)
        logger.addHandler(self)
        return logger

    def emit(self, record: logging.LogRecord) -> None:
        """Take one line of the producer's log."""
        found = _REFUSED.search(record.getMessage())
        if found is not None:
            self._errors.append(refuses(self._codes.get(found[1], -1), self._acks))

    def update(self, text: str) -> int:
        """Take one statistics document; returns the monotonic time in ns at which it was drawn up."""
        statistics: dict[str, Any] = json.loads(text)
        self.idempotence = statistics.get("eos", {}).get("idemp_state", "")
        sent: dict[int, int] = {}
        for broker in statistics.get("brokers", {}).values():
            node = int(broker.get("nodeid", -1))
            sent[node] = sent.get(node, 0) + int(broker.get("req", {}).get("Produce", 0))
        self._sent = sent
        return int(statistics["ts"]) * 1000

    def snapshot(self) -> Snapshot:
        """The counts as last seen."""
        return Snapshot(self._sent, len(self._errors))

    def since(self, before: Snapshot) -> Window:
        """What left since ``before``."""
        grown = {node: count - before.sent.get(node, 0) for node, count in self._sent.items()}
        requests = sum(grown.values())
        errors = self._errors[before.errors :]
        return Window(
            requests=requests,
            nodes=tuple(node for node, count in grown.items() if count > 0),
            all_refused=len(errors) == requests and all(errors),
        )
