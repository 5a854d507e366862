"""Transactions that hung during the run: open at the leader of a partition, over for their coordinator.

This rests on `producer_states` and `transaction_states` alone. Rows of both tables are repeated every few
seconds even if nothing changes. So a state lasts from its first row to its last, and the time in which a
broker does not answer does not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

from checkers.causes import PartitionEvent, partition_events
from checkers.evidence import Evidence, Row
from checkers.records import evidence_row, facts_text

HUNG_S = 3.0
"""The shortest time that counts.

It is long because a coordinator regards a transaction as over only when its markers are written.
"""
SILENT_S = 5.0
"""The longest time between two answers of a coordinator in which it counts as saying the same."""
_UNDER_WAY = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True)
class _Span:
    from_ns: float
    until_ns: float
    row: Row


def hung_transactions(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """One finding per transaction and partition, at the first record of the transaction.

    A transaction that is open in its last row is not among them, because the final logs show it.
    """
    states_by_producer: dict[int, list[Row]] = {}
    for row in evidence.rows("transaction_states"):
        states_by_producer.setdefault(row["producer_id"], []).append(row)

    @cache
    def elections(topic: str, partition: int) -> list[PartitionEvent]:
        return partition_events(evidence, topic, partition)[1]

    states = sorted(evidence.rows("producer_states"), key=_where)
    for _, rows in groupby(states, key=_where):
        history = sorted(rows, key=lambda row: int(row["ns"]))
        reported: set[int] = set()
        for span in _open(history, elections):
            longest = _overlap(span, _over(span.row, states_by_producer.get(span.row["producer_id"], [])))
            if longest is not None and span.row["transaction_start"] not in reported:
                reported.add(span.row["transaction_start"])
                yield _finding(span.row, longest, evidence.zero.ns)


def _where(row: Row) -> tuple[str, int, int, int]:
    return row["topic"], row["partition"], row["producer_id"], row["broker"]


def _open(history: list[Row], elections: Callable[[str, int], list[PartitionEvent]]) -> Iterator[_Span]:
    """Spans in which one transaction was open at the leader, except a span that lasts to the end.

    Followers answer too, but may not have the marker yet. A leader that was cut off still answers as the
    leader; after the next election its answers do not count.
    """
    first = history[0]
    stretches = [list(rows) for _, rows in groupby(history, key=lambda row: row["transaction_start"])]
    for rows in stretches[:-1]:
        if rows[0]["transaction_start"] is None:
            continue
        begin = rows[0]["ns"]
        for led_from, led_until in _led(first["broker"], elections(first["topic"], first["partition"])):
            since, until = max(begin, led_from), min(rows[-1]["ns"], led_until)
            if since < until:
                yield _Span(since, until, rows[0])


def _led(broker: int, elections: list[PartitionEvent]) -> Iterator[tuple[float, float]]:
    """When a broker led, from and until; always, if no election is known. The first leader led before."""
    if not elections:
        yield -math.inf, math.inf
    for place, event in enumerate(elections):
        again = place > 0 and elections[place - 1].broker == broker
        if event.broker == broker and not again:
            later = (other.ns for other in elections[place + 1 :] if other.broker != broker)
            yield event.ns if place else -math.inf, next(later, math.inf)


def _over(state: Row, coordinator_states: list[Row]) -> Iterator[_Span]:
    """Spans in which no coordinator had an open transaction of the producer in the partition.

    What a coordinator said last does not hold until another one answers: meanwhile, a transaction may have
    begun of which the dead one alone knew, besides its log.
    """
    place = f"{state['topic']}/{state['partition']}"

    def over(row: Row) -> bool:
        return row["state"] not in _UNDER_WAY or place not in (row["partitions"] or "").split(",")

    for is_over, states in groupby(sorted(coordinator_states, key=lambda row: int(row["ns"])), key=over):
        for rows in _without_silence(states) if is_over else ():
            yield _Span(rows[0]["ns"], rows[-1]["ns"], rows[0])


def _without_silence(rows: Iterable[Row]) -> list[list[Row]]:
    """The answers in stretches of one coordinator that was never silent for long."""
    stretches: list[list[Row]] = []
    for row in rows:
        last = stretches[-1][-1] if stretches else None
        if last and last["broker"] == row["broker"] and row["ns"] - last["ns"] <= SILENT_S * 1e9:
            stretches[-1].append(row)
        else:
            stretches.append([row])
    return stretches


def _overlap(span: _Span, others: Iterator[_Span]) -> _Span | None:
    """The longest common span, if it is long enough; its row is the coordinator's."""
    common = [
        _Span(max(span.from_ns, other.from_ns), min(span.until_ns, other.until_ns), other.row)
        for other in others
    ]
    longest = max(common, key=lambda one: one.until_ns - one.from_ns, default=None)
    if longest is None or longest.until_ns - longest.from_ns < HUNG_S * 1e9:
        return None
    return longest


def _finding(state: Row, longest: _Span, zero_ns: int) -> dict[str, Any]:
    since, until = ((ns - zero_ns) / 1e9 for ns in (longest.from_ns, longest.until_ns))
    return {
        "class": "hung_transaction",
        "topic": state["topic"],
        "partition": state["partition"],
        "offset": state["transaction_start"],
        "count": 1,
        "cause": "unknown_to_coordinator",
        "detail": facts_text(
            broker=state["broker"],
            from_s=round(since, 3),
            until_s=round(until, 3),
            transactional_id=longest.row["transactional_id"],
            producer_id=state["producer_id"],
            state=longest.row["state"],
            coordinator=longest.row["broker"],
        ),
        "evidence": [
            evidence_row(
                "producer_states",
                state["ns"],
                f"broker{state['broker']}: producer id {state['producer_id']} has a transaction open in "
                f"{state['topic']}/{state['partition']} since offset {state['transaction_start']}",
            ),
            evidence_row(
                "transaction_states",
                longest.row["ns"],
                f"broker{longest.row['broker']}: {longest.row['transactional_id']} is {longest.row['state']}",
            ),
        ],
    }
