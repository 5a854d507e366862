"""Why a reader received a record that does not follow the one before: the causes of skips and replays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from checkers.causes import Causes, or_minus_one, stale_leader
from checkers.evidence import Evidence
from checkers.groups.commits import COMMIT_LOST, EXPIRED, judge
from checkers.groups.history import FetchedOffset, GroupHistory, group_histories, named_offset
from checkers.groups.ownership import ownership_rows, shared
from checkers.groups.resets import resets
from checkers.records import Cause, evidence_row
from harness.kafka.model import TopicPartition


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


def cause_of_step(history: GroupHistory, step: StreamStep) -> Cause:
    """Why a member received a record that does not follow the group's previous one."""
    reader = step.reader
    if step.committed is not None:
        what = f"offset {step.committed} acknowledged"
        facts = {"reader": reader, "offset": step.committed}
        return Cause(kind="commit_past_position", facts=facts, rows=(evidence_row("groups", step.ns, what),))
    assigned = [
        row
        for row in history.rows
        if row["event"] == "assigned" and row["reader"] == reader and step.before_ns <= row["ns"] <= step.ns
    ]
    if not assigned:
        return _both_owned(history, step) or Cause(kind="unexplained")
    row = assigned[-1]
    rows = [
        evidence_row(
            "groups",
            row["ns"],
            f"reader {reader} assigned, at offset {named_offset(or_minus_one(row['offset']))}",
        )
    ]
    answer = next(
        (answer for answer in history.answers if (answer.reader, answer.ns) == (reader, row["ns"])), None
    )
    verdict = judge(history, answer) if answer is not None else None
    if verdict is not None:
        cause = replace(verdict.cause, rows=(*rows, *verdict.cause.rows))
        if verdict.name == COMMIT_LOST:
            return replace(cause, kind="commit_lost", facts={"because": cause.kind, **cause.facts})
        return cause
    asked_ns = row["ns"] if answer is None else answer.asked_ns
    later = [
        commit
        for commit in history.commits
        if asked_ns <= commit.acked_ns <= step.ns and commit.reader != reader
    ]
    if step.back and later:
        acked = evidence_row("groups", later[-1].acked_ns, f"offset {later[-1].offset} acknowledged")
        facts = {"reader": reader, "offset": later[-1].offset}
        return Cause(kind="assigned_before_commit", facts=facts, rows=(*rows, acked))
    return Cause(kind="unexplained")


def _both_owned(history: GroupHistory, step: StreamStep) -> Cause | None:
    """That the receivers of both records owned the partition together, at some time between these."""
    for earlier, other in shared(history):
        together = other.from_ns <= step.ns and step.before_ns <= earlier.until_ns
        if other.ended:
            together &= step.before_ns <= other.until_ns
        if together and {earlier.reader, other.reader} == {step.reader, step.before_reader}:
            facts = {"readers": [step.before_reader, step.reader]}
            return Cause(kind="two_owners", facts=facts, rows=tuple(ownership_rows(earlier, other)))
    return None


@dataclass(frozen=True, kw_only=True)
class StepCauses:
    """The cause of each step; a step without a group may have none."""

    causes: Causes
    own: pa.Array
    """Whether the step is a finding of its own. It is none if an expired offset or a reset explains it, since
    that is the finding."""


def causes_of_steps(
    evidence: Evidence, topic: str, partition: int, steps: Sequence[StreamStep]
) -> StepCauses:
    """The causes of steps of one topic partition."""
    histories = group_histories(evidence) if any(step.group is not None for step in steps) else {}
    causes: list[Cause | None] = []
    own: list[bool] = []
    for step in steps:
        own.append(
            step.group is None or not _has_finding(histories.get((step.group, topic, partition)), step)
        )
        if step.group is None:
            causes.append(
                _stale_leader(evidence, TopicPartition(topic, partition), step) if step.back else None
            )
            continue
        place = step.group, topic, partition
        causes.append(cause_of_step(histories.get(place) or GroupHistory(evidence, *place, ()), step))
    return StepCauses(causes=Causes.of(causes), own=pa.array(own, pa.bool_()))


def _stale_leader(evidence: Evidence, where: TopicPartition, step: StreamStep) -> Cause | None:
    """A leader that was deposed when a reader went back.

    It does not have what its successor appended, so it answers that the reader's position is out of range.
    A client that accepts the older leader epoch then starts again where `auto.offset.reset` says (KIP-320).
    """
    return stale_leader(evidence, where, known_ns=step.before_ns, ns=step.ns)


def _has_finding(history: GroupHistory | None, step: StreamStep) -> bool:
    """Whether another finding is about the member's new position: a reset, or an expired offset."""
    if history is not None and any(
        (reset.reader, reset.ns) == (step.reader, step.ns) for reset in resets(history)
    ):
        return True
    answer = _answer_before(history, step) if history is not None and step.committed is None else None
    verdict = judge(history, answer) if history is not None and answer is not None else None
    return verdict is not None and verdict.name == EXPIRED


def _answer_before(history: GroupHistory, step: StreamStep) -> FetchedOffset | None:
    """What the member was told when it was last assigned the partition, between the two records."""
    answers = [
        answer
        for answer in history.answers
        if answer.stable and answer.reader == step.reader and step.before_ns <= answer.ns <= step.ns
    ]
    return answers[-1] if answers else None
