"""Positions of group members that were not in the log any more, so that `auto.offset.reset` decided.

A position is the committed offset with which a member was assigned the partition, or the offset behind its
last record. It is beyond the end of the log after a truncation, and below its beginning after retention.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from checkers.causes import (
    PartitionEvent,
    or_minus_one,
    partition_events,
    storage_cause,
    unclean_election,
)
from checkers.evidence import Row
from checkers.groups.history import GroupHistory
from checkers.partition.deliveries import POSITIONED
from checkers.records import Cause, evidence_row, facts_text
from checkers.removals import cause_of_start
from harness.kafka.model import TopicPartition, broker_name

RESET = "group_reset"
_SEEN_WITHIN_NS = 10**9
"""How much later than a reset the observer may learn where the log begins."""


@dataclass(frozen=True, kw_only=True)
class GroupPosition:
    """Where a member was to continue, and since when the group had that position."""

    offset: int
    since_ns: int
    row: str
    """The row of the history that says so."""


@dataclass(frozen=True, kw_only=True)
class Reset:
    """A member whose position was not in the log, and the first record that it received instead."""

    position: GroupPosition
    reader: int
    ns: int
    offset: int
    count: int
    """The offsets between the position and where the member continued, or where the log begins."""
    cause: Cause


def resets(history: GroupHistory) -> list[Reset]:
    """The resets of a group's members in its partition, by time. They are known only with `watermarks`."""
    where = TopicPartition(history.topic, history.partition)
    reads = [
        row for row in history.evidence.rows_about("group_reads", where) if row["group"] == history.group
    ]
    if not reads:
        return []
    log = _LogBounds(history, where)
    reset: list[Reset] = []
    for read in sorted(reads, key=lambda row: int(row["ns"])):
        position = _position(history, read)
        if position is None or read["offset"] == position.offset:
            continue
        back = read["offset"] < position.offset
        cause = log.ended_before(position, read["ns"]) if back else log.began_after(position, read["ns"])
        if cause is not None:
            reset.append(
                Reset(
                    position=position,
                    reader=read["reader"],
                    ns=read["ns"],
                    offset=read["offset"],
                    count=abs(position.offset - read["offset"]),
                    cause=cause,
                )
            )
    return reset


def _position(history: GroupHistory, read: Row) -> GroupPosition | None:
    """Where the member was to continue before a read; None if the history does not say."""
    since_ns = or_minus_one(read["before_ns"])
    events = [
        row
        for row in history.rows
        if row["reader"] == read["reader"]
        and row["event"] in POSITIONED
        and since_ns <= row["ns"] <= read["ns"]
    ]
    if events:
        last = events[-1]
        if last["event"] != "assigned" or last["error"] or last["offset"] is None:
            return None
        what = f"reader {read['reader']} assigned, at offset {last['offset']}"
        acked = [
            commit.acked_ns
            for commit in history.commits
            if commit.offset == last["offset"] and 0 <= commit.acked_ns < last["ns"]
        ]
        return GroupPosition(
            offset=last["offset"],
            since_ns=max(acked, default=last["ns"]),
            row=evidence_row("groups", last["ns"], what),
        )
    if read["before_offset"] is None:
        return None
    what = f"reader {read['reader']} received offset {read['before_offset']}"
    return GroupPosition(
        offset=read["before_offset"] + 1, since_ns=since_ns, row=evidence_row("reads", since_ns, what)
    )


class _LogBounds:
    """Where the log of a partition began and ended, by `watermarks` and the events of the partition."""

    def __init__(self, history: GroupHistory, where: TopicPartition) -> None:
        self._evidence, self._where = history.evidence, where
        self._marks = sorted(history.evidence.rows_about("watermarks", where), key=lambda row: int(row["ns"]))
        self._cuts, self._elections = partition_events(history.evidence, *where)

    def ended_before(self, position: GroupPosition, until_ns: int) -> Cause | None:
        """Why the leader's log ended before a position; None if the history does not show that it did."""
        elected = [election for election in self._elections if position.since_ns < election.ns <= until_ns]
        if not elected:
            return None
        leader = elected[-1]
        end = self._lowest_end(leader, until_ns)
        if end is None or end["leo"] >= position.offset:
            return None
        bound = evidence_row("watermarks", end["ns"], f"broker{leader.broker}: log end offset {end['leo']}")
        cause = self._why_it_ended(position, elected, until_ns)
        return cause and replace(cause, rows=(*cause.rows, bound))

    def _lowest_end(self, leader: PartitionEvent, until_ns: int) -> Row | None:
        """The row with the lowest end of a leader's log, from its election on."""
        rows = [
            row
            for row in self._marks
            if row["broker"] == leader.broker and row["leo"] is not None and row["ns"] <= until_ns
        ]
        before = [row for row in rows if row["ns"] <= leader.ns][-1:]
        return min(
            [*before, *(row for row in rows if row["ns"] > leader.ns)],
            key=lambda row: int(row["leo"]),
            default=None,
        )

    def _why_it_ended(
        self, position: GroupPosition, elected: list[PartitionEvent], until_ns: int
    ) -> Cause | None:
        for election in elected:
            unclean = unclean_election(election)
            if unclean is not None:
                return unclean
        for fault in self._evidence.data_losses(self._where):
            hit = broker_name(elected[-1].broker) in fault.hosts
            if hit and position.since_ns < fault.from_ns <= until_ns:
                return storage_cause(self._evidence, self._where, fault, elected[-1].broker)
        for cut in self._cuts:
            if cut.ns > position.since_ns and 0 <= cut.offset < position.offset:
                facts = {"broker": cut.broker, "offset": cut.offset}
                return Cause(kind="truncated", facts=facts, rows=(cut.row(),))
        return None

    def began_after(self, position: GroupPosition, until_ns: int) -> Cause | None:
        """Why the leader's log began after a position; None if the history does not show that it did."""
        for row in self._marks:
            if row["ns"] > until_ns + _SEEN_WITHIN_NS:
                break
            if row["log_start"] is None or row["log_start"] <= position.offset:
                continue
            led = [election for election in self._elections if election.ns <= min(row["ns"], until_ns)]
            if led and led[-1].broker != row["broker"]:
                continue
            return cause_of_start(self._evidence, self._where, row, position.offset, position.since_ns)
        return None


def reset_findings(history: GroupHistory) -> Iterator[dict[str, Any]]:
    """A finding for each reset."""
    for reset in resets(history):
        yield {
            "class": RESET,
            "topic": history.topic,
            "partition": history.partition,
            "offset": reset.position.offset,
            "found_offset": reset.offset,
            "count": reset.count,
            "acked_ns": reset.position.since_ns,
            "reader": f"group {history.group}",
            "cause": reset.cause.kind,
            "cause_facts": reset.cause.text,
            "evidence": [
                reset.position.row,
                *reset.cause.rows,
                evidence_row("reads", reset.ns, f"reader {reset.reader} received offset {reset.offset}"),
            ],
            "detail": facts_text(reader=reset.reader, position=reset.position.offset, continued=reset.offset),
        }
