"""Sentences about what readers received, in which order."""

from __future__ import annotations

from dataclasses import dataclass

from checkers.claims.builders.sql import answer, mark, sentence
from checkers.claims.subject import ClaimSubject


@dataclass(frozen=True)
class Reads:
    """What the readers without a group received of one topic partition."""

    topic: str
    """Name of the topic."""
    partition: int = 0
    """Number of the partition."""

    @property
    def subject(self) -> ClaimSubject:
        """What sentences about it are about."""
        return ClaimSubject(partitions=(f"{self.topic}/{self.partition}",))

    def _steps(self) -> str:
        """Query: each read with the offset that the same reader had received before it."""
        return (
            "(SELECT reader, ns, offset, "
            "lag(offset) OVER (PARTITION BY reader ORDER BY ns, offset) AS before "
            f"FROM reads WHERE topic = '{self.topic}' AND partition = {self.partition} AND `group` IS NULL)"
        )

    @sentence("reads")
    def receive(self, offset: int, *, after: str, before: str) -> str:
        """Between two marks, every reader of the partition receives this offset."""
        return answer(
            f"CASE WHEN count(DISTINCT reader) > 0 THEN count(DISTINCT if(offset = {offset} "
            f"AND ns > {mark(after)} AND ns <= {mark(before)}, reader, null)) = count(DISTINCT reader) END",
            f"concat('offset {offset} was received by ', count(DISTINCT if(offset = {offset} "
            f"AND ns > {mark(after)} AND ns <= {mark(before)}, reader, null)), ' of ', "
            "count(DISTINCT reader), ' readers')",
            f"reads WHERE topic = '{self.topic}' AND partition = {self.partition} AND `group` IS NULL "
            f"AND ns <= {mark(before)}",
        )

    @sentence("reads")
    def go_back(self, *, to: int, after: str, before: str) -> str:
        """Between two marks, a reader that had read further receives the offset ``to``."""
        back = f"offset <= before AND ns > {mark(after)} AND ns <= {mark(before)}"
        return answer(
            f"CASE WHEN count_if(ns > {mark(after)}) > 0 THEN count_if({back} AND offset = {to}) > 0 END",
            f"coalesce(concat('from offset ', max(if({back}, before, null)), ' back to ', "
            f"min(if({back}, offset, null))), 'no step back')",
            self._steps(),
        )

    @sentence("reads")
    def stay_in_order(self, *, after: str, until: str, at_least: int = 1) -> str:
        """From one mark on, no reader that had read before receives an offset at or below its last one.

        Unknown unless each of them received ``at_least`` records after the second mark: a reader that
        receives nothing more shows no order.
        """
        readers = (
            f"(SELECT reader, count_if(ns > {mark(until)}) AS late, count_if(ns > {mark(after)} "
            f"AND offset <= before) AS back FROM {self._steps()} GROUP BY reader "
            f"HAVING count_if(ns <= {mark(after)}) > 0)"
        )
        return answer(
            f"CASE WHEN sum(back) > 0 THEN false WHEN min(late) >= {at_least} THEN true END",
            f"concat(count(*), ' reader(s), ', coalesce(sum(back), 0), ' step(s) back, ', "
            f"coalesce(min(late), 0), ' record(s) after {until}')",
            readers,
        )


def reads(topic: str, partition: int = 0) -> Reads:
    """What readers that were assigned a topic partition received of it."""
    return Reads(topic, partition)
