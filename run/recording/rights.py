"""Rights that somebody takes away while a recording is under way, or gives back: each change is a mark."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle

from harness.cluster.attached import AttachedCluster
from harness.history.journal import Journal
from harness.kafka.wire.rights import Operation, authorized_operations
from harness.lab.model import Host

_NEEDED: tuple[Operation, ...] = ("read", "write", "describe", "describe-configs", "delete")
_EVERY_S = 5.0
_ANSWER_S = 1.0


@dataclass(kw_only=True)
class RightsOnTopic:
    """What the user may do with the topic of a recording, as one broker after the other states it."""

    cluster: AttachedCluster
    topic: str
    journal: Journal
    say: Callable[[str], None]
    _there: frozenset[Operation] | None = field(default=None, init=False)
    """As stated last; None before the first statement."""
    _looked: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._turns = cycle(self.cluster.brokers)

    def look(self, answers: Callable[[str], bool]) -> None:
        """Ask the next broker that ``answers``, every 5 s; one that tells nothing is no news."""
        if time.monotonic() < self._looked + _EVERY_S:
            return
        self._looked = time.monotonic()
        host = next(self._turns)
        if answers(host.name):
            self._compare(host)

    def _compare(self, host: Host) -> None:
        try:
            stated = authorized_operations(
                host.broker_endpoint, self.topic, dialect=self.cluster.dialect, timeout_s=_ANSWER_S
            )
        except OSError:
            return  # the observer notes that it does not answer
        if stated is None:
            return
        before, self._there = self._there, stated
        if before is None:
            return
        for operation in _NEEDED:
            name = operation.upper().replace("-", "_")
            if operation in before - stated:
                self._mark("right-lost", f"the user lacks {name} on the topic {self.topic} from now on", name)
            elif operation in stated - before:
                self._mark("right-back", f"the user has {name} on the topic {self.topic} again", name)

    def _mark(self, event: str, text: str, right: str) -> None:
        self.journal.mark(event, text, right=right, topic=self.topic)
        self.say(text)
