"""What each source stated last about partitions, controller and brokers, and how a scenario queries it.

Only changes are written to the history; before a source falls silent, when it answered last; and after each
mark, when it first answered a question that was asked later: only that can deny what was so at the mark.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from harness.clock import now_ns
from harness.history.journal import Journal
from harness.kafka.model import PartitionState, TopicPartition

Subject = Literal["partition", "controller", "brokers", "reachable"]
_Key = tuple[str, Subject, TopicPartition | None]


@dataclass(frozen=True, kw_only=True)
class View:
    """One statement of one source, about one subject; it becomes a row of the history's `views`."""

    source: str
    subject: Subject
    topic_partition: TopicPartition | None = None
    state: PartitionState | None = None
    """Of the subject `partition`."""
    controller: int | None = None
    controller_epoch: int | None = None
    brokers: tuple[int, ...] | None = None
    """Node ids of the registered brokers."""
    error: str | None = None
    """Of the subject `reachable`: why the source did not answer; None when it did."""
    order: int = 0
    """Version of the znode that the statement comes from; a higher one is newer, whoever states it."""

    @property
    def key(self) -> _Key:
        """The source of the statement, and what it is about."""
        return (self.source, self.subject, self.topic_partition)

    def row(self, ns: int, asked_ns: int | None = None) -> dict[str, object]:
        """The statement, made at ``ns`` to a question of ``asked_ns``, as a row of `views`."""
        columns: dict[str, object] = {
            "epoch": self.controller_epoch,
            "controller": self.controller,
            "brokers": self.brokers,
            "error": self.error,
            "asked_ns": asked_ns,
        }
        if self.topic_partition is not None:
            columns |= self.topic_partition._asdict()
        if self.state is not None:
            columns |= {
                "leader": self.state.leader,
                "epoch": self.state.leader_epoch,
                "isr": self.state.isr,
                "replicas": self.state.replicas,
            }
        present = {name: value for name, value in columns.items() if value is not None}
        return {"ns": ns, "source": self.source, "subject": self.subject, **present}


@dataclass(frozen=True)
class _Answer:
    """When a source was asked, and when it answered."""

    asked_ns: int
    ns: int


class Views:
    """The latest statement of every source about every subject. Thread-safe."""

    def __init__(self, journal: Journal) -> None:
        """Changes are written to ``journal``."""
        self._journal = journal
        self._latest: dict[_Key, View] = {}
        self._since: dict[_Key, int] = {}
        self._answered: dict[str, _Answer] = {}
        self._replicas: dict[int, tuple[TopicPartition, ...]] | None = None
        """What `replicas_of` answers, until a source states something else about a partition."""
        self._due: dict[str, int] = {}
        """By source the time of a mark: its next answer to a question asked later is written."""
        self._lock = threading.RLock()

    def record(self, views: Iterable[View], asked_ns: int | None = None) -> None:
        """Take in the current statements of a source; changes are written to the journal.

        ``asked_ns`` is when it was asked, by default now.
        """
        ns = now_ns()
        look = _Answer(ns if asked_ns is None else asked_ns, ns)
        views = list(views)
        with self._lock:
            rows = [
                row for view in views if view.subject == "reachable" for row in self._note_answer(view, look)
            ]
            fresh = [view for view in views if self._latest.get(view.key) != view]
            rows += [view.row(ns, look.asked_ns) for view in fresh if self._differs(view)]
            if any(view.subject == "partition" for view in fresh):
                self._replicas = None
            for view in fresh:
                self._latest[view.key] = view
                self._since[view.key] = ns
            if rows:
                self._journal.write_many("views", rows)

    def _note_answer(self, view: View, look: _Answer) -> list[dict[str, object]]:
        """Note whether a source answers; the row of a due answer, or of the last one before a silence."""
        if view.error is None:
            self._answered[view.source] = look
            if self._due.get(view.source, look.asked_ns + 1) > look.asked_ns:
                return []
            del self._due[view.source]
            return [view.row(look.ns, look.asked_ns)]
        self._due.pop(view.source, None)
        last = self._answered.pop(view.source, None)
        before = self._latest.get(view.key)
        if last is None or before is None or last.ns <= self.since(before):
            return []
        return [before.row(last.ns, last.asked_ns)]

    def confirm(self, mark_ns: int) -> None:
        """Write to the journal when each source that answers did so last, and its next look after a mark.

        Without it, the history of a cluster where nothing changes would not show that it was still observed.
        """
        with self._lock:
            self._due = dict.fromkeys(self._answered, mark_ns)
            rows = [
                View(source=source, subject="reachable").row(last.ns, last.asked_ns)
                for source, last in self._answered.items()
            ]
            if rows:
                self._journal.write_many("views", rows)

    def look_is_due(self, source: str = "") -> bool:
        """Whether a source, by default any, has not answered since the last mark, although it did before."""
        with self._lock:
            return source in self._due if source else bool(self._due)

    def answers(self, source: str) -> bool:
        """Whether a source answered when it was asked last, or was never asked."""
        view = self.latest(source, "reachable")
        return view is None or view.error is None

    def _differs(self, view: View) -> bool:
        before = self._latest.get(view.key)
        return before is None or before.row(0) != view.row(0)

    def latest(
        self, source: str, subject: Subject, topic_partition: TopicPartition | None = None
    ) -> View | None:
        """The last statement of ``source`` about this subject, if there is one."""
        with self._lock:
            return self._latest.get((source, subject, topic_partition))

    def since(self, view: View) -> int:
        """When its source stated this first, ns."""
        with self._lock:
            return self._since.get(view.key, 0)

    def select(
        self, prefix: str, subject: Subject, topic_partition: TopicPartition | None = None
    ) -> list[View]:
        """The last statements of all sources whose name starts with ``prefix``."""
        with self._lock:
            return [
                view
                for (source, about, on), view in self._latest.items()
                if about == subject and on == topic_partition and source.startswith(prefix)
            ]

    def replicas_of(self, broker: int) -> tuple[TopicPartition, ...]:
        """The partitions of which a broker has a replica by the last statement of any source, sorted."""
        with self._lock:
            if self._replicas is None:
                found: defaultdict[int, set[TopicPartition]] = defaultdict(set)
                for view in self._latest.values():
                    if view.topic_partition is not None and view.state is not None:
                        for member in view.state.replicas or ():
                            found[member].add(view.topic_partition)
                self._replicas = {member: tuple(sorted(keys)) for member, keys in found.items()}
            return self._replicas.get(broker, ())

    def of(self, source: str) -> SourceView:
        """The statements of one source (`broker1`), or of all sources of a kind (`zookeeper`, `broker`)."""
        return SourceView(self, source)


@dataclass(frozen=True)
class SourceView:
    """The statements of one source; of a kind of source (`broker`), the newest statement counts.

    Sources that do not answer count only if none does: they may have stated what became of a topic that was
    deleted, whose leader epochs were higher than those of the topic that was created again.
    """

    views: Views
    source: str

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """The state of a partition; None if the source stated nothing about it."""
        view = self._newest("partition", TopicPartition(topic, partition))
        return view.state if view else None

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """Leader's broker id; -1 for none, None if the source stated nothing."""
        state = self.partition(topic, partition)
        return state.leader if state else None

    def epoch(self, topic: str, partition: int = 0) -> int | None:
        """Leader epoch."""
        state = self.partition(topic, partition)
        return state.leader_epoch if state else None

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...] | None:
        """In-sync replicas."""
        state = self.partition(topic, partition)
        return state.isr if state else None

    def controller(self) -> int | None:
        """The controller's node id; -1 for none."""
        view = self._newest("controller")
        return view.controller if view else None

    def brokers(self) -> tuple[int, ...] | None:
        """Node ids of the registered brokers."""
        view = self._newest("brokers")
        return view.brokers if view else None

    def reachable(self) -> bool:
        """Whether the source answers; for a kind of source, whether any of them does."""
        return any(view.error is None for view in self._all("reachable"))

    def _newest(self, subject: Subject, topic_partition: TopicPartition | None = None) -> View | None:
        stated = self._all(subject, topic_partition)
        answering = [view for view in stated if self.views.answers(view.source)]
        return max(answering or stated, key=self._recency, default=None)

    def _recency(self, view: View) -> tuple[int, int, int]:
        epoch = view.state.leader_epoch if view.state is not None else view.controller_epoch
        return view.order, -1 if epoch is None else epoch, self.views.since(view)

    def _all(self, subject: Subject, topic_partition: TopicPartition | None = None) -> list[View]:
        if self.source[-1:].isdigit():
            view = self.views.latest(self.source, subject, topic_partition)
            return [] if view is None else [view]
        return self.views.select(self.source, subject, topic_partition)
