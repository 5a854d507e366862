"""Sentences about transactions: the answers to their producer, what the logs decided, who has to wait."""

from __future__ import annotations

from dataclasses import dataclass

from checkers.claims.builders.cluster import Partition
from checkers.claims.builders.messages import Messages
from checkers.claims.builders.sql import (
    FINAL,
    FRESH_NS,
    answer,
    counted,
    heard_at,
    like_any,
    listed,
    mark,
    sentence,
    sql_texts,
    text_of,
    window,
)
from checkers.claims.subject import NO_SUBJECT, ClaimSubject
from checkers.partition.fate import TRANSACTION_ENDS


@dataclass(frozen=True)
class Transactions:
    """Transactions of some producers, by the answers to the requests that end them."""

    where: str
    """SQL condition on the columns of `transactions` and `writer_name`."""
    subject: ClaimSubject = NO_SUBJECT
    """What sentences about them are about."""

    @sentence("transactions", "writers")
    def reported(self, outcome: str, *, errors: tuple[int, ...] = (), at_least: int = 1) -> str:
        """The last answer to every one is `committed`, `aborted` or `unknown`, with one of these errors."""
        return self._reported(self.where, outcome, errors, at_least)

    @sentence("transactions", "writers")
    def never_reported(self, outcome: str, *, after: str, before: str) -> str:
        """None is reported as this between two marks, but one began before and one is reported later."""
        inside = f"event = '{outcome}'{window(after, before)}"
        begun = f"count_if(event = 'begin' AND ns <= {mark(before)})"
        return answer(
            f"CASE WHEN count_if({inside}) > 0 THEN false "
            f"WHEN {begun} > 0 AND max(ns) > {mark(before)} THEN true END",
            f"concat(count_if({inside}), ' reported as {outcome}')",
            f"({_EVENTS}) WHERE {self.where}",
        )

    @sentence("transactions", "writers")
    def was_reported(
        self,
        outcome: str,
        *,
        errors: tuple[int, ...] = (),
        after: str,
        before: str,
        at_least: int = 1,
    ) -> str:
        """As `reported`, for the last answer between two marks; later answers may differ."""
        return self._reported(f"{self.where}{window(after, before)}", outcome, errors, at_least)

    def _reported(self, where: str, outcome: str, errors: tuple[int, ...], at_least: int) -> str:
        condition = f"reported = '{outcome}'"
        if errors:
            condition += f" AND error IN ({', '.join(map(str, errors))})"
        return answer(
            f"CASE WHEN count(*) >= {at_least} THEN count_if({condition}) = count(*) END",
            f"concat({counted('transaction')}, ': ', {listed('said')})",
            f"(SELECT reported, error, concat(coalesce(reported, 'no answer'), "
            f"if(coalesce(error, 0) = 0, '', concat(' with error ', error))) AS said FROM ("
            f"SELECT writer, txn, max_by(event, ns) FILTER (WHERE {_IS_REPORTED}) AS reported, "
            f"max_by(error, ns) FILTER (WHERE {_IS_REPORTED}) AS error FROM ({_EVENTS}) "
            f"WHERE {where} GROUP BY writer, txn))",
        )


_IS_REPORTED = f"event IN ({sql_texts(TRANSACTION_ENDS)})"
_EVENTS = (
    "SELECT t.ns, t.writer, t.txn, t.event, t.error, w.name AS writer_name "
    "FROM transactions t JOIN writers w ON w.writer = t.writer"
)


def transactions(
    by: str | tuple[str, ...] = "",
    *,
    number: int | None = None,
) -> Transactions:
    """Transactions by the name of their producer (with `%`) and their number, from 0."""
    conditions = [
        *like_any("writer_name", by),
        *([f"txn = {number}"] if number is not None else []),
    ]
    writers = tuple(filter(None, by if isinstance(by, tuple) else (by,)))
    return Transactions(" AND ".join(conditions) or "true", ClaimSubject(writers=writers))


@sentence("life", "copies", "replicas")
def decided(messages: Messages, how: str, *, at_least: int = 1) -> str:
    """In the leader's final log the next marker of each message's producer is a `commit`, or an `abort`.

    `open`: there is none, so its transaction has not ended. A message that the log does not hold matches none
    of these.
    """
    return answer(
        f"CASE WHEN {FINAL} AND count(*) >= {at_least} THEN count_if(how = '{how}') = count(*) END",
        f"concat({counted('message')}, ': ', {listed('how')})",
        f"(SELECT m.writer, m.seq, coalesce(max(d.how), 'not in the log') AS how "
        f"FROM (SELECT * FROM life WHERE {messages.where}) m LEFT JOIN ({_DECIDED}) d "
        f"ON d.writer = m.writer AND d.seq = m.seq AND d.topic = m.topic GROUP BY m.writer, m.seq)",
    )


_LED = (
    "SELECT c.* FROM copies c JOIN replicas r ON r.topic = c.topic AND r.partition = c.partition "
    "AND r.broker = c.broker WHERE r.leader"
)
_DECIDED = (
    "SELECT a.writer, a.seq, a.topic, coalesce(min_by(b.marker, b.offset), 'open') AS how "
    f"FROM ({_LED}) a LEFT JOIN ({_LED}) b ON b.topic = a.topic AND b.partition = a.partition "
    "AND b.producer_id = a.producer_id AND b.offset > a.offset AND b.marker IS NOT NULL "
    "WHERE a.transactional AND a.writer IS NOT NULL GROUP BY a.writer, a.seq, a.topic, a.offset"
)


@sentence("transactions", "writers", "sends", "copies", "replicas")
def decided_whole(transactions: Transactions, *, committed: int, unanswered: int) -> str:
    """Every transaction was decided as a whole, and committed if that was reported.

    At least ``committed`` of them were reported as committed, and at least ``unanswered`` had no answer to
    the last request.
    """
    return answer(
        f"CASE WHEN {FINAL} AND count_if(reported = 'committed') >= {committed} "
        f"AND count_if(reported = 'unknown') >= {unanswered} THEN count_if(ways > 1 OR how = 'open' "
        f"OR (reported = 'committed' AND how != 'commit')) = 0 END",
        "concat(count_if(reported = 'committed'), ' transactions reported as committed, ', "
        "count_if(reported = 'unknown'), ' without an answer; in the logs ', "
        "count_if(ways = 1 AND how = 'commit'), ' committed, ', count_if(ways = 1 AND how = 'abort'), "
        "' aborted, ', count_if(ways > 1), ' of both, ', count_if(ways = 1 AND how = 'open'), ' open')",
        f"(SELECT t.reported, count(DISTINCT coalesce(d.how, 'open')) AS ways, "
        f"min(coalesce(d.how, 'open')) AS how FROM ("
        f"SELECT writer, txn, max_by(event, ns) FILTER (WHERE {_IS_REPORTED}) AS reported "
        f"FROM ({_EVENTS}) WHERE {transactions.where} GROUP BY writer, txn) t "
        f"JOIN sends s ON s.writer = t.writer AND s.txn = t.txn LEFT JOIN ({_DECIDED}) d "
        f"ON d.writer = s.writer AND d.seq = s.seq AND d.topic = s.topic "
        f"GROUP BY t.writer, t.txn, t.reported)",
    )


@sentence("copies", "replicas")
def markers_are(place: Partition, *kinds: str, retried: bool = False) -> str:
    """In the leader's final log the markers are these, in this order: `commit`, `abort`.

    With ``retried``, a marker that a coordinator has written again counts once: a request that a cut held up
    arrives after the heal, and the coordinator sends it to the next leader as well.
    """
    markers = ", ".join(kinds)
    again = " AND NOT again" if retried else ""
    before = "OVER (PARTITION BY producer_id ORDER BY offset)"
    return answer(
        f"CASE WHEN {FINAL} THEN found = '{markers}' END",
        f"concat('markers: ', {text_of('found')})",
        "(SELECT array_join(transform(sort_array(collect_list(struct(offset, marker))), m -> m.marker), "
        f"', ') AS found FROM (SELECT offset, marker, coalesce(lag(marker) {before} = marker AND "
        f"lag(producer_epoch) {before} = producer_epoch, false) AS again FROM ({_LED}) WHERE {place.where}) "
        f"WHERE marker IS NOT NULL{again})",
    )


@sentence("watermarks")
def readers_wait(place: Partition, broker: int, *, since: str, until: str) -> str:
    """From a second after one mark to another the leader's last stable offset stays below its high watermark.

    It does not move at all. The second allows the observer to see where it is. ``broker`` leads the
    partition. Readers of committed records receive nothing from that offset on.
    """
    return _stable(
        place,
        broker,
        until,
        "count(DISTINCT lso) = 1 AND max_by(lso, ns) < max_by(hw, ns)",
        since,
    )


@sentence("watermarks")
def readers_are_served(place: Partition, broker: int, *, at: str) -> str:
    """At a mark the last stable offset of the leader is its high watermark: no reader waits."""
    return _stable(place, broker, at, "max_by(lso, ns) = max_by(hw, ns)", "")


def _stable(place: Partition, broker: int, until: str, condition: str, since: str) -> str:
    in_force = f" AND coalesce(next_ns > {mark(since)} + {FRESH_NS}, true)" if since else ""
    return answer(
        f"CASE WHEN count(*) > 0 AND {heard_at(broker, until)} THEN {condition} END",
        f"concat('last stable offset ', {listed('lso')}, ', high watermark ', {text_of('max_by(hw, ns)')})",
        f"(SELECT ns, last_stable_offset AS lso, high_watermark AS hw, "
        f"lead(ns) OVER (PARTITION BY broker ORDER BY ns) AS next_ns FROM watermarks "
        f"WHERE {place.where} AND broker = {broker} AND last_stable_offset IS NOT NULL "
        f"AND ns <= {mark(until)}) WHERE ns <= {mark(until)}{in_force}",
    )


@sentence("producer_states", "transaction_states")
def hangs(place: Partition, broker: int, *, at: str) -> str:
    """At a mark every transaction that is open at the leader of the partition is over for its coordinator.
    Needs Kafka 3.0 or later: earlier brokers cannot be asked.
    """
    in_partition = (
        f"CASE WHEN concat(',', partitions, ',') LIKE '%,{place.topic}/{place.number},%' THEN 1 ELSE 0 END"
    )
    return answer(
        f"CASE WHEN count(*) > 0 AND {heard_at(broker, at)} AND count_if(start >= 0 AND state IS NULL) = 0 "
        f"THEN count_if(start >= 0) > 0 AND count_if(start >= 0 AND known = 1) = 0 END",
        f"concat(count_if(start >= 0), ' open at the leader; the coordinator says ', "
        f"{listed('CASE WHEN start >= 0 THEN state END', none='nothing')})",
        f"(SELECT o.start, max(c.state) AS state, max(c.known) AS known FROM ("
        f"SELECT producer_id, max_by(coalesce(transaction_start, -1), ns) AS start FROM producer_states "
        f"WHERE {place.where} AND broker = {broker} AND ns <= {mark(at)} GROUP BY producer_id) o LEFT JOIN ("
        f"SELECT producer_id, state, {in_partition} AS known FROM ("
        f"SELECT max_by(producer_id, ns) AS producer_id, "
        f"max_by(state, ns) AS state, max_by(coalesce(partitions, ''), ns) AS partitions "
        f"FROM transaction_states WHERE ns <= {mark(at)} GROUP BY broker, transactional_id)) c "
        f"ON c.producer_id = o.producer_id GROUP BY o.producer_id, o.start)",
    )


@sentence("faults")
def late_answer(what: str, *errors: int, at_least: int = 1) -> str:
    """Every held request like ``what`` (`EndTxn`) was delivered, and answered with one of ``errors``."""
    condition = f"get_json_object(evidence, '$.error') IN ({sql_texts(tuple(map(str, errors)))})"
    return answer(
        f"CASE WHEN count(*) >= {at_least} THEN count_if({condition}) = count(*) END",
        f"concat({counted('late request')}, ': ', {listed('evidence')})",
        f"faults WHERE get_json_object(targets, '$.request') LIKE '{what}%' AND moment = 'healed'",
    )


@sentence("faults")
def was_held_and_delivered(*, at_least: int = 1) -> str:
    """Every fault that held connections delivered a request when it was healed, as the kernels report."""
    condition = """evidence RLIKE '"request": [{]"bytes": [0-9]+, "fate": "delivered"'"""
    return answer(
        f"CASE WHEN count(*) >= {at_least} THEN count_if({condition}) = count(*) END",
        f"concat(count_if({condition}), ' of ', count(*), ' faults delivered a request')",
        "faults WHERE mechanism = 'hold' AND moment = 'healed' AND evidence LIKE '%\"connections\"%'",
    )
