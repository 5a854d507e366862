"""Partitions that ended with replicas out of the ISR, and why.

An ISR that a leader requests to change from an isolated controller stays as it was: the request is neither
answered nor sent again (KAFKA-12686, KAFKA-12751).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checkers.evidence import Evidence, Row
from checkers.records import Cause, evidence_row

STUCK = ("isr_change_unanswered", "isr_never_expanded")
"""Kinds of causes that say that the leader waits for an answer for ever."""
_KINDS = ("isr_shrinking", "isr_expanding", "isr_updated", "became_leader")


@dataclass(frozen=True, kw_only=True)
class IncompleteISR:
    """A partition whose replicas are not all in the ISR at the end."""

    topic: str
    partition: int
    replicas: Sequence[Row]
    """Its rows of `replicas`."""
    cause: Cause | None
    """Of a kind of `STUCK`, or not known."""

    @property
    def outside(self) -> list[int]:
        """The brokers that are not in the ISR."""
        return [int(row["broker"]) for row in self.replicas if row["in_sync"] is False]


def incomplete_isrs(evidence: Evidence) -> Iterator[IncompleteISR]:
    """By topic and partition. Leaves out a partition with a replica that was not read to its end."""
    partitions: dict[tuple[str, int], list[Row]] = {}
    for row in evidence.rows("replicas"):
        partitions.setdefault((row["topic"], row["partition"]), []).append(row)
    for (topic, partition), rows in sorted(partitions.items()):
        outside = sum(row["in_sync"] is False for row in rows)
        if len(rows) > 1 and 0 < outside < len(rows) and all(row["complete"] for row in rows):
            cause = _cause(evidence, topic, partition, rows)
            yield IncompleteISR(topic=topic, partition=partition, replicas=rows, cause=cause)


def _cause(evidence: Evidence, topic: str, partition: int, replicas: Sequence[Row]) -> Cause | None:
    """The cause, with the row of the leader's log that shows it.

    The leader began to change the ISR, and the change never took effect; or it has not changed the ISR since
    it was elected, although the logs are equal, so that each fetch of a follower makes it ask for a larger
    one. (2.7 logs only that an ISR begins to shrink, not that it begins to expand.)
    """
    leader = next((row["broker"] for row in replicas if row["leader"]), None)
    events = [
        row
        for row in evidence.rows("log_events")
        if row["host"] == f"broker{leader}"
        and (row["topic"], row["partition"]) == (topic, partition)
        and row["kind"] in _KINDS
    ]
    newest = max((int(row["ns"]) for row in events), default=0)
    kinds = {row["kind"] for row in events if row["ns"] == newest}
    if len(kinds) != 1 or "isr_updated" in kinds:  # Logs have milliseconds, so that events can coincide.
        return None
    last = next(row for row in events if row["ns"] == newest)
    ground = evidence_row("log_events", last["ns"], f"{last['host']} {last['kind']}; no isr_updated followed")
    if last["kind"] != "became_leader":
        return Cause(kind="isr_change_unanswered", rows=(ground,))
    equal = len({row["leo"] for row in replicas}) == 1
    return Cause(kind="isr_never_expanded", rows=(ground,)) if equal else None
