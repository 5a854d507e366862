"""What changes during a recording apart from brokers: rights, settings of the topic, quotas."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import Protocol

from checkers.verdict import SeenEvent
from harness.cluster.attached import AttachedCluster
from harness.errors import UnfitError, WaitTimeoutError
from harness.history.journal import Journal
from harness.kafka.wire.admin import describe_configs
from harness.kafka.wire.rights import Operation, authorized_operations
from harness.lab.model import Host
from harness.secrets import shown
from run.configs import write_topic_config

_NEEDED: tuple[Operation, ...] = ("read", "write", "describe", "describe-configs", "delete")
_EVERY_S = 5.0
_ANSWER_S = 2.0


class _Mark(Protocol):
    def __call__(self, event: SeenEvent, text: str, **facts: object) -> None: ...


@dataclass(kw_only=True)
class Changes:
    """Looks at the topic of a recording as one broker after the other states it, and at its producers."""

    cluster: AttachedCluster
    topic: str
    journal: Journal
    mark: _Mark
    """Marks something as seen (`Seen.mark`)."""
    say: Callable[[str], None]
    config: Mapping[str, str | None] = field(default_factory=dict)
    """The topic's settings as recorded at the beginning; empty if they are not told."""
    throttled_ms: Callable[[], Mapping[str, int]] = dict
    """By producer, by how much quotas have delayed answers so far."""
    _rights: frozenset[Operation] | None = field(default=None, init=False)
    """As stated last; None before the first statement."""
    _delays_ms: Mapping[str, int] = field(default_factory=dict, init=False)
    _slowed: bool = field(default=False, init=False)
    """Quotas delayed answers between the last two looks."""
    _looked: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._turns = cycle(self.cluster.brokers)

    def begin(self) -> None:
        """Ask one broker after the other what the user may do, until one tells: what is compared later."""
        for host in self.cluster.brokers:
            self._compare_rights(host)
            if self._rights is not None:
                return

    def look(self, answers: Callable[[str], bool]) -> None:
        """Ask the next broker that ``answers``, every 5 s; one that tells nothing is no news."""
        if time.monotonic() < self._looked + _EVERY_S:
            return
        self._looked = time.monotonic()
        self._compare_delays()
        host = next(self._turns)
        if answers(host.name):
            self._compare_rights(host)
            self._compare_config(host)

    def _compare_delays(self) -> None:
        try:
            stated = self.throttled_ms()
        except WaitTimeoutError:
            return  # the clients are busy
        before, self._delays_ms = self._delays_ms, stated
        slowed = [name for name, ms in self._delays_ms.items() if ms > before.get(name, 0)]
        if slowed and not self._slowed:
            text = f"quotas of the cluster delay answers to {', '.join(slowed)}"
            self.mark("throttled", text, producers=slowed)
            self.say(text)
        elif self._slowed and not slowed:
            self.journal.mark("throttle-over", "quotas of the cluster delay no answer any more")
        self._slowed = bool(slowed)

    def _compare_rights(self, host: Host) -> None:
        try:
            stated = authorized_operations(
                host.broker_endpoint, self.topic, dialect=self.cluster.dialect, timeout_s=_ANSWER_S
            )
        except OSError:
            return  # the observer notes that it does not answer
        if stated is None:
            return
        before, self._rights = self._rights, stated
        if before is None:
            return
        for operation in _NEEDED:
            name = operation.upper().replace("-", "_")
            if operation in before - stated:
                text = f"the user lacks {name} on the topic {self.topic} from now on"
                self.mark("right-lost", text, right=name, topic=self.topic)
                self.say(text)
            elif operation in stated - before:
                text = f"the user has {name} on the topic {self.topic} again"
                self.journal.mark("right-back", text, right=name, topic=self.topic)
                self.say(text)

    def _compare_config(self, host: Host) -> None:
        if not self.config:
            return
        try:
            stated = describe_configs(
                host.broker_endpoint,
                "topic",
                self.topic,
                dialect=self.cluster.dialect,
                timeout_s=_ANSWER_S,
            )
        except (LookupError, OSError, UnfitError):
            return
        changed = {key: value for key, value in stated.items() if self.config.get(key) != value}
        for key, value in changed.items():
            was = shown(key, self.config.get(key))
            text = f"{key} of the topic {self.topic} is {shown(key, value)} from now on, and was {was}"
            self.mark("config-changed", text, key=key, topic=self.topic)
            self.say(text)
        if changed:
            write_topic_config(self.journal, self.topic, changed)
            self.config = stated
