"""Sentences about consumer groups: committed offsets, members and their partitions, and their output."""

from __future__ import annotations

from dataclasses import dataclass

from checkers.claims.builders.sql import (
    FINAL,
    answer,
    counted,
    effective,
    is_in,
    like_any,
    listed,
    mark,
    sentence,
    sql_texts,
    text_of,
    window,
)

_GIVEN_UP = "event IN ('revoked', 'lost')"


def _not_within(seconds: float, after: str) -> str:
    """Condition: the first row comes no sooner than ``not_within_s`` after a mark; empty for 0."""
    return f" AND min(ns) >= {effective(after)} + {int(seconds * 1e9)}" if seconds else ""


def _first(after: str) -> str:
    """How long after a mark the first row is, as parts of a text."""
    return f"', the first after ', round((min(ns) - {effective(after)}) / 1e9, 1), ' s'"


@dataclass(frozen=True)
class CommittedOffsets:
    """Commits and fetches of offsets that `Stage.group_offsets` made; each went to one broker."""

    where: str
    """SQL condition on the columns of `groups`."""

    @sentence("groups")
    def commits_answered(
        self,
        *errors: int,
        at: int | tuple[int, ...],
        offsets: tuple[int, ...] = (),
        after: str,
        before: str,
        at_least: int = 1,
        not_within_s: float = 0.0,
    ) -> str:
        """Every commit to these brokers between two marks was answered with one of these errors (0: none).

        ``offsets`` restricts it to commits of these offsets. The first answer came no sooner than
        ``not_within_s`` after the first mark.
        """
        chosen = f" AND {is_in('offset', offsets)}" if offsets else ""
        first = f", {_first(after)}" if not_within_s else ""
        return answer(
            f"CASE WHEN count(*) >= {at_least} "
            f"THEN count_if({is_in('error', errors)}) = count(*){_not_within(not_within_s, after)} END",
            f"concat({counted('commit')}, ': error ', {listed('error')}{first})",
            f"groups WHERE {self.where} AND event IN ('committed', 'commit_failed') "
            f"AND {is_in('broker', at)}{chosen}{window(after, before)}",
        )

    @sentence("groups")
    def is_answered(
        self,
        offset: int,
        *,
        by: int | tuple[int, ...],
        after: str = "",
        before: str = "",
        at_least: int = 1,
    ) -> str:
        """Whenever these brokers were asked between two marks, they named this committed offset."""
        return self._fetched(f"error = 0 AND offset = {offset}", by, after, before, at_least)

    @sentence("groups")
    def is_refused(
        self,
        *errors: int,
        by: int | tuple[int, ...],
        after: str = "",
        before: str = "",
        at_least: int = 1,
    ) -> str:
        """Whenever these brokers were asked between two marks, they answered with one of these errors."""
        return self._fetched(is_in("error", errors), by, after, before, at_least)

    @sentence("groups")
    def acknowledged_then_lost(
        self, *, by: int | tuple[int, ...], after: str, before: str, at_least: int = 1
    ) -> str:
        """``at_least`` commits acknowledged between two marks are higher than the answer at the second.

        The answer is the offset that these brokers last named between the marks. Use it only for groups that
        never commit a lower offset on purpose.
        """
        return self._compared(f"count_if(offset > answered) >= {at_least}", by, after, before)

    @sentence("groups")
    def none_lost(self, *, by: int | tuple[int, ...], after: str, before: str, at_least: int = 1) -> str:
        """No commit acknowledged before the second mark is higher than the answer at that mark.

        The answer is the offset that these brokers last named between the marks.
        """
        return self._compared(
            f"CASE WHEN count(offset) >= {at_least} THEN count_if(offset > answered) = 0 END",
            by,
            after,
            before,
            ever=True,
        )

    def _fetched(
        self, condition: str, by: int | tuple[int, ...], after: str, before: str, at_least: int
    ) -> str:
        answered = (
            "if(coalesce(error, 0) <> 0, concat('error ', error), coalesce(cast(offset AS string), 'none'))"
        )
        return answer(
            f"CASE WHEN count(*) >= {at_least} THEN count_if(coalesce({condition}, false)) = count(*) END",
            f"concat({counted('answer')}, ': ', {listed('answered')})",
            f"(SELECT *, {answered} AS answered FROM groups WHERE {self.where} AND event = 'fetched' "
            f"AND {is_in('broker', by)}{window(after, before)})",
        )

    def _compared(
        self, holds: str, by: int | tuple[int, ...], after: str, before: str, *, ever: bool = False
    ) -> str:
        answered = (
            f"SELECT max_by(coalesce(offset, 0), ns) AS answered FROM groups WHERE {self.where} "
            f"AND event = 'fetched' AND error = 0 AND {is_in('broker', by)}{window(after, before)}"
        )
        committed = (
            f"SELECT offset FROM groups WHERE {self.where} AND event = 'committed'"
            f"{window('' if ever else after, before)}"
        )
        return answer(
            f"CASE WHEN max(answered) IS NOT NULL THEN {holds} END",
            "concat(count(offset), ' acknowledged, ', count_if(offset > answered), ' lost: offset ', "
            f"{text_of('max(answered)')}, ', ', coalesce(greatest(max(offset) - max(answered), 0), 0), "
            f"' messages are processed again')",
            f"({answered}) LEFT JOIN ({committed}) ON true",
        )


def group_offsets(group: str | tuple[str, ...]) -> CommittedOffsets:
    """The offsets of groups by name (with `%`)."""
    return CommittedOffsets(" AND ".join(like_any("groups.group", group)) or "true")


@dataclass(frozen=True)
class Members:
    """Members of a group by name, and the partitions that they were assigned or gave up."""

    group: str
    """The consumer group."""
    names: tuple[str, ...]
    """Their names (client.id)."""

    @sentence("groups")
    def take_over(
        self, topic: str, partitions: int, *, after: str, before: str, not_within_s: float = 0.0
    ) -> str:
        """Each of ``partitions`` partitions is assigned to one of these members between two marks.

        No assignment comes sooner than ``not_within_s`` after the first mark.
        """
        return answer(
            f"CASE WHEN max(known) > 0 THEN count(DISTINCT partition) = {partitions}"
            f"{_not_within(not_within_s, after)} END",
            "concat(count(DISTINCT partition), ' partitions assigned to ', "
            f"{listed('member', between=', ', none='nobody')}, "
            f"if(count(ns) = 0, '', concat({_first(after)})))",
            self._with_any(topic, "event = 'assigned'", after, before),
        )

    @sentence("groups")
    def lose(self, topic: str, *, after: str, before: str, at_least: int = 1) -> str:
        """Between two marks these members learn that they have lost at least ``at_least`` partitions."""
        return answer(
            f"CASE WHEN max(known) > 0 THEN count(DISTINCT partition) >= {at_least} END",
            f"concat(count(DISTINCT partition), ' partitions lost', if(count(ns) = 0, '', concat(' after ', "
            f"round((min(ns) - {mark(after)}) / 1e9, 1), ' s')))",
            self._with_any(topic, "event = 'lost'", after, before),
        )

    @sentence("groups")
    def keep(self, topic: str, *, since: str, until: str, at_least: int = 1) -> str:
        """These members own ``at_least`` partitions at the first mark, and give none up before the second."""
        return answer(
            f"CASE WHEN count_if(newest = 'assigned') >= {at_least} AND (max(given_up) > 0 OR max(heard) > "
            f"{mark(until)}) THEN max(given_up) = 0 END",
            "concat(count_if(newest = 'assigned'), ' partitions, given up: ', max(given_up))",
            f"{self._newest(topic, since)} "
            f"CROSS JOIN (SELECT count_if({_GIVEN_UP}{window(since, until)}) AS given_up, "
            f"max(ns) AS heard FROM groups WHERE {self._own(topic)})",
        )

    @sentence("groups")
    def share(self, topic: str, others: Members, *, since: str, until: str, at_least: int = 1) -> str:
        """Others are assigned at least ``at_least`` partitions that these members still own.

        These members own them at the first mark, and ``others`` are assigned them before the second. What
        these members give up afterwards does not count.
        """
        theirs = f"groups WHERE {others._own(topic)}"
        return answer(
            f"CASE WHEN count(taken) >= {at_least} THEN count_if(twice) >= {at_least} "
            f"WHEN max(heard) >= {mark(until)} THEN false END",
            "concat(count_if(twice), ' of ', count(*), ' partitions owned twice')",
            "(SELECT newest, taken, heard, taken < coalesce(given_up, taken + 1) AS twice FROM "
            f"{self._newest(topic, since)} o "
            f"LEFT JOIN (SELECT partition AS p, min(ns) AS given_up FROM groups WHERE {self._own(topic)} "
            f"AND {_GIVEN_UP} AND ns > {mark(since)} GROUP BY partition) g ON o.partition = g.p "
            f"LEFT JOIN (SELECT partition AS q, min(ns) AS taken FROM {theirs} AND event = 'assigned'"
            f"{window(since, until)} GROUP BY partition) t ON o.partition = t.q "
            f"CROSS JOIN (SELECT max(ns) AS heard FROM {theirs})) WHERE newest = 'assigned'",
        )

    @sentence("groups")
    def are_refused(self, topic: str, *errors: int, after: str, before: str) -> str:
        """Every commit that these members sent between two marks was refused with one of these errors.

        A commit from before the first mark may have been accepted long before its answer arrives, so only
        its refusal counts, and only if the answer came after that mark.
        """
        refused = f"error IN ({', '.join(map(str, errors))})"
        sent = (
            f"asked_ns <= {mark(before)} AND (asked_ns > {mark(after)} OR (ns > {mark(after)} AND {refused}))"
        )
        return answer(
            f"CASE WHEN count(*) > 0 THEN count_if({refused}) = count(*) END",
            f"concat({counted('commit')}, ': error ', {listed('error')})",
            f"groups WHERE {self._own(topic)} AND event IN ('committed', 'commit_failed') AND {sent}",
        )

    @sentence("reads", "findings")
    def continue_at_commits(self, topic: str, *, after: str, before: str, at_least: int) -> str:
        """Between two marks the group received ``at_least`` messages. It has no `skip` or `replay` at all."""
        received = f"reads.group = '{self.group}' AND topic = '{topic}'{window(after, before)}"
        jump = f"reader = 'group {self.group}' AND topic = '{topic}' AND class IN ('replay', 'skip')"
        return answer(
            f"CASE WHEN max(received) >= {at_least} THEN max(wrong) = 0 END",
            "concat(max(received), ' messages received; skipped or received again: ', max(wrong))",
            f"(SELECT count(*) AS received FROM reads WHERE {received}) "
            f"CROSS JOIN (SELECT count(*) AS wrong FROM findings WHERE {jump})",
        )

    def _newest(self, topic: str, at: str) -> str:
        """By partition: whether, at a mark, these members were last assigned it or last gave it up."""
        return (
            f"(SELECT partition, max_by(event, ns) AS newest FROM groups WHERE {self._own(topic)} "
            f"AND (event = 'assigned' OR {_GIVEN_UP}) AND ns <= {mark(at)} GROUP BY partition)"
        )

    def _own(self, topic: str) -> str:
        return f"groups.group = '{self.group}' AND topic = '{topic}' AND member IN ({sql_texts(self.names)})"

    def _with_any(self, topic: str, condition: str, after: str, before: str) -> str:
        """The wanted rows, beside ``known``: how many rows the group has after the first mark.

        It is 0 if the members have no row in the whole run.
        """
        own = self._own(topic)
        return (
            f"(SELECT if(count_if({own}) > 0, count_if(ns > {mark(after)}), 0) AS known FROM groups "
            f"WHERE groups.group = '{self.group}') LEFT JOIN "
            f"(SELECT ns, partition, member FROM groups WHERE {own} AND {condition}{window(after, before)}) "
            "ON true"
        )


def members(group: str, *names: str) -> Members:
    """Members of a group by name."""
    return Members(group, names)


@dataclass(frozen=True)
class Output:
    """What an application wrote for its input, as `Stage.start_processor` labels it."""

    source: str
    """The topic that it reads."""
    target: str
    """The topic that it writes."""

    @sentence("sends", "reads")
    def is_one_to_one(self, *, after: str, before: str, at_least: int = 1) -> str:
        """Readers of committed records received one output message for each acknowledged input message.

        This holds between two marks for every partition and at least ``at_least`` inputs, and there is no
        other output.
        """
        return self._counted(
            f"CASE WHEN {FINAL} AND count_if(wanted) >= {at_least} AND sum(found) > 0 "
            "THEN count_if(wanted AND found = 0) = 0 AND count_if(found > 1) = 0 END",
            "read_committed",
            after,
            before,
        )

    @sentence("sends", "reads")
    def is_complete(self, *, after: str, before: str, at_least: int = 1) -> str:
        """The same, but several output messages for one input message are allowed."""
        return self._counted(
            f"CASE WHEN {FINAL} AND count_if(wanted) >= {at_least} AND sum(found) > 0 "
            "THEN count_if(wanted AND found = 0) = 0 END",
            "read_committed",
            after,
            before,
        )

    @sentence("sends", "reads")
    def is_repeated(self, *, isolation: str, after: str, before: str, at_least: int = 1) -> str:
        """Readers with this isolation level received several output messages for ``at_least`` inputs."""
        return self._counted(
            f"CASE WHEN {FINAL} AND sum(found) > 0 THEN count_if(found > 1) >= {at_least} END",
            isolation,
            after,
            before,
        )

    def _counted(self, holds: str, isolation: str, after: str, before: str) -> str:
        """One row for each input message: is it ``wanted``, and how often was its output ``found``?"""
        given = (
            "SELECT concat(writer, '/', seq) AS name, coalesce(outcome = 'ok', false) AS wanted FROM sends "
            f"WHERE topic = '{self.source}'"
        )
        received = (
            "SELECT s.label AS name, count(*) AS found FROM (SELECT topic, partition, writer, seq FROM reads "
            f"WHERE topic = '{self.target}' AND isolation = '{isolation}'{window(after, before)}) r "
            "JOIN sends s ON s.topic = r.topic AND s.partition = r.partition AND s.writer = r.writer "
            "AND s.seq = r.seq GROUP BY s.label"
        )
        return answer(
            holds,
            "concat(count_if(wanted), ' messages in, ', coalesce(sum(found), 0), ' out: ', "
            "count_if(wanted AND found = 0), ' missing, ', count_if(found > 1), ' more than once')",
            "(SELECT coalesce(g.wanted, false) AS wanted, coalesce(r.found, 0) AS found "
            f"FROM ({given}) g FULL OUTER JOIN ({received}) r ON r.name = g.name)",
        )


def output(source: str, target: str) -> Output:
    """The output of an application that reads the topic ``source`` and writes the topic ``target``."""
    return Output(source, target)
