"""Who said what last: the observer's memory, and the questions a scenario asks of it.

Only changes are written to the history.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from harness.clock import now_ns
from harness.errors import WaitTimeoutError
from harness.history.journal import Journal

Subject = Literal["partition", "controller", "brokers", "reachable"]
_Key = tuple[str, Subject, str | None, int | None]


@dataclass(frozen=True)
class View:
    """One statement of one source; columns as in the history's `views`. ``order`` ranks znode versions."""

    source: str
    subject: Subject
    topic: str | None = None
    partition: int | None = None
    leader: int | None = None
    epoch: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    controller: int | None = None
    brokers: tuple[int, ...] | None = None
    error: str | None = None
    order: int = 0

    @property
    def key(self) -> _Key:
        """What the statement is about, and whose it is."""
        return (self.source, self.subject, self.topic, self.partition)

    def row(self, ns: int) -> dict[str, object]:
        """The statement as a row of `views`."""
        columns = (
            "topic",
            "partition",
            "leader",
            "epoch",
            "isr",
            "replicas",
            "controller",
            "brokers",
            "error",
        )
        told = {name: getattr(self, name) for name in columns}
        said = {name: value for name, value in told.items() if value is not None}
        return {"ns": ns, "source": self.source, "subject": self.subject, **said}


class Views:
    """The latest statement of every source about every subject. Thread-safe."""

    def __init__(self, journal: Journal) -> None:
        """Changes are written to ``journal``."""
        self._journal = journal
        self._latest: dict[_Key, View] = {}
        self._since: dict[_Key, int] = {}
        self._changed = threading.Condition(threading.RLock())
        self.version = 0
        """Rises with every change."""

    def say(self, views: Iterable[View]) -> None:
        """Take in what a source says now; what differs from before is recorded."""
        ns = now_ns()
        with self._changed:
            fresh = [view for view in views if self._latest.get(view.key) != view]
            if not fresh:
                return
            rows = [view.row(ns) for view in fresh if self._differs(view)]
            for view in fresh:
                self._latest[view.key] = view
                self._since[view.key] = ns
            if rows:
                self._journal.write_many("views", rows)
            self.version += 1
            self._changed.notify_all()

    def _differs(self, view: View) -> bool:
        before = self._latest.get(view.key)
        return before is None or before.row(0) != view.row(0)

    def latest(
        self, source: str, subject: Subject, topic: str | None = None, partition: int | None = None
    ) -> View | None:
        """What ``source`` said last; None if it never spoke of that."""
        with self._changed:
            return self._latest.get((source, subject, topic, partition))

    def since(self, view: View) -> int:
        """When its source began to say so, ns."""
        with self._changed:
            return self._since.get(view.key, 0)

    def select(
        self, prefix: str, subject: Subject, topic: str | None = None, partition: int | None = None
    ) -> list[View]:
        """What all sources whose name starts with ``prefix`` said last."""
        with self._changed:
            return [
                view
                for (source, said, on, number), view in self._latest.items()
                if said == subject and on == topic and number == partition and source.startswith(prefix)
            ]

    def all(self, subject: Subject) -> list[View]:
        """What every source said last about every such subject."""
        with self._changed:
            return [view for view in self._latest.values() if view.subject == subject]

    def wait(self, holds: Callable[[], bool], *, within_s: float, awaiting: str) -> None:
        """Wait until ``holds()``, looked at after every change. Raises WaitTimeoutError."""
        deadline = time.monotonic() + within_s
        with self._changed:
            while not holds():
                left = deadline - time.monotonic()
                if left <= 0:
                    said = [view.row(0) for view in list(self._latest.values())[-12:]]
                    raise WaitTimeoutError(
                        f"Waited {within_s:.1f} s for {awaiting}, in vain.", detail="\n".join(map(str, said))
                    )
                self._changed.wait(left)

    def of(self, source: str) -> SourceView:
        """The cluster as one source (`broker1`), or the newest of a kind (`zookeeper`, `broker`), sees it."""
        return SourceView(self, source)


@dataclass(frozen=True)
class SourceView:
    """Questions to one source; of a kind of source, the newest statement counts."""

    views: Views
    source: str

    def partition(self, topic: str, partition: int = 0) -> View | None:
        """What it says about a partition."""
        return self._newest("partition", topic, partition)

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """Leader's broker id; -1 for none, None when it says nothing."""
        said = self.partition(topic, partition)
        return said.leader if said else None

    def epoch(self, topic: str, partition: int = 0) -> int | None:
        """Leader epoch."""
        said = self.partition(topic, partition)
        return said.epoch if said else None

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...] | None:
        """In-sync replicas."""
        said = self.partition(topic, partition)
        return said.isr if said else None

    def controller(self) -> int | None:
        """The controller's node id; -1 for none."""
        said = self._newest("controller")
        return said.controller if said else None

    def brokers(self) -> tuple[int, ...] | None:
        """Registered brokers."""
        said = self._newest("brokers")
        return said.brokers if said else None

    def reachable(self) -> bool:
        """It answers (for a kind: any of them does)."""
        return any(view.error is None for view in self._all("reachable"))

    def _newest(
        self, subject: Subject, topic: str | None = None, partition: int | None = None
    ) -> View | None:
        said = self._all(subject, topic, partition)
        return max(said, key=self._age, default=None)

    def _age(self, view: View) -> tuple[int, int, int]:
        return view.order, -1 if view.epoch is None else view.epoch, self.views.since(view)

    def _all(self, subject: Subject, topic: str | None = None, partition: int | None = None) -> list[View]:
        if self.source[-1:].isdigit():
            said = self.views.latest(self.source, subject, topic, partition)
            return [] if said is None else [said]
        return self.views.select(self.source, subject, topic, partition)
