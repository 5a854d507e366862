"""Answers with an older offset than one that had been acknowledged, and why the commits are gone.

A committed offset is a register: an answer may name any commit, unless a later one had certainly replaced it
before the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from checkers.causes import PartitionEvent, storage_cause, unclean_election
from checkers.evidence import FaultSpan
from checkers.groups.expiry import expiry
from checkers.groups.history import Commit, FetchedOffset, GroupHistory, by_broker, named_offset
from checkers.records import Cause, evidence_row, facts_text
from harness.kafka.model import broker_name

COMMIT_LOST, STALE_OFFSET, EXPIRED = "commit_lost", "stale_offset", "offset_expired"
COMMIT_CLASSES = (COMMIT_LOST, STALE_OFFSET, EXPIRED)


@dataclass(frozen=True, kw_only=True)
class OffsetFinding:
    """The finding about an answer with an older offset than one that had been acknowledged."""

    name: str
    """One of `COMMIT_CLASSES`."""
    lost: Sequence[Commit]
    """The acknowledged commits that the answer does not know, the newest last."""
    cause: Cause


def judge(history: GroupHistory, answer: FetchedOffset) -> OffsetFinding | None:
    """What is wrong with an answer; None if nothing is, or if the history does not decide it."""
    newest = -2
    for commit in history.commits:
        if commit.offset != answer.offset or commit.asked_ns > answer.ns:
            continue
        if commit.acked_ns < 0 or (commit.transactional and not answer.stable):
            return None
        newest = max(newest, commit.acked_ns)
    lost = [
        commit
        for commit in history.commits
        if 0 <= commit.acked_ns < answer.asked_ns
        and commit.offset > answer.offset
        and commit.asked_ns > newest
        and (answer.stable or not commit.transactional)
    ]
    return _explained(history, answer, lost) if lost else None


def _explained(history: GroupHistory, answer: FetchedOffset, lost: Sequence[Commit]) -> OffsetFinding:
    commit = lost[-1]
    place, elections = history.offsets_log, history.coordinators
    rows = [
        evidence_row(
            "groups", commit.acked_ns, f"offset {commit.offset} acknowledged{by_broker(commit.broker)}"
        ),
        evidence_row(
            "groups", answer.ns, f"offset {named_offset(answer.offset)} answered{by_broker(answer.broker)}"
        ),
    ]

    def finding(name: str, cause: Cause) -> OffsetFinding:
        return OffsetFinding(name=name, lost=lost, cause=replace(cause, rows=(*rows, *cause.rows)))

    before = _leadership(elections, commit.broker, commit.acked_ns)
    after = _leadership(elections, answer.broker, answer.ns)
    if before is not None and after is not None and after.epoch < before.epoch:
        facts = {"broker": answer.broker, "leader": before.broker, "epoch": before.epoch}
        stale = Cause(
            kind="stale_coordinator", facts={**facts, "partition": str(place)}, rows=(before.row(),)
        )
        return finding(STALE_OFFSET, stale)
    replaced = before is not None and after is not None and after.epoch > before.epoch
    later = [
        other for other in history.answers if other.asked_ns > answer.ns and other.offset == commit.offset
    ]
    if later and not replaced:
        seen = f"offset {commit.offset} answered{by_broker(later[0].broker)}"
        row = evidence_row("groups", later[0].ns, seen)
        return finding(STALE_OFFSET, Cause(kind="stale_coordinator", rows=(row,)))
    since = [event for event in elections if commit.acked_ns < event.ns <= answer.ns]
    if replaced and before is not None and after is not None:
        since = [event for event in elections if before.epoch < event.epoch <= after.epoch]
    unclean = next(filter(None, (unclean_election(event, partition=str(place)) for event in since)), None)
    if unclean is not None:
        return finding(COMMIT_LOST, unclean)
    fault = _storage_fault(history, commit, answer)
    if fault is not None:
        broker = commit.broker if commit.broker >= 0 else _broker_hit(fault, since, answer)
        return finding(COMMIT_LOST, storage_cause(history.evidence, place, fault, broker))
    removed = expiry(history, commit, answer)
    if removed is not None:
        expired = {"minutes": removed.minutes, **removed.since}
        return finding(EXPIRED, Cause(kind="offset_retention", facts=expired, rows=removed.rows))
    if replaced and after is not None:
        leads = {"broker": after.broker, "epoch": after.epoch, "partition": str(place)}
        return finding(COMMIT_LOST, Cause(kind="new_coordinator", facts=leads, rows=(after.row(),)))
    return finding(COMMIT_LOST, Cause(kind="unexplained"))


def _leadership(elections: Sequence[PartitionEvent], broker: int, at_ns: int) -> PartitionEvent | None:
    """The newest election of a broker up to a time."""
    own = [event for event in elections if event.broker == broker and event.ns <= at_ns]
    return own[-1] if own and broker >= 0 else None


def _storage_fault(history: GroupHistory, commit: Commit, answer: FetchedOffset) -> FaultSpan | None:
    """A storage fault that took the commit: a replica that it hit led the group's offsets next.

    A spared replica that leads instead still has the commit, if it was in the ISR.
    """
    hits = [
        fault
        for fault in history.evidence.data_losses(history.offsets_log)
        if commit.acked_ns <= fault.from_ns <= answer.ns
    ]
    hosts = {host for fault in hits for host in fault.hosts}
    for fault in hits:
        since = [event for event in history.coordinators if fault.from_ns < event.ns <= answer.ns]
        leader = since[0].broker if since else answer.broker
        if broker_name(leader) in hosts or (leader < 0 and not history.coordinators):
            return fault
    return None


def _broker_hit(fault: FaultSpan, since: Sequence[PartitionEvent], answer: FetchedOffset) -> int:
    """The broker that led after a storage fault; the one that answered if no view says so."""
    later = [event.broker for event in since if event.ns > fault.from_ns]
    return later[0] if later else answer.broker


def commit_findings(history: GroupHistory) -> Iterator[dict[str, Any]]:
    """One finding per class and cause: the newest commit that answers do not know, and the lowest answer."""
    alike: dict[tuple[str, str, str | None], list[tuple[FetchedOffset, OffsetFinding]]] = {}
    for answer in history.answers:
        verdict = judge(history, answer)
        if verdict is not None:
            key = (verdict.name, verdict.cause.kind, verdict.cause.text)
            alike.setdefault(key, []).append((answer, verdict))
    for (name, kind, facts), answers in alike.items():
        lost = {commit for _, verdict in answers for commit in verdict.lost}
        newest = max(lost, key=lambda commit: (commit.acked_ns, commit.offset))
        answer, verdict = min(answers, key=lambda one: (newest not in one[1].lost, one[0].offset))
        yield {
            "class": name,
            "topic": history.topic,
            "partition": history.partition,
            "offset": newest.offset,
            "found_offset": answer.offset if answer.offset >= 0 else None,
            "count": len(lost),
            "acked_ns": newest.acked_ns,
            "acked_by": newest.broker if newest.broker >= 0 else None,
            "reader": f"group {history.group}",
            "cause": kind,
            "cause_facts": facts,
            "evidence": list(verdict.cause.rows),
            "detail": facts_text(
                acknowledged=newest.offset,
                acknowledged_by=newest.broker if newest.broker >= 0 else None,
                answered=answer.offset if answer.offset >= 0 else None,
                answered_by=answer.broker if answer.broker >= 0 else None,
            ),
        }
