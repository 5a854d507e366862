"""Sentences about share groups (KIP-932): what members were handed, and how they acknowledged it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from checkers.claims.builders.sql import (
    FINAL,
    answer,
    counted,
    effective,
    is_in,
    listed,
    mark,
    sentence,
    sql_texts,
    window,
)


@dataclass(frozen=True)
class SharedRecords:
    """Records of a topic in the hands of a share group."""

    group: str
    """The share group."""
    topic: str
    """The topic."""

    @sentence("sends", "shares")
    def are_settled(self, *, after: str = "", before: str = "", at_least: int = 1, once: bool = False) -> str:
        """Members accepted or rejected each of at least ``at_least`` acknowledged messages of the topic.

        What a broker carried out counts, and what it may have carried out, because it gave no answer that
        excludes it. With ``once``, it carried out exactly one for each message. Marks limit it to messages
        that were acknowledged after the first, and to what happened until the second.
        """
        settled = "count_if(done <> 1)" if once else "count_if(done = 0 AND maybe = 0)"
        return answer(
            f"CASE WHEN count(*) >= {at_least} AND {FINAL} THEN {settled} = 0 END",
            "concat(count(*), ' messages, ', count_if(done = 0 AND maybe = 0), ' neither accepted nor "
            "rejected, ', count_if(done = 0 AND maybe > 0), ' perhaps, ', count_if(done > 1), "
            "' more than once')",
            f"({self._settled(after, before)})",
        )

    def _settled(self, after: str, before: str) -> str:
        """One row for each acknowledged message: how often it was settled, for sure (`done`) or perhaps."""
        asked = (
            "SELECT partition, offset, count_if(event = 'answered' AND error = 0) AS done, "
            "count_if(event = 'acknowledged') - count_if(event = 'answered' AND error IN (0, 121)) AS maybe "
            f"FROM shares WHERE {self._own} AND answer IN ('accept', 'reject'){window('', before)} "
            "GROUP BY partition, offset"
        )
        since = f" AND done_ns > {mark(after)}" if after else ""
        until = f" AND done_ns <= {mark(before)}" if before else ""
        return (
            "SELECT coalesce(done, 0) AS done, coalesce(maybe, 0) AS maybe FROM sends LEFT JOIN "
            f"({asked}) a ON sends.partition = a.partition AND sends.offset = a.offset "
            f"WHERE sends.topic = '{self.topic}' AND outcome = 'ok'{since}{until}"
        )

    @sentence("shares")
    def are_handed_on(
        self,
        *,
        by: str,
        to: tuple[str, ...],
        after: str,
        before: str,
        at_least: int = 1,
        counted: Literal["on", "anew"] = "on",
        not_within_s: float = 0.0,
    ) -> str:
        """What one member was handed before a mark, and did not acknowledge, others are handed until another.

        It is at least ``at_least`` records. Their delivery counts go `on`, or begin `anew`. The first one is
        handed on no sooner than ``not_within_s`` after the first mark.
        """
        kept = (
            f"SELECT partition, offset, max(delivery_count) AS had FROM shares WHERE {self._own} "
            f"AND member = '{by}' AND event IN ('acquired', 'acknowledged'){window('', after)} "
            "GROUP BY partition, offset HAVING count_if(event = 'acknowledged') = 0"
        )
        handed = (
            f"SELECT partition, offset, min(ns) AS ns, min_by(delivery_count, ns) AS count FROM shares "
            f"WHERE {self._own} AND event = 'acquired' AND member IN ({sql_texts(to)})"
            f"{window(after, before)} GROUP BY partition, offset"
        )
        right = "count = had + 1" if counted == "on" else "count = 1"
        late = f" AND min(ns) >= {effective(after)} + {int(not_within_s * 1e9)}" if not_within_s else ""
        return answer(
            f"CASE WHEN count(*) >= {at_least} THEN count(ns) = count(*) AND count_if({right}) = count(*)"
            f"{late} END",
            "concat(count(ns), ' of ', count(*), ' records handed on, delivery counts ', "
            f"{listed('count')}, ', the first after ', round((min(ns) - {effective(after)}) / 1e9, 1), ' s')",
            f"(SELECT ns, had, count FROM ({kept}) k LEFT JOIN ({handed}) h "
            "ON k.partition = h.partition AND k.offset = h.offset)",
        )

    @sentence("shares")
    def late_answers(self, *errors: int, by: str, since: str, after: str, before: str) -> str:
        """A member acknowledges what it had before a mark between two others, and gets one of these errors.

        ``since`` is the mark before which it was handed the records. Of several acknowledgements of a record
        in that time, the first counts: the record may have been handed out again.
        """
        had = (
            f"SELECT DISTINCT partition, offset FROM shares WHERE {self._own} AND member = '{by}' "
            f"AND event = 'acquired'{window('', since)}"
        )
        asked = (
            f"SELECT partition, offset, min_by(error, asked_ns) AS error FROM shares WHERE {self._own} "
            f"AND member = '{by}' AND event = 'answered' AND asked_ns > {mark(after)} "
            f"AND asked_ns <= {mark(before)} GROUP BY partition, offset"
        )
        return answer(
            f"CASE WHEN count(*) > 0 THEN count_if({is_in('error', errors)}) = count(*) END",
            f"concat({counted('acknowledgement')}, ': error ', {listed('error')})",
            f"(SELECT a.error FROM ({asked}) a JOIN ({had}) h "
            "ON a.partition = h.partition AND a.offset = h.offset)",
        )

    @sentence("shares")
    def wait(self, *, after: str, before: str, by: str = "", at_least: int = 1) -> str:
        """Between two marks, members or one acknowledge at least ``at_least`` records; none is confirmed."""
        member = f" AND member = '{by}'" if by else ""
        return answer(
            f"CASE WHEN asked >= {at_least} THEN confirmed = 0 END",
            "concat(asked, ' acknowledgements, ', confirmed, ' confirmed by then')",
            "(SELECT count_if(event = 'acknowledged') AS asked, "
            "count_if(event = 'answered' AND error = 0) AS confirmed FROM shares "
            f"WHERE {self._own}{member}{window(after, before)})",
        )

    @sentence("sends", "shares")
    def none_handed(self, member: str, *, after: str, before: str) -> str:
        """A member is handed nothing between two marks, although messages were acknowledged in that time."""
        sent = (
            f"SELECT count(*) FROM sends WHERE topic = '{self.topic}' AND outcome = 'ok' "
            f"AND done_ns > {mark(after)} AND done_ns <= {mark(before)}"
        )
        return answer(
            f"CASE WHEN ({sent}) > 0 AND {FINAL} THEN count(*) = 0 END",
            f"concat(({sent}), ' messages acknowledged, ', count(*), ' records handed to {member}')",
            f"shares WHERE {self._own} AND member = '{member}' AND event = 'acquired'{window(after, before)}",
        )

    @sentence("shares")
    def come_again(self, answered: str, *, again: bool, at_least: int = 1) -> str:
        """What a member acknowledged like this, and the broker carried out, is handed out again, or never."""
        done = (
            f"SELECT partition, offset, min(asked_ns) AS asked FROM shares WHERE {self._own} "
            f"AND event = 'answered' AND answer = '{answered}' AND error = 0 GROUP BY partition, offset"
        )
        handed = (
            f"SELECT partition, offset, max(ns) AS ns FROM shares WHERE {self._own} AND event = 'acquired' "
            "GROUP BY partition, offset"
        )
        wanted = "count(*)" if again else "0"
        return answer(
            f"CASE WHEN count(*) >= {at_least} AND {FINAL} THEN count_if(ns > asked) = {wanted} END",
            "concat(count_if(ns > asked), ' of ', count(*), ' records handed out again')",
            f"(SELECT h.ns, d.asked FROM ({done}) d JOIN ({handed}) h "
            "ON d.partition = h.partition AND d.offset = h.offset)",
        )

    @property
    def _own(self) -> str:
        return f"shares.group = '{self.group}' AND shares.topic = '{self.topic}'"


def shared(group: str, topic: str) -> SharedRecords:
    """The records of a topic in the hands of a share group."""
    return SharedRecords(group, topic)
