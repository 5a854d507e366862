"""What the observer sees to break by itself: a broker that falls silent, a new leader, an incomplete ISR.

Each becomes a mark. Of a cluster that somebody else breaks, these are all the proof there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, get_args
from uuid import UUID

from checkers.verdict import SeenEvent
from harness.clock import now_ns
from harness.errors import json_object
from harness.history.assemble import lines_of
from harness.history.journal import Journal
from harness.kafka.model import NO_LEADER, PartitionState, TopicPartition, broker_name
from harness.observer.views import Views

TopicIds = Mapping[str, UUID | None]
"""The topic with its id (None before Kafka 2.8), as a broker states it; empty if it says there is none."""
_ASKED_EVERY_NS = 500_000_000
_DEPOSED_NS = 2_000_000_000
"""How long a leader that was deposed may take until it states so."""
_BACK_NS = 5_000_000_000
"""How long it may take until the new log of a topic that was gone is seen."""


class LedLog(NamedTuple):
    """What a broker states of a log that it leads; of the same topic, it never states less later."""

    epoch: int
    """Leader epoch."""
    committed: int
    """High watermark."""
    end: int
    """Log end offset."""


@dataclass(kw_only=True)
class Incarnations:
    """Whether the topic is still the one that the recording has made. Pure bookkeeping."""

    topic: str
    ids: set[UUID] = field(default_factory=set)
    """Those that it has had."""
    gone: bool = False
    """It does not exist."""
    _absences: int = 0
    """Looks in succession at which all brokers said that there is none."""
    _led: dict[tuple[int, TopicPartition], LedLog] = field(default_factory=dict)
    """By broker and partition, the most that it stated while it led."""
    _less_since: dict[tuple[int, TopicPartition], int] = field(default_factory=dict)
    """When, ns, a broker stated less, in the same leader epoch or an older one."""

    def look(self, stated: Mapping[int, TopicIds], replicas: int) -> str:
        """What is new, as a sentence: the topic was deleted, or created again; empty if nothing is.

        ``stated`` is by broker, of those that answer. A broker that has just started may not know the topic
        yet: two must say so, if it has more replicas than one, and at two looks.
        """
        present = [one[self.topic] for one in stated.values() if self.topic in one]
        fresh = {one for one in present if one is not None} - self.ids
        if fresh:
            self.ids |= fresh
            self.gone, self._absences = False, 0
            return f"the topic {self.topic} has another id: {', '.join(sorted(map(str, fresh)))}"
        if present:
            self._absences = 0
            self.gone = self.gone and present != [None] * len(present)
            return ""
        self._absences += len(stated) >= min(2, replicas)
        if self._absences < 2 or self.gone:
            return ""
        self.gone = True
        return f"there is no topic {self.topic}"

    def look_at_leader(self, broker: int, key: TopicPartition, stated: LedLog, ns: int) -> int | None:
        """Since when, ns, a topic without an id is another one, if a broker's own log shows that.

        In a leader epoch a leader's log only grows, and epochs do too, unless the topic is created anew: then
        the log is shorter than what was committed, or the epoch is lower. A leader that is deposed may
        truncate its log before it states so, but not to before what is committed.
        """
        where = broker, key
        before = self._led.get(where, stated)
        since = self._less_since.get(where)
        if stated.epoch > before.epoch or (
            since is None and (stated.epoch, stated.end) >= (before.epoch, before.committed)
        ):
            self._less_since.pop(where, None)
            self._led[where] = max(before, stated)
            return None
        since = self._less_since.setdefault(where, ns)
        if ns - since < _DEPOSED_NS:
            return None
        self._led.clear()
        self._less_since.clear()
        return since


@dataclass(kw_only=True)
class Seen:
    """Marks of what has changed since the last look. Pure bookkeeping but for the journal."""

    views: Views
    journal: Journal
    brokers: Sequence[int]
    """Node ids of those that have replicas."""
    partitions: Sequence[TopicPartition]
    incarnations: Incarnations
    ask_ids: Callable[[int], TopicIds | None]
    """What a broker states now about the topic; None if it does not answer."""
    watermarks: Callable[[int, TopicPartition], tuple[int, int] | None]
    """What a broker stated last of its replica (`Observer.watermarks`)."""
    counts: Counter[SeenEvent] = field(default_factory=Counter)
    """How often each event was seen."""
    _silent: dict[int, set[str]] = field(default_factory=dict)
    """Brokers that do not answer, and the reasons that were seen for it."""
    _states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    _asked_ns: int = 0
    _back_ns: int = -_BACK_NS
    """When a topic that had been gone was there again."""

    def look(self) -> None:
        """Compare what every broker states with what it stated before."""
        for broker in self.brokers:
            view = self.views.latest(broker_name(broker), "reachable")
            if view is not None and view.error is not None:
                self._note_silence(broker, view.error)
            elif broker in self._silent:
                del self._silent[broker]
                self.journal.mark("broker-answers", f"{broker_name(broker)} answers again", broker=broker)
        for key in self.partitions:
            state = self.views.of("broker").partition(*key)
            if state is None:
                continue
            before = self._states.get(key)
            self._states[key] = state
            if before is not None and before != state:
                self._compare(key, before, state)
        if now_ns() - self._asked_ns >= _ASKED_EVERY_NS:
            self._asked_ns = now_ns()
            self._look_at_topic()

    def _note_silence(self, broker: int, reason: str) -> None:
        """A broker that was killed may come back with an expired certificate: each new reason is a mark."""
        text = f"{broker_name(broker)} does not answer: {reason}"
        if broker not in self._silent:
            self._silent[broker] = {reason}
            self.mark("broker-silent", text, broker=broker)
        elif reason not in self._silent[broker]:
            self._silent[broker].add(reason)
            self.journal.mark("still-silent", text, broker=broker)

    def as_json(self) -> Mapping[str, int]:
        """How often each kind of event was seen, also those that were not."""
        return {name: self.counts[name] for name in get_args(SeenEvent)}

    def _look_at_topic(self) -> None:
        answering = [broker for broker in self.brokers if broker not in self._silent]
        stated = {broker: ids for broker in answering if (ids := self.ask_ids(broker)) is not None}
        was_gone = self.incarnations.gone
        text = self.incarnations.look(stated, len(self.brokers))
        if was_gone and not self.incarnations.gone:
            self._back_ns = now_ns()
        if text:
            self._note_deletion(next(iter(stated)), text, now_ns(), known=was_gone)
        elif not self.incarnations.ids and not self.incarnations.gone:
            self._look_at_leaders()

    def _look_at_leaders(self) -> None:
        """Before Kafka 2.8, look whether the leaders' logs are those of another topic of the same name."""
        for key in self.partitions:
            for broker in self.brokers:
                view = self.views.latest(broker_name(broker), "partition", key)
                offsets = self.watermarks(broker, key)
                if broker in self._silent or view is None or view.state is None or offsets is None:
                    continue
                if view.state.leader != broker or view.state.leader_epoch is None:
                    continue
                log = LedLog(view.state.leader_epoch, *offsets)
                since_ns = self.incarnations.look_at_leader(broker, key, log, now_ns())
                if since_ns is None:
                    continue
                if since_ns > self._back_ns + _BACK_NS:
                    text = f"the log of {key} on its leader, {broker_name(broker)}, began anew"
                    self._note_deletion(broker, text, since_ns, known=False)
                return

    def _note_deletion(self, broker: int, text: str, ns: int, *, known: bool) -> None:
        topic, host = self.incarnations.topic, broker_name(broker)
        self.journal.write("log_events", ns=ns, host=host, kind="topic_deleted", topic=topic, text=text)
        if not known:
            self.mark("topic-deleted", text, topic=topic)

    def _compare(self, key: TopicPartition, before: PartitionState, state: PartitionState) -> None:
        where = key._asdict()
        if state.leader not in (before.leader, NO_LEADER):
            text = f"{broker_name(state.leader)} leads {key} in epoch {state.leader_epoch}"
            facts = {"leader": state.leader, "before": before.leader, "epoch": state.leader_epoch}
            self.mark("leader-changed", text, **where, **facts)
        elif state.leader != before.leader:
            self.mark("no-leader", f"{key} has no leader", **where, before=before.leader)
        gone = sorted(set(before.isr) - set(state.isr))
        if gone:
            text = f"the ISR of {key} is {list(state.isr)}"
            self.mark("isr-shrunk", text, **where, isr=list(state.isr), gone=gone)
        elif state.isr_is_full and not before.isr_is_full:
            self.journal.mark("isr-full", f"the ISR of {key} is complete", **where, isr=list(state.isr))

    def mark(self, event: SeenEvent, text: str, **facts: object) -> None:
        """Count an event, and write it into the journal."""
        self.counts[event] += 1
        self.journal.mark(event, text, **facts)


def seen_in(journals: Iterable[Path]) -> Counter[str]:
    """How often each kind of event was seen, also those that were not, by the journals of some processes."""
    counts = Counter[str](dict.fromkeys(get_args(SeenEvent), 0))
    for journal in journals:
        marks = (json_object(line, str(journal)) for table, line in lines_of(journal) if table == "marks")
        counts.update(str(row["name"]) for row in marks if row.get("name") in counts)
    return counts
