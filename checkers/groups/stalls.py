"""Groups that stand still: nobody owns a partition although members live and there are records to read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from checkers.causes import or_minus_one, partition_events
from checkers.evidence import Row, linked_hosts
from checkers.groups.history import GroupHistory
from checkers.groups.membership import rows_of_group
from checkers.records import Cause, evidence_row, facts_text
from harness.kafka.model import TopicPartition

STALLED = "group_stalled"
SESSION_MS = 45_000
"""session.timeout.ms of clients since 3.0, if the history does not tell; earlier ones have less."""
REBALANCE_DELAY_MS = 3_000
"""group.initial.rebalance.delay.ms, if the history does not tell."""
_LOADING, _FENCED = (14,), (82, 110)
"""COORDINATOR_LOAD_IN_PROGRESS; FENCED_INSTANCE_ID and FENCED_MEMBER_EPOCH."""
_OF_CLUSTER = re.compile(r"(broker|controller|zookeeper)\d+")


@dataclass(frozen=True, kw_only=True)
class Stall:
    """A time in which a group could have received records, and nobody owned the partition."""

    from_ns: int
    until_ns: int
    """When a member was assigned the partition again."""
    position: int
    readable_ns: int
    """When there was a record to read at the position."""
    lost: Row
    """The row by which the last owner gave the partition up."""
    assigned: Row

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return (self.until_ns - self.from_ns) / 1e9


class _Scene:
    """What the history says about a group, its partition and its coordinator."""

    def __init__(self, history: GroupHistory) -> None:
        self.history = history
        self.evidence = history.evidence
        self.where = TopicPartition(history.topic, history.partition)

    @cached_property
    def rows(self) -> list[Row]:
        """All rows of `groups` about the group."""
        return rows_of_group(self.evidence, self.history.group)

    @cached_property
    def reads(self) -> list[Row]:
        """The reads of the group in the partition, as far as they are turning points."""
        rows = self.evidence.rows_about("group_reads", self.where)
        return [row for row in rows if row["group"] == self.history.group]

    @cached_property
    def threshold_ns(self) -> int:
        """Longer than a member's death is noticed, another one joins anew, and a rebalance is delayed."""
        joined = [row for row in self.rows if row["event"] == "joined"]
        sessions = [row["session_ms"] for row in joined if row["session_ms"] is not None]
        session_ms = max(sessions, default=SESSION_MS)
        if any(row["session_ms"] is None for row in joined):
            session_ms = max(session_ms, SESSION_MS)
        delays = [
            int(row["value"])
            for row in self.evidence.rows("configs")
            if row["key"] == "group.initial.rebalance.delay.ms" and (row["value"] or "").isdecimal()
        ]
        return (2 * session_ms + max(delays, default=REBALANCE_DELAY_MS)) * 10**6

    def unowned(self) -> Iterator[tuple[Row, Row]]:
        """Rows by which owners gave the partition up, and the next assignment if nobody owned it between."""
        events = [row for row in self.history.rows if row["event"] in ("assigned", "revoked", "lost")]
        owners: set[int] = set()
        given_up: Row | None = None
        for row in events:
            if row["event"] == "assigned":
                if given_up is not None and not owners:
                    yield given_up, row
                owners.add(row["reader"])
                given_up = None
            else:
                owners.discard(row["reader"])
                given_up = row if not owners else None

    def lived(self, from_ns: int, until_ns: int) -> bool:
        """Whether one member gave a sign before and after."""
        signs = [(row["reader"], row["ns"]) for row in (*self.rows, *self.reads)]
        before = {reader for reader, ns in signs if ns <= from_ns}
        return any(reader in before and ns >= until_ns for reader, ns in signs)

    def position(self, at_ns: int) -> int:
        """The offset at which the group was to continue; -1: not known."""
        committed = [commit.offset for commit in self.history.commits if 0 <= commit.acked_ns <= at_ns]
        received = [row["offset"] + 1 for row in self.reads if row["ns"] <= at_ns]
        received += [  # The highest offset before a step back is no turning point itself.
            row["before_offset"] + 1
            for row in self.reads
            if row["before_offset"] is not None and row["before_ns"] <= at_ns
        ]
        return max([*committed[-1:], *received], default=-1)

    def readable(self, position: int, until_ns: int) -> Row | None:
        """The first row of `watermarks` in which the leader lets the group read at a position."""
        committed = not any(row["uncommitted"] for row in self.reads)
        elections = partition_events(self.evidence, *self.where)[1]
        for row in sorted(self.evidence.rows_about("watermarks", self.where), key=lambda row: int(row["ns"])):
            if row["ns"] > until_ns or row["high_watermark"] is None:
                continue
            led = [election.broker for election in elections if election.ns <= row["ns"]]
            end = row["high_watermark"]
            if committed and row["last_stable_offset"] is not None:
                end = min(end, row["last_stable_offset"])
            if end > position and (not led or led[-1] == row["broker"]):
                return row
        return None

    def leaderless_until(self, where: TopicPartition, from_ns: int, until_ns: int) -> tuple[Row, int] | None:
        """The last time without a leader that meets a span of time: the view that says so, and its end."""
        views = sorted(
            (
                row
                for row in self.evidence.rows_about("views", where)
                if row["subject"] == "partition" and row["epoch"] is not None
            ),
            key=lambda row: (row["epoch"], int(row["ns"])),
        )
        newest = -1
        states: list[Row] = []
        for row in views:
            if row["epoch"] > newest:
                newest = row["epoch"]
                states.append(row)
        last: tuple[Row, int] | None = None
        for number, row in enumerate(states):
            end = states[number + 1]["ns"] if number + 1 < len(states) else until_ns
            if or_minus_one(row["leader"]) < 0 and row["ns"] < until_ns and end > from_ns:
                last = row, end
        return last

    def clients_cut_until(self, from_ns: int, until_ns: int) -> int:
        """Until when faults hit hosts of clients, which members may run on; ``from_ns`` if none did."""
        linked = linked_hosts(self.evidence.rows("faults"))
        ends = [
            fault.until_ns
            for fault in self.evidence.faults
            if fault.from_ns < until_ns
            and fault.until_ns > from_ns
            and any(
                not _OF_CLUSTER.fullmatch(host) for host in fault.hosts | linked.get(fault.fault, frozenset())
            )
        ]
        return max([from_ns, *ends])


def stall_findings(history: GroupHistory) -> Iterator[dict[str, Any]]:
    """A finding for each stall that is longer than the mechanisms by which groups make progress."""
    scene = _Scene(history)
    for given_up, assigned in scene.unowned():
        if assigned["ns"] - given_up["ns"] <= scene.threshold_ns:
            continue
        stall = _stall(scene, given_up, assigned)
        if stall is None or stall.until_ns - stall.from_ns <= scene.threshold_ns:
            continue
        cause = _cause(scene, stall)
        yield {
            "class": STALLED,
            "topic": history.topic,
            "partition": history.partition,
            "offset": stall.position,
            "count": 1,
            "reader": f"group {history.group}",
            "cause": cause.kind,
            "cause_facts": cause.text,
            "evidence": [
                evidence_row("groups", given_up["ns"], f"reader {given_up['reader']} {given_up['event']}"),
                evidence_row("watermarks", stall.readable_ns, f"offset {stall.position} could be read"),
                *cause.rows,
                evidence_row("groups", assigned["ns"], f"reader {assigned['reader']} assigned"),
            ],
            "detail": facts_text(seconds=round(stall.seconds, 3)),
        }


def _stall(scene: _Scene, given_up: Row, assigned: Row) -> Stall | None:
    from_ns, until_ns = given_up["ns"], assigned["ns"]
    position = scene.position(from_ns)
    mark = scene.readable(position, until_ns) if position >= 0 else None
    if mark is None or not scene.lived(from_ns, until_ns):
        return None
    from_ns = scene.clients_cut_until(max(from_ns, mark["ns"]), until_ns)
    leaderless = scene.leaderless_until(scene.where, from_ns, until_ns)
    if leaderless is not None:
        from_ns = max(from_ns, leaderless[1])
    return Stall(
        from_ns=from_ns,
        until_ns=until_ns,
        position=position,
        readable_ns=mark["ns"],
        lost=given_up,
        assigned=assigned,
    )


def _cause(scene: _Scene, stall: Stall) -> Cause:
    """Why nobody owned the partition."""
    offsets_log = scene.history.offsets_log
    leaderless = scene.leaderless_until(offsets_log, stall.lost["ns"], stall.until_ns)
    if leaderless is not None:
        view, end_ns = leaderless
        seconds = (min(end_ns, stall.until_ns) - view["ns"]) / 1e9
        what = f"{view['source']}: no leader in epoch {view['epoch']}"
        facts = {"partition": str(offsets_log), "seconds": round(seconds, 3)}
        return Cause(kind="no_coordinator", facts=facts, rows=(evidence_row("views", view["ns"], what),))
    between = [row for row in scene.rows if stall.lost["ns"] < row["ns"] < stall.until_ns]
    for errors, kind in ((_LOADING, "coordinator_loading"), (_FENCED, "member_fenced")):
        refused = next((row for row in between if row["error"] in errors), None)
        if refused is not None:
            what = f"reader {refused['reader']} {refused['event']}, error {refused['error']}"
            return Cause(kind=kind, rows=(evidence_row("groups", refused["ns"], what),))
    first_join = next((row for row in between if row["event"] == "joined"), None)
    waited_ns = 0 if first_join is None else stall.until_ns - first_join["ns"]
    if first_join is not None and waited_ns > REBALANCE_DELAY_MS * 10**6:
        row = evidence_row("groups", first_join["ns"], f"reader {first_join['reader']} joined")
        return Cause(kind="slow_rebalance", facts={"seconds": round(waited_ns / 1e9, 3)}, rows=(row,))
    return Cause(kind="unexplained")
