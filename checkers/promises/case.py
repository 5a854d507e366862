"""A finding together with what the facts say about its message, its partition and its time.

`FindingContext` answers what several conditions of the promise table need; `checkers.promises.conditions`
asks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from checkers.evidence import DATA_LOSS, FaultSpan, Row, broker_of
from checkers.promises.facts import IsrState, Message, RunFacts
from harness.errors import BadDataError, json_object


class IsrOutage(NamedTuple):
    """A time at which all replicas of the ISR were down."""

    isr: tuple[int, ...]
    damaged: tuple[str, ...]
    """Faults that took data from one of them, from the acknowledgement on."""
    flushed: bool
    """A power loss hit them but took nothing, because they flush every message."""
    flush_unknown: bool


def went_ahead(finding: Mapping[str, Any]) -> bool:
    """Whether a member that was reset continued above its position, so that the log began there."""
    position, first = finding["offset"], finding["found_offset"]
    return position is not None and first is not None and first > position


@dataclass(frozen=True)
class FindingContext:
    """A finding and the facts about its run."""

    finding: Mapping[str, Any]
    facts: RunFacts

    @property
    def topic(self) -> str:
        """Topic of the finding, empty for a finding about the run."""
        return str(self.finding["topic"] or "")

    @property
    def partition(self) -> int:
        """Partition of the finding, -1 for a finding about the run."""
        return -1 if self.finding["partition"] is None else int(self.finding["partition"])

    @property
    def where(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition

    @cached_property
    def since(self) -> int:
        """From when on Kafka had to keep the message: its acknowledgement, or the beginning of the run."""
        acked = self.finding["acked_ns"]
        return 0 if acked is None else int(acked)

    @cached_property
    def writer(self) -> Row | None:
        """The producer of the message."""
        number = self.finding["writer"]
        return None if number is None else self.facts.writers.get(int(number))

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The producer's configuration."""
        try:
            return json_object((self.writer or {}).get("config") or "{}", "config of writers")
        except BadDataError:
            return {}

    @cached_property
    def message(self) -> Message | None:
        """The message, if it was looked up."""
        writer, seq = self.finding["writer"], self.finding["seq"]
        return None if writer is None or seq is None else self.facts.messages.get((int(writer), int(seq)))

    @property
    def cause(self) -> str:
        """The kind of the cause that the checker attributed (`checkers.records.CAUSES`); empty: none."""
        return str(self.finding["cause"] or "")

    @cached_property
    def cause_facts(self) -> Mapping[str, Any]:
        """The facts of the cause."""
        return json_object(self.finding["cause_facts"] or "{}", "cause_facts of findings")

    @cached_property
    def detail(self) -> Mapping[str, Any]:
        """The details of the finding."""
        return json_object(self.finding["detail"] or "{}", "detail of findings")

    def hits(self, mechanisms: tuple[str, ...], brokers: tuple[int, ...] | None = None) -> list[FaultSpan]:
        """Faults of these mechanisms that hit this partition on one of the brokers (None: on any).

        Faults that somebody only stated are left out: they prove nothing.
        """
        name = f"{self.topic}/{self.partition}"
        return [
            fault
            for fault in self.facts.faults
            if fault.mechanism in mechanisms
            and not fault.stated
            and fault.until_ns >= self.since
            and (not fault.partitions or name in fault.partitions)
            and (
                brokers is None or not fault.hosts or any(broker_of(host) in brokers for host in fault.hosts)
            )
        ]

    @cached_property
    def flushes(self) -> bool | None:
        """Whether the topic's replicas sync every message; None if the configuration is not recorded."""
        value = self.facts.topic_config(self.topic, "flush.messages", "log.flush.interval.messages")
        return None if value is None else value == "1"

    @cached_property
    def gone(self) -> IsrOutage | None:
        """When all in-sync replicas were out of service; the worst such time, None if there was none.

        Needs the partition's states.
        """
        facts = self.facts
        states = facts.states.get(self.where, ())
        times = {state.ns for state in states if state.ns >= self.since} | {self.since}
        times |= set(facts.ends_of_processes(self.since))
        silent = (span.from_ns for spans in facts.silent.values() for span in spans)
        times |= {ns for ns in silent if ns >= self.since}
        worst: IsrOutage | None = None
        for ns in sorted(times):
            isr = self._isr_at(ns)
            if not isr or not all(facts.is_out_of_service(broker, ns) for broker in isr):
                continue
            hits = [fault for fault in self.hits(DATA_LOSS, isr) if fault.from_ns >= self.since]
            counted = [f for f in hits if f.mechanism != "power_cut" or not self.flushes]
            gone = IsrOutage(
                isr=isr,
                damaged=tuple(dict.fromkeys(fault.name for fault in counted)),
                flushed=bool(self.flushes) and any(f.mechanism == "power_cut" for f in hits),
                flush_unknown=self.flushes is None
                and bool(hits)
                and all(f.mechanism == "power_cut" for f in hits),
            )
            if worst is None or (gone.damaged and not worst.damaged):
                worst = gone
        return worst

    def _isr_at(self, ns: int) -> tuple[int, ...]:
        """The ISR at a time. If it is empty (eligible leader replicas), its last members count."""
        isr: tuple[int, ...] = ()
        for state in self.facts.states.get(self.where, ()):
            if state.ns > ns and isr:
                break
            isr = state.isr or isr
        return isr

    @cached_property
    def elections(self) -> list[tuple[IsrState, IsrState]]:
        """Elections from the acknowledgement on: the state before, and the state with the new leader."""
        before = self.facts.state_at(*self.where, self.since)
        elections: list[tuple[IsrState, IsrState]] = []
        if before is None:
            return elections
        for state in self.facts.later_states(*self.where, self.since):
            if state.epoch > before.epoch and state.leader >= 0:
                elections.append((before, state))
            before = state
        return elections
