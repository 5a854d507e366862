"""Sentences about messages: who sent them, how they were answered, where they ended up."""

from __future__ import annotations

from dataclasses import dataclass

from checkers.claims.builders.sql import (
    FINAL,
    REPLICAS,
    WHOLE,
    answer,
    array_of,
    brokers_of,
    counted,
    is_in,
    like_any,
    listed,
    mark,
    sentence,
    sql_texts,
    text_of,
    window,
)
from checkers.claims.subject import NO_SUBJECT, ClaimSubject, TimeBound, merged, subject_of
from checkers.partition.fate import LOSSES, LOST


@dataclass(frozen=True)
class Messages:
    """Messages that somebody sent, and what became of them."""

    where: str
    """SQL condition on `life`."""
    subject: ClaimSubject = NO_SUBJECT
    """What sentences about them are about."""

    @sentence("life")
    def acknowledged(self, *, at_least: int = 1) -> str:
        """Every one was acknowledged."""
        return self._all("outcome = 'ok'", "acknowledged", at_least)

    @sentence("life")
    def not_acknowledged(self, *, at_least: int = 1) -> str:
        """None was acknowledged: refused, or never answered."""
        return self._all("coalesce(outcome, 'info') != 'ok'", "not acknowledged", at_least)

    @sentence("life")
    def refused_with(self, *errors: int, at_least: int = 1) -> str:
        """Every one was answered with one of these error codes."""
        codes = ", ".join(map(str, errors))
        return answer(
            f"CASE WHEN count(*) >= {at_least} THEN count_if(error IN ({codes})) = count(*) END",
            f"concat({counted('message')}, ', error code ', {listed('error')})",
            f"life WHERE {self.where}",
        )

    @sentence("life")
    def answered_by(self, *brokers: int, at_least: int = 1) -> str:
        """The last answer to each came from one of these brokers. Unknown where the client does not say."""
        numbers = ", ".join(map(str, brokers))
        by = brokers_of("sort_array(collect_set(broker))")
        return answer(
            f"CASE WHEN count(broker) = count(*) AND count(*) >= {at_least} "
            f"THEN count_if(broker IN ({numbers})) = count(*) END",
            f"concat({counted('message')}, ', answered by ', {by})",
            f"life WHERE {self.where}",
        )

    @sentence("life")
    def failed(self, *, at_least: int = 1) -> str:
        """Every one definitely failed: the answer was an error after which nothing was written."""
        return self._all("outcome = 'fail'", "failed", at_least)

    @sentence("life")
    def unanswered(self, *, at_least: int = 1) -> str:
        """No one was answered: the client gave up, or lost its connection."""
        return self._all("coalesce(outcome, 'info') = 'info' AND error < 0", "not answered", at_least)

    @sentence("life")
    def kept(self, *, at_least: int = 1) -> str:
        """Every one was acknowledged, is in the final log at the acknowledged offset, and was not aborted.

        Readers of committed messages do not get aborted ones; ``became("kept")`` counts these as well.
        """
        aborted = "fate = 'kept' AND state IS NOT DISTINCT FROM 'aborted'"
        kept = "fate = 'kept' AND state IS DISTINCT FROM 'aborted'"
        return answer(
            f"CASE WHEN count(*) >= {at_least} AND {FINAL} THEN count_if({kept}) = count(*) END",
            f"concat(count_if({kept}), ' of ', count(*), ' messages kept', if(count_if({aborted}) > 0, "
            f"concat('; ', count_if({aborted}), ' in the log, but aborted'), ''))",
            f"life WHERE {self.where}",
        )

    @sentence("life")
    def acknowledged_then_lost(self, *, at_least: int = 1) -> str:
        """Some were acknowledged, and none of those is in the final log."""
        return Messages(f"({self.where}) AND outcome = 'ok'").became(*LOST, at_least=at_least)

    @sentence("life")
    def became(self, *fates: str, at_least: int = 1) -> str:
        """Every one has one of these fates (`docs/findings.md`), by logs that were read to their end."""
        # `kept` says of aborted messages only that they are in the log.
        words = ("in the log" if name == "kept" else name.replace("_", " ") for name in fates)
        named = "lost" if fates == LOST else " or ".join(words)
        return self._all(f"fate IN ({sql_texts(fates)})", named, at_least, given=FINAL)

    @sentence("life")
    def none_lost(self, *, at_risk_after: str, at_least: int = 1) -> str:
        """No acknowledged one is gone, and enough of them were sent after the mark that put them at risk."""
        lost = f"fate IN ({sql_texts(LOSSES)})"
        at_risk = f"count_if(sent_ns >= {mark(at_risk_after)})"
        return answer(
            f"CASE WHEN count_if({lost}) > 0 THEN false WHEN {FINAL} AND {at_risk} >= {at_least} "
            f"AND count_if(fate = 'undetermined') = 0 THEN true END",
            f"concat(count_if({lost}), ' of ', count(*), ' acknowledged messages lost; ', {at_risk}, "
            f"' of them sent after {at_risk_after}')",
            f"life WHERE ({self.where}) AND outcome = 'ok'",
        )

    @sentence("life", "copies")
    def in_final_log(self, *, copies: int, at_least: int = 1) -> str:
        """Every one is at exactly ``copies`` offsets of the final log."""
        return self._found(f"count(DISTINCT r.offset) = {copies}", "copies", "", FINAL, at_least)

    @sentence("life", "copies", "replicas")
    def held_by(self, *brokers: int, at_least: int = 1) -> str:
        """In the final logs every one is on exactly these brokers; if none is named, on no broker."""
        holders = array_of(brokers) if brokers else "cast(array() AS array<int>)"
        return answer(
            f"CASE WHEN {WHOLE} AND count(*) >= {at_least} THEN count_if(held = {holders}) = count(*) END",
            f"concat({counted('message')}, ' on ', {listed(brokers_of('held'))})",
            f"(SELECT m.writer, m.seq, sort_array(collect_set(c.broker)) AS held "
            f"FROM (SELECT * FROM life WHERE {self.where}) m LEFT JOIN copies c ON c.writer = m.writer "
            f"AND c.seq = m.seq AND c.topic = m.topic GROUP BY m.writer, m.seq) CROSS JOIN {REPLICAS}",
        )

    @sentence("life", "sightings")
    def seen_on(self, *brokers: int, copies: int = 1, until: str, at_least: int = 1) -> str:
        """Up to a mark every one was seen at exactly ``copies`` offsets of each of these brokers' logs."""
        condition = " AND ".join(
            f"count(DISTINCT CASE WHEN r.broker = {number} THEN r.offset END) = {copies}"
            for number in brokers
        )
        return self._found(condition, "sightings", f"seen_ns <= {mark(until)}", "true", at_least, on=brokers)

    @sentence("life", "sightings")
    def still_on(self, *brokers: int, at: str, at_least: int = 1) -> str:
        """At a mark every one is in the log of each of these brokers, which were followed after it."""
        condition = " AND ".join(f"count_if(r.broker = {number}) > 0" for number in brokers)
        followed = " AND ".join(f"{{tailed:broker{number}}} >= {mark(at)}" for number in brokers)
        there = f"seen_ns <= {mark(at)} AND coalesce(gone_ns > {mark(at)}, true)"
        return self._found(condition, "sightings", there, followed, at_least, on=brokers)

    @sentence("life", "sightings")
    def not_seen_on(self, number: int, *, until: str, at_least: int = 1) -> str:
        """Up to a mark none was seen on this broker, whose replicas were followed until after the mark."""
        return self._found(
            "count(r.offset) = 0",
            "sightings",
            f"broker = {number} AND seen_ns <= {mark(until)}",
            f"{{tailed:broker{number}}} >= {mark(until)}",
            at_least,
            on=(number,),
        )

    @sentence("life", "reads", "groups")
    def consumed(self, *, since: str = "", until: str, at_least: int = 1, readers: int = 1) -> str:
        """Between two marks at least ``readers`` consumers received every one.

        Unknown if nobody received anything meanwhile, unless a consumer of the topic recorded something
        before ``since`` and after ``until``: it lived all the time and received nothing. The history does not
        say in which AZ a consumer runs: count those that the scenario starts meanwhile.
        """
        limit = f"true{window(since, until)}"
        anybody = f" CROSS JOIN (SELECT count(*) AS received FROM reads WHERE {limit})"
        condition, given = f"count(DISTINCT r.reader) >= {readers}", "max(received) > 0"
        if since:
            rows = " UNION ALL ".join(
                f"SELECT reader, topic, ns FROM {table}" for table in ("reads", "groups")
            )
            lived = (
                f"SELECT reader FROM ({rows}) s WHERE topic IN (SELECT topic FROM life WHERE {self.where}) "
                f"GROUP BY reader HAVING {mark(since)} >= min(ns) AND {mark(until)} < max(ns)"
            )
            anybody += f" CROSS JOIN (SELECT count(*) AS waiting FROM ({lived}) l)"
            given = "max(received) + max(waiting) > 0"
        return self._found(condition, "reads", limit, given, at_least, beside=anybody, by_reader=readers > 1)

    @sentence("life", "reads")
    def not_consumed(self, *, beside: Messages, until: str, at_least: int = 1) -> str:
        """Up to a mark consumers received none of them, but every one of ``beside``."""
        read = f"SELECT DISTINCT writer, seq, topic FROM reads WHERE ns <= {mark(until)}"
        count = "count(*) AS many, count(r.writer) AS found"
        on = "r.writer = m.writer AND r.seq = m.seq AND r.topic = m.topic"

        def counts(where: str) -> str:
            return f"(SELECT {count} FROM (SELECT * FROM life WHERE {where}) m LEFT JOIN ({read}) r ON {on})"

        return answer(
            f"CASE WHEN these.found > 0 THEN false WHEN these.many >= {at_least} AND others.many > 0 "
            f"AND others.found = others.many THEN true END",
            "concat(these.found, ' of ', these.many, ' messages read, and ', others.found, ' of ', "
            "others.many, ' others')",
            f"{counts(self.where)} these CROSS JOIN {counts(beside.where)} others",
        )

    @sentence("life")
    def slower_than(self, others: Messages, *, at_least: int) -> str:
        """Acknowledgements of these took longer in the median than those of others; enough of each came."""
        return answer(
            f"CASE WHEN least(these.many, others.many) >= {at_least} THEN these.p50 > others.p50 END",
            f"concat('p50 of ', these.many, ' acknowledgements ', {text_of('these.p50')}, "
            f"' ms, of ', others.many, ' others ', {text_of('others.p50')}, ' ms')",
            f"({self._latency()}) these CROSS JOIN ({others._latency()}) others",
        )

    def _latency(self) -> str:
        return (
            "SELECT count(*) AS many, round(median(done_ns - sent_ns) / 1e6, 2) AS p50 "
            f"FROM life WHERE ({self.where}) AND outcome = 'ok'"
        )

    def _all(self, condition: str, named: str, at_least: int, *, given: str = "true") -> str:
        return answer(
            f"CASE WHEN count(*) >= {at_least} AND {given} THEN count_if({condition}) = count(*) END",
            f"concat(count_if({condition}), ' of ', count(*), ' messages {named}')",
            f"life WHERE {self.where}",
        )

    def _found(
        self,
        condition: str,
        table: str,
        limit: str,
        given: str,
        at_least: int,
        *,
        on: tuple[int, ...] = (),
        beside: str = "",
        by_reader: bool = False,
    ) -> str:
        offset = f"CASE WHEN {is_in('r.broker', on)} THEN r.offset END" if on else "r.offset"
        where = f" on {', '.join(f'broker{number}' for number in on)}" if on else ""
        each, shown = ("consumers", "r.reader") if by_reader else ("copies", offset)
        rows = f"(SELECT * FROM {table} WHERE {limit})" if limit else table
        shown_found = f"', {each} of each{where}: ', {listed('found')}"
        if on and not by_reader:
            shown_found = (
                f"if(min(found) = 1 AND max(found) = 1, ', each once{where}', concat({shown_found}))"
            )
        return answer(
            f"CASE WHEN count(*) >= {at_least} AND {given} THEN count_if(fits) = count(*) END",
            f"concat({counted('message')}, {shown_found})",
            f"(SELECT m.writer, m.seq, count(DISTINCT {shown}) AS found, {condition} AS fits "
            f"FROM (SELECT * FROM life WHERE {self.where}) m "
            f"LEFT JOIN {rows} r ON r.writer = m.writer AND r.seq = m.seq GROUP BY m.writer, m.seq){beside}",
        )


def messages(
    by: str | tuple[str, ...] = "",
    *,
    topic: str | tuple[str, ...] = "",
    label: str | tuple[str, ...] = "",
    acks: int | None = None,
    az: str = "",
    role: str = "",
    after: str = "",
    before: str = "",
) -> Messages:
    """Messages by writer's name, topic and label (each may hold a `%`), sent between two marks."""
    conditions = [
        *like_any("writer_name", by),
        *like_any("topic", topic),
        *like_any("label", label),
        *([f"acks = {acks}"] if acks is not None else []),
        *([f"az = '{az}'"] if az else []),
        *([f"role = '{role}'"] if role else []),
        *([f"sent_ns >= {mark(after)}"] if after else []),
        *([f"sent_ns <= {mark(before)}"] if before else []),
    ]
    subject = ClaimSubject(
        writers=tuple(filter(None, by if isinstance(by, tuple) else (by,))),
        since=(TimeBound(after),) if after else (),
        until=(TimeBound(before),) if before else (),
    )
    return Messages(" AND ".join(conditions) or "true", subject)


def messages_where(where: str, *, of: Messages | None = None, since: str = "", until: str = "") -> Messages:
    """Messages by an SQL condition on `life`.

    ``of`` are messages that the condition restricts, and ``since`` and ``until`` marks that it names.
    """
    window = ClaimSubject(
        since=(TimeBound(since),) if since else (), until=(TimeBound(until),) if until else ()
    )
    return Messages(where, merged([subject_of(of), window]))
