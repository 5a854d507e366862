"""Findings about the commits and partitions of consumer groups, and the causes of readers' steps.

A committed offset is a register: an answer may name any commit, unless a later one had certainly replaced it
before the request. This code reads only small tables, so every plan shares it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from checkers.causes import PartitionEvent, evidence_row, or_minus_one, partition_events
from checkers.evidence import Evidence, Row
from harness.kafka.model import OFFSETS_LOG, TopicPartition, broker_name

CLASSES = ("commit_lost", "stale_offset", "double_ownership")
"""Findings about groups that rest on no message."""
COMMITS, ANSWERS = ("committed", "commit_failed"), ("fetched", "assigned")
_HALTED = ("killed", "stopped", "exited", "paused")
"""Events of a process after which it answers nobody."""
NOT_KNOWN = "not known: nothing in the history explains it"


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit; ``acked_ns`` is -1 if it was not acknowledged, and then it may take effect at any time."""

    asked_ns: int
    acked_ns: int
    offset: int
    broker: int
    reader: int
    transactional: bool
    """A transaction committed it: the coordinator knows it once the marker is written."""


@dataclass(frozen=True, kw_only=True)
class FetchedOffset:
    """The committed offset that a coordinator named to a client; ``offset`` is -1 if none is committed."""

    asked_ns: int
    ns: int
    offset: int
    broker: int
    reader: int
    stable: bool
    """It waited for transactions that were about to end, like members that are assigned a partition."""


@dataclass(frozen=True, kw_only=True)
class OffsetFinding:
    """The finding about an answer with an older offset than one that had been acknowledged."""

    name: str
    """`commit_lost` or `stale_offset`."""
    lost: Sequence[Commit]
    """The acknowledged commits that the answer does not know, the newest last."""
    cause: str
    rows: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Ownership:
    """A member owned a partition from its assignment until it gave the partition up or learnt of its loss."""

    reader: int
    from_ns: int
    until_ns: int
    """The last sign of the member, if the history does not say when it gave the partition up."""
    ended: str
    """`revoked`, `lost`, or empty."""


class GroupHistory:
    """The rows of `groups` about one group and partition, and the elections of the group's coordinator."""

    def __init__(
        self, evidence: Evidence, group: str, topic: str, partition: int, rows: Sequence[Row]
    ) -> None:
        """``rows`` are those of `groups` about them; see `group_histories`."""
        self._evidence = evidence
        self.group, self.topic, self.partition = group, topic, partition
        self.rows = sorted(rows, key=lambda row: int(row["ns"]))

    @cached_property
    def commits(self) -> Sequence[Commit]:
        """All commits, acknowledged or not, by the time of their outcome."""
        return [
            Commit(
                asked_ns=or_minus_one(row["asked_ns"]),
                acked_ns=row["ns"] if row["event"] == "committed" else -1,
                offset=row["offset"],
                broker=or_minus_one(row["broker"]),
                reader=row["reader"],
                transactional=row["txn"] is not None,
            )
            for row in self.rows
            if row["event"] in COMMITS and row["offset"] is not None
        ]

    @cached_property
    def answers(self) -> Sequence[FetchedOffset]:
        """Answers without an error whose time of request is recorded."""
        return [
            FetchedOffset(
                asked_ns=row["asked_ns"],
                ns=row["ns"],
                offset=or_minus_one(row["offset"]),
                broker=or_minus_one(row["broker"]),
                reader=row["reader"],
                stable=row["event"] == "assigned",
            )
            for row in self.rows
            if row["event"] in ANSWERS and row["asked_ns"] is not None and not row["error"]
        ]

    @cached_property
    def coordinators(self) -> tuple[str, Sequence[PartitionEvent]]:
        """The group's partition of the offsets topic, and the elections of its leader."""
        count = 1 + max(
            (
                row["partition"]
                for row in self._evidence.rows("views")
                if row["topic"] == OFFSETS_LOG and row["partition"] is not None
            ),
            default=0,
        )
        number = offsets_partition(self.group, count)
        return f"{OFFSETS_LOG}/{number}", partition_events(self._evidence, OFFSETS_LOG, number)[1]

    def judge(self, answer: FetchedOffset) -> OffsetFinding | None:
        """What is wrong with an answer; None if nothing is, or if the history does not decide it."""
        newest = -2
        for commit in self.commits:
            if commit.offset != answer.offset or commit.asked_ns > answer.ns:
                continue
            if commit.acked_ns < 0 or (commit.transactional and not answer.stable):
                return None
            newest = max(newest, commit.acked_ns)
        lost = [
            commit
            for commit in self.commits
            if 0 <= commit.acked_ns < answer.asked_ns
            and commit.offset > answer.offset
            and commit.asked_ns > newest
            and (answer.stable or not commit.transactional)
        ]
        return self._explained(answer, lost) if lost else None

    def _explained(self, answer: FetchedOffset, lost: Sequence[Commit]) -> OffsetFinding:
        commit = lost[-1]
        rows = [
            evidence_row(
                "groups", commit.acked_ns, f"offset {commit.offset} acknowledged{_by(commit.broker)}"
            ),
            evidence_row("groups", answer.ns, f"offset {_named(answer.offset)} answered{_by(answer.broker)}"),
        ]
        place, elections = self.coordinators
        before, after = (_leadership(elections, one.broker, ns) for one, ns in _times(commit, answer))
        if before is not None and after is not None:
            if after.epoch < before.epoch:
                cause = (
                    f"stale coordinator: broker{answer.broker} answered, which broker{before.broker} had "
                    f"replaced in leader epoch {before.epoch} of {place}"
                )
                return OffsetFinding(name="stale_offset", lost=lost, cause=cause, rows=[*rows, before.row()])
            if after.epoch > before.epoch:
                between = [event for event in elections if before.epoch < event.epoch <= after.epoch]
                unclean = [e for e in between if e.isr_before and e.broker not in e.isr_before]
                cause = (
                    f"unclean election: broker{unclean[0].broker} became leader of {place} in epoch "
                    f"{unclean[0].epoch} although the in-sync replicas were {list(unclean[0].isr_before)}"
                    if unclean
                    else f"new coordinator: broker{after.broker} leads {place} since epoch {after.epoch} and "
                    "does not know it"
                )
                rows.append((unclean[0] if unclean else after).row())
                return OffsetFinding(name="commit_lost", lost=lost, cause=cause, rows=rows)
        later = [one for one in self.answers if one.asked_ns > answer.ns and one.offset == commit.offset]
        if later:
            rows.append(
                evidence_row("groups", later[0].ns, f"offset {commit.offset} answered{_by(later[0].broker)}")
            )
            cause = "stale coordinator: a later answer names the offset"
            return OffsetFinding(name="stale_offset", lost=lost, cause=cause, rows=rows)
        return OffsetFinding(name="commit_lost", lost=lost, cause=NOT_KNOWN, rows=rows)

    @cached_property
    def ownerships(self) -> Sequence[Ownership]:
        """Which member owned the partition when, sorted by assignment."""
        found = []
        for number, row in enumerate(self.rows):
            if row["event"] != "assigned":
                continue
            mine = [later for later in self.rows[number + 1 :] if later["reader"] == row["reader"]]
            end = next((later for later in mine if later["event"] in ("revoked", "lost", "assigned")), None)
            ended = end["event"] if end is not None and end["event"] != "assigned" else ""
            signs = mine if end is None else mine[: mine.index(end) + bool(ended)]
            found.append(
                Ownership(
                    reader=row["reader"],
                    from_ns=row["ns"],
                    until_ns=signs[-1]["ns"] if signs else row["ns"],
                    ended=ended,
                )
            )
        return found

    def shared(self) -> Iterator[tuple[Ownership, Ownership]]:
        """Pairs of different members, the earlier owner first, that both owned the partition for a while."""
        for number, one in enumerate(self.ownerships):
            for other in self.ownerships[number + 1 :]:
                if other.reader != one.reader and other.from_ns < one.until_ns:
                    yield one, other

    def cause_of_step(self, step: StreamStep) -> tuple[str, list[str]]:
        """Why a member received a record that does not follow the group's previous one."""
        reader = step.reader
        if step.committed is not None:
            what = f"offset {step.committed} acknowledged"
            cause = f"commit past what was handed over: reader {reader} committed offset {step.committed}"
            return cause, [evidence_row("groups", step.ns, what)]
        assigned = [
            row
            for row in self.rows
            if row["event"] == "assigned"
            and row["reader"] == reader
            and step.before_ns <= row["ns"] <= step.ns
        ]
        if not assigned:
            return self._both_owned(step) or (NOT_KNOWN, [])
        row = assigned[-1]
        rows = [
            evidence_row(
                "groups",
                row["ns"],
                f"reader {reader} assigned, at offset {_named(or_minus_one(row['offset']))}",
            )
        ]
        answer = next((one for one in self.answers if (one.reader, one.ns) == (reader, row["ns"])), None)
        verdict = self.judge(answer) if answer is not None else None
        if verdict is not None:
            kind = "commit lost: " if verdict.name == "commit_lost" else ""
            return f"{kind}{verdict.cause}", [*rows, *verdict.rows]
        asked_ns = row["ns"] if answer is None else answer.asked_ns
        later = [one for one in self.commits if asked_ns <= one.acked_ns <= step.ns and one.reader != reader]
        if step.back and later:
            return (
                f"rebalance: reader {reader} was assigned the partition before offset {later[-1].offset} was "
                "acknowledged",
                [
                    *rows,
                    evidence_row("groups", later[-1].acked_ns, f"offset {later[-1].offset} acknowledged"),
                ],
            )
        return NOT_KNOWN, []

    def _both_owned(self, step: StreamStep) -> tuple[str, list[str]] | None:
        """That the receivers of both records owned the partition together, at some time between these."""
        for one, other in self.shared():
            together = other.from_ns <= step.ns and step.before_ns <= one.until_ns
            if other.ended:
                together &= step.before_ns <= other.until_ns
            if together and {one.reader, other.reader} == {step.reader, step.before_reader}:
                text = f"rebalance: readers {step.before_reader} and {step.reader} both owned the partition"
                return text, _ownership_rows(one, other)
        return None


def group_histories(evidence: Evidence) -> dict[tuple[str, str, int], GroupHistory]:
    """The history of each group and topic partition that `groups` names."""
    found: dict[tuple[str, str, int], list[Row]] = {}
    for row in evidence.rows("groups"):
        if row["topic"] is not None and row["partition"] is not None:
            found.setdefault((row["group"], row["topic"], row["partition"]), []).append(row)
    return {place: GroupHistory(evidence, *place, found[place]) for place in sorted(found)}


@dataclass(frozen=True, kw_only=True)
class StreamStep:
    """A step from one record that a stream received to the next, which does not follow it."""

    group: str | None
    """None for a reader that was assigned by hand."""
    reader: int
    """Who received the next record, and when."""
    ns: int
    before_reader: int
    before_ns: int
    back: bool
    committed: int | None = None
    """What a member committed that is past what it had received; ``ns`` is then the time of that commit."""


def causes_of_steps(
    evidence: Evidence, topic: str, partition: int, steps: Sequence[StreamStep]
) -> tuple[pa.Array, pa.Array]:
    """The cause of each step, and the rows that it rests on; null where a step without a group has none."""
    known = group_histories(evidence) if any(step.group is not None for step in steps) else {}
    texts: list[str | None] = []
    grounds: list[list[str] | None] = []
    for step in steps:
        if step.group is None:
            stale = stale_leader(evidence, TopicPartition(topic, partition), step) if step.back else None
            texts.append(stale[0] if stale else None)
            grounds.append(stale[1] if stale else None)
            continue
        place = step.group, topic, partition
        text, rows = (known.get(place) or GroupHistory(evidence, *place, ())).cause_of_step(step)
        texts.append(text)
        grounds.append(rows)
    return pa.array(texts, pa.string()), pa.array(grounds, pa.list_(pa.string()))


def stale_leader(evidence: Evidence, place: TopicPartition, step: StreamStep) -> tuple[str, list[str]] | None:
    """A live broker that still named itself the leader in an old epoch when a reader went back.

    It does not have what its successor appended, so it answers that the reader's position is out of range.
    A client that accepts the older leader epoch then starts again where `auto.offset.reset` says (KIP-320).
    """
    newest: Row | None = None
    last: dict[str, Row] = {}
    for row in sorted(evidence.rows_about("views", place), key=lambda row: int(row["ns"])):
        if row["epoch"] is None or row["ns"] > step.ns:
            continue
        last[row["source"]] = row
        if row["ns"] <= step.before_ns and (newest is None or row["epoch"] > newest["epoch"]):
            newest = row
    if newest is None:
        return None
    for source, row in sorted(last.items()):
        leads = row["leader"] is not None and source == broker_name(row["leader"])
        if leads and row["epoch"] < newest["epoch"] and _runs(evidence, source, step.ns):
            return f"stale leader: {source} still led in epoch {row['epoch']}", [
                evidence_row("views", row["ns"], f"{source}: {source} leads in epoch {row['epoch']}"),
                evidence_row("views", newest["ns"], f"{newest['source']}: epoch {newest['epoch']}"),
            ]
    return None


def _runs(evidence: Evidence, host: str, at_ns: int) -> bool:
    """Whether the process of a host ran at a time, as far as `processes` says."""
    events = [row for row in evidence.rows("processes") if row["host"] == host and row["ns"] <= at_ns]
    newest = max(events, key=lambda row: int(row["ns"]), default=None)
    return newest is None or newest["event"] not in _HALTED


def group_findings(evidence: Evidence) -> list[dict[str, Any]]:
    """Rows of `findings` about commits and ownership, one for each root cause."""
    found: list[dict[str, Any]] = []
    for known in group_histories(evidence).values():
        found += [*_about_commits(known), *_about_ownership(known)]
    return found


def _about_commits(known: GroupHistory) -> Iterator[dict[str, Any]]:
    """One finding per class and cause: the newest commit that answers do not know, and the lowest answer."""
    alike: dict[tuple[str, str], list[tuple[FetchedOffset, OffsetFinding]]] = {}
    for answer in known.answers:
        verdict = known.judge(answer)
        if verdict is not None:
            alike.setdefault((verdict.name, verdict.cause), []).append((answer, verdict))
    for (name, cause), found in alike.items():
        lost = {commit for _, verdict in found for commit in verdict.lost}
        newest = max(lost, key=lambda commit: (commit.acked_ns, commit.offset))
        answer, verdict = min(found, key=lambda one: (newest not in one[1].lost, one[0].offset))
        yield {
            "class": name,
            "topic": known.topic,
            "partition": known.partition,
            "offset": newest.offset,
            "found_offset": answer.offset if answer.offset >= 0 else None,
            "count": len(lost),
            "acked_ns": newest.acked_ns,
            "acked_by": newest.broker if newest.broker >= 0 else None,
            "reader": f"group {known.group}",
            "cause": cause,
            "evidence": list(verdict.rows),
            "detail": f"offset {newest.offset} was acknowledged{_by(newest.broker)}, offset "
            f"{_named(answer.offset)} answered{_by(answer.broker)}",
        }


def _about_ownership(known: GroupHistory) -> Iterator[dict[str, Any]]:
    for one, other in known.shared():
        seconds = (min(one.until_ns, other.until_ns) - other.from_ns) / 1e9
        cause = {
            "lost": f"late notice: reader {one.reader} learnt later that it had lost the partition",
            "revoked": f"late revocation: reader {one.reader} gave the partition up later",
        }.get(one.ended, f"reader {one.reader} is not known to have given the partition up")
        yield {
            "class": "double_ownership",
            "topic": known.topic,
            "partition": known.partition,
            "count": 1,
            "reader": f"group {known.group}",
            "cause": cause,
            "evidence": _ownership_rows(one, other),
            "detail": f"readers {one.reader} and {other.reader} owned it together for {seconds:.1f} s",
        }


def _ownership_rows(one: Ownership, other: Ownership) -> list[str]:
    """The rows that show two owners: both assignments, and until when the first one owned the partition."""
    return [
        evidence_row("groups", one.from_ns, f"reader {one.reader} assigned"),
        evidence_row("groups", other.from_ns, f"reader {other.reader} assigned"),
        evidence_row("groups", one.until_ns, f"reader {one.reader} {one.ended or 'gave its last sign'}"),
    ]


def offsets_partition(group: str, count: int) -> int:
    """The partition of the offsets topic that holds a group's commits."""
    code = 0
    units = group.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF) % count


def _leadership(elections: Sequence[PartitionEvent], broker: int, at_ns: int) -> PartitionEvent | None:
    """The newest election of a broker up to a time."""
    mine = [event for event in elections if event.broker == broker and event.ns <= at_ns]
    return mine[-1] if mine and broker >= 0 else None


def _times(commit: Commit, answer: FetchedOffset) -> tuple[tuple[Commit | FetchedOffset, int], ...]:
    return (commit, commit.acked_ns), (answer, answer.ns)


def _named(offset: int) -> str:
    return str(offset) if offset >= 0 else "none"


def _by(broker: int) -> str:
    return f" by broker{broker}" if broker >= 0 else ""
