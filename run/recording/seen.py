"""What the observer sees to break by itself: a broker that falls silent, a new leader, an incomplete ISR.

Each becomes a mark. Of a cluster that somebody else breaks, these are all the proof there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from checkers.verdict import SeenEvent
from harness.history.journal import Journal
from harness.kafka.model import NO_LEADER, PartitionState, TopicPartition, broker_name
from harness.observer.views import Views


@dataclass(kw_only=True)
class Seen:
    """Marks of what has changed since the last look. Pure bookkeeping but for the journal."""

    views: Views
    journal: Journal
    brokers: Sequence[int]
    """Node ids of those that have replicas."""
    partitions: Sequence[TopicPartition]
    counts: Counter[SeenEvent] = field(default_factory=Counter)
    """How often each event was seen."""
    _silent: set[int] = field(default_factory=set)
    _states: dict[TopicPartition, PartitionState] = field(default_factory=dict)

    def look(self) -> None:
        """Compare what every broker states with what it stated before."""
        for broker in self.brokers:
            view = self.views.latest(broker_name(broker), "reachable")
            silent = view is not None and view.error is not None
            if silent and broker not in self._silent:
                self._silent.add(broker)
                self._mark("broker-silent", f"{broker_name(broker)} does not answer", broker=broker)
            elif not silent and broker in self._silent:
                self._silent.discard(broker)
                self.journal.mark("broker-answers", f"{broker_name(broker)} answers again", broker=broker)
        for key in self.partitions:
            state = self.views.of("broker").partition(*key)
            if state is None:
                continue
            before = self._states.get(key)
            self._states[key] = state
            if before is not None and before != state:
                self._compare(key, before, state)

    def as_json(self) -> Mapping[str, int]:
        """How often each kind of event was seen, also those that were not."""
        return {name: self.counts[name] for name in get_args(SeenEvent)}

    def _compare(self, key: TopicPartition, before: PartitionState, state: PartitionState) -> None:
        where = key._asdict()
        if state.leader not in (before.leader, NO_LEADER):
            text = f"{broker_name(state.leader)} leads {key} in epoch {state.leader_epoch}"
            facts = {"leader": state.leader, "before": before.leader, "epoch": state.leader_epoch}
            self._mark("leader-changed", text, **where, **facts)
        elif state.leader != before.leader:
            self._mark("no-leader", f"{key} has no leader", **where, before=before.leader)
        gone = sorted(set(before.isr) - set(state.isr))
        if gone:
            text = f"the ISR of {key} is {list(state.isr)}"
            self._mark("isr-shrunk", text, **where, isr=list(state.isr), gone=gone)
        elif state.isr_is_full and not before.isr_is_full:
            self.journal.mark("isr-full", f"the ISR of {key} is complete", **where, isr=list(state.isr))

    def _mark(self, event: SeenEvent, text: str, **facts: object) -> None:
        self.counts[event] += 1
        self.journal.mark(event, text, **facts)
