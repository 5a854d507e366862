"""Sentences about the controllers of a KRaft quorum, one by one, and about its elections."""

from __future__ import annotations

from dataclasses import dataclass

from checkers.claims.builders.sql import (
    FRESH_NS,
    answer,
    followed,
    in_time,
    mark,
    sentence,
    settled,
    text_of,
    times,
    window,
)
from checkers.claims.subject import ClaimSubject


@dataclass(frozen=True)
class Controller:
    """A KRaft controller with a host of its own."""

    number: int
    """The number in its host's name."""

    @property
    def subject(self) -> ClaimSubject:
        """What sentences about it are about."""
        return ClaimSubject(hosts=(self.host,))

    @property
    def host(self) -> str:
        """Its host."""
        return f"controller{self.number}"

    @sentence("views")
    def leads(self, *, at: str) -> str:
        """At a mark it names itself as the quorum's leader, and was followed until then."""
        return settled(
            self.host,
            at,
            lambda time: answer(
                f"CASE WHEN {self._followed(at)} "
                f"THEN leader IN ({self.number + 10}, {self.number + 100}) AND NOT silent END",
                f"concat('{self.host} names leader ', {text_of('leader')}, ' in epoch ', {text_of('epoch')}, "
                f"if(silent, ', and does not answer', ''))",
                f"(SELECT max_by(controller, ns) FILTER (WHERE subject = 'controller') AS leader, "
                f"max_by(epoch, ns) FILTER (WHERE subject = 'controller') AS epoch, "
                f"coalesce(max_by(error IS NOT NULL, ns) FILTER (WHERE subject = 'reachable'), false) "
                f"AS silent FROM views WHERE source = '{self.host}' AND ns <= {time(at)})",
            ),
        )

    @sentence("views")
    def epoch_rises(self, *, at_least: int = 1, since: str, until: str) -> str:
        """Between two marks its own epoch rises by at least ``at_least``, with a leader or without one."""
        return self._epochs(since, until, f"later >= earlier + {at_least}", "true", "false")

    @sentence("views")
    def epoch_stays(self, *, since: str, until: str) -> str:
        """Between two marks its own epoch stays, and it was followed until the second."""
        return self._epochs(since, until, "later > earlier", "false", "true")

    @sentence("log_events")
    def resigned(self, *, after: str, before: str) -> str:
        """Between two marks it logged that it gave up leading, because no majority fetched from it."""
        return self._resigned("true", "false", after, before)

    @sentence("log_events", "machine")
    def resigns(self, *, after: str, within_s: float, not_within_s: float = 0.0) -> str:
        """It logs that it resigns within ``within_s`` after a mark, and not within ``not_within_s``.

        False only if its log was followed until then.
        """
        event = (
            f"SELECT min(ns) AS moment, cast(NULL AS bigint) AS asked FROM log_events "
            f"WHERE host = '{self.host}' AND kind = 'resigned'{window(after, '')}"
        )
        in_its_log = in_time(
            event,
            after=after,
            within_s=within_s,
            not_within_s=not_within_s,
            happened=f"{self.host} resigned ",
            never=f"{self.host} never resigned",
        )
        read = f"{{log:{self.host}}} >= {mark(after)} + {int(within_s * 1e9)}"
        return answer(f"CASE WHEN holds OR {read} THEN holds END", "observed", f"({in_its_log})")

    @sentence("log_events")
    def never_resigned(self, *, after: str, before: str) -> str:
        """Between two marks it did not log that it resigned, and its log was followed to the second."""
        return self._resigned("false", "true", after, before)

    def _resigned(self, then: str, otherwise: str, after: str, before: str) -> str:
        return answer(
            f"CASE WHEN count(*) > 0 THEN {then} "
            f"WHEN {followed(self.host, before=before)} THEN {otherwise} END",
            f"concat('{self.host} resigned ', {times()})",
            f"log_events WHERE host = '{self.host}' AND kind = 'resigned'{window(after, before)}",
        )

    def _followed(self, at: str) -> str:
        return f"{{heard:{self.host}}} >= {mark(at)} - {FRESH_NS}"

    def _epochs(self, since: str, until: str, seen: str, then: str, otherwise: str) -> str:
        return settled(
            self.host,
            until,
            lambda time: answer(
                f"CASE WHEN {seen} THEN {then} "
                f"WHEN earlier IS NOT NULL AND {self._followed(until)} THEN {otherwise} END",
                f"concat('{self.host} in epoch ', {text_of('earlier')}, "
                f"if(later = earlier, ' both times', concat(', then ', {text_of('later')})))",
                f"(SELECT max(epoch) AS later, max(epoch) FILTER (WHERE ns <= {time(since)}) AS earlier "
                f"FROM views WHERE source = '{self.host}' AND subject = 'controller' "
                f"AND ns <= {time(until)})",
            ),
        )


def quorum_controller(number: int) -> Controller:
    """A controller of a KRaft quorum by the number of its AZ."""
    return Controller(number)


@sentence("controllers", "machine")
def quorum_elects(*, after: str, within_s: float, not_within_s: float = 0.0) -> str:
    """A leader of a higher epoch is named within ``within_s`` after a mark, not within ``not_within_s``."""
    return in_time(
        f"SELECT min(c.ns) AS moment, min_by(c.asked_ns, c.ns) AS asked FROM controllers c CROSS JOIN "
        f"(SELECT max(epoch) AS known FROM controllers WHERE ns <= {mark(after)}) b "
        f"WHERE c.ns > {mark(after)} AND c.epoch > b.known",
        after=after,
        within_s=within_s,
        not_within_s=not_within_s,
        happened="a leader of a higher epoch ",
        never="no leader of a higher epoch",
    )
