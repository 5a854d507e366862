"""What deliveries to readers show: aborted reads, conflicting offsets, skips, going back, replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.independent.choices import Choices
from tests.independent.model import Finding, History, MessageId, Row, message_id

if TYPE_CHECKING:
    from tests.independent.truth import PartitionJudge as Judge


def findings(history: History, judge: Judge, choices: Choices) -> Counter[Finding]:
    """Findings of one partition's deliveries."""
    found: Counter[Finding] = Counter()
    topic, partition = judge.partition.at
    for message in aborted_reads(history, judge, choices):
        found[Finding("aborted_read", topic, partition, None, *message)] += 1
    for offset in unsent_deliveries(judge):
        found[Finding(choices.unsent_delivery, topic, partition, offset)] += 1
    for message in offset_conflicts(judge, choices):
        found[Finding("offset_conflict", topic, partition, None, *message)] += 1
    events = [row for row in history.get("groups", ()) if _concerns(row, judge)]
    for reader in sorted({row["reader"] for row in judge.partition.reads}):
        rows = [row for row in judge.partition.reads if row["reader"] == reader]
        found[Finding("skip", topic, partition)] += skips(history, judge, rows, events)
        found[Finding("non_monotonic", topic, partition)] += steps_back(judge, rows, events)
        found[Finding("replay", topic, partition)] += replays(judge, rows, events, choices)
    return +found


def _concerns(row: Row, judge: Judge) -> bool:
    """Whether a group event is about this partition; one that names none is about all."""
    topic, partition = judge.partition.at
    return row.get("topic") in (None, topic) and row.get("partition") in (None, partition)


def _sought(events: list[Row], before: Row, after: Row) -> bool:
    """Whether the reader, or a member of its group, sought between two deliveries."""
    return any(
        event["event"] == "sought"
        and before["ns"] <= event["ns"] <= after["ns"]
        and (event["reader"] == after["reader"] or (after.get("group") and event["group"] == after["group"]))
        for event in events
    )


# ---- messages that are not there


def _aborted(history: History, message: MessageId, send: Row) -> bool:
    return _transaction(history, message, send) == "aborted"


def _transaction(history: History, message: MessageId, send: Row) -> str:
    """`none`, `committed`, `aborted` or `unknown`: how the transaction of the message ended."""
    if send.get("txn") is None:
        return "none"
    ends = {
        row["event"]
        for row in history.get("transactions", ())
        if row["writer"] == message[0] and row["txn"] == send["txn"]
    }
    return next((event for event in ("aborted", "committed") if event in ends), "unknown")


def aborted_reads(history: History, judge: Judge, choices: Choices) -> Iterator[MessageId]:
    """`a reader was handed a message that definitely failed, was aborted, or never became part of the
    log`.
    """
    for message, send in judge.partition.sends.items():
        reads = [row for row in judge.partition.reads if message_id(row) == message]
        if not reads:
            continue
        fate = judge.fates[message]
        committed = [row for row in reads if row.get("isolation") == "read_committed"]
        if fate == "failed":  # one that is in the log is a phantom, and told as such
            guilty = reads
        elif _aborted(history, message, send) and committed:
            guilty = committed
        elif (
            fate == "unknown_dropped"
            and not judge.may_be_retired(message)
            and not _held(judge, message, choices)
        ):
            guilty = reads
        else:
            continue
        yield from [message] * (
            len({row["reader"] for row in guilty}) if choices.aborted_read_per_reader else 1
        )


def _held(judge: Judge, message: MessageId, choices: Choices) -> bool:
    """Whether a follower's copy tells of the message already (an in-sync one, as `diverged`)."""
    logs = judge.partition.logs.values()
    holders = [log for log in logs if judge.good(log, message) or judge.bad(log, message)]
    if any(judge.in_sync(log) for log in holders):
        return not choices.dropped_in_sync_is_aborted_read
    return bool(holders) and not choices.dropped_outside_is_aborted_read


def unsent_deliveries(judge: Judge) -> Iterator[int]:
    """Offsets at which readers were handed what nobody sent, and where no log holds it."""
    told: set[tuple[int, MessageId | None]] = set()
    for row in judge.partition.reads:
        message, offset = message_id(row), row["offset"]
        if message is not None and message in judge.judge.home:
            continue
        stands = any(
            offset in log.records and judge.kind(log.records[offset]) in ("foreign", "unreadable")
            for log in judge.partition.logs.values()
        )
        if not stands and (offset, message) not in told:
            told.add((offset, message))
            yield offset


# ---- messages that stand elsewhere


def offset_conflicts(judge: Judge, choices: Choices) -> Iterator[MessageId]:
    """`a reader was handed a message at an offset that is another message's, and both are kept`."""
    kept = ("kept", "unknown_kept")
    told: set[tuple[object, ...]] = set()
    for row in judge.partition.reads:
        message, offset = message_id(row), row["offset"]
        stands = judge.reference.records.get(offset) if judge.reference else None
        other = message_id(stands) if stands is not None and judge.kind(stands) == "copy" else None
        if message is None or other == message:
            continue
        if other is None and not (stands is None and choices.conflict_with_nothing):
            continue
        key = (message, offset, row["reader"] if choices.conflict_per_reader else None)
        both = judge.fates.get(message) in kept and (other is None or judge.fates.get(other) in kept)
        if both and key not in told:
            told.add(key)
            yield message


# ---- the order of deliveries


def skips(history: History, judge: Judge, rows: list[Row], events: list[Row]) -> int:
    """`a reader jumped over messages that are in the final log, without having sought`."""
    jumps = 0
    for before, after in pairwise(rows):
        if not _sought(events, before, after):
            between = range(before["offset"] + 1, after["offset"])
            jumps += any(_was_due(history, judge, offset, after) for offset in between)
    return jumps


def _was_due(history: History, judge: Judge, offset: int, after: Row) -> bool:
    """Whether the reader of ``after`` should have been handed the message at ``offset`` before."""
    stands = judge.reference.records.get(offset) if judge.reference else None
    if stands is None or judge.kind(stands) != "copy":
        return False  # markers, gaps, and records that have a finding of their own
    message = message_id(stands)
    assert message is not None
    send = judge.partition.sends[message]
    if send["sent_ns"] > after["ns"]:
        return False  # what stands there now was sent after the read: the offset was used again
    uncommitted = after.get("isolation") == "read_uncommitted"
    if not uncommitted and _transaction(history, message, send) not in _delivered(judge):
        return False  # not for those who read what is committed
    group = after.get("group")
    return not any(
        message_id(row) == message or row["offset"] == offset
        for row in judge.partition.reads
        if row["reader"] == after["reader"] or (group is not None and row.get("group") == group)
    )


def _delivered(judge: Judge) -> tuple[str, ...]:
    """Ends of transactions whose messages a reader of committed messages is surely handed."""
    return (
        ("none", "committed", "unknown")
        if judge.choices.unknown_transaction_is_committed
        else ("none", "committed")
    )


def steps_back(judge: Judge, rows: list[Row], events: list[Row]) -> int:
    """`a reader assigned by hand went back, without having sought and although what it had read still
    stands`.
    """
    steps = 0
    for before, after in pairwise(rows):
        stands = judge.reference.records.get(before["offset"]) if judge.reference else None
        steps += (
            after.get("group") is None
            and after["offset"] <= before["offset"]
            and stands is not None
            and message_id(stands) == message_id(before)
            and not _sought(events, before, after)
        )
    return steps


def replays(judge: Judge, rows: list[Row], events: list[Row], choices: Choices) -> int:
    """`a consumer group was handed again what it had committed; what it had not committed it may be`.

    One finding a time the group goes back, however many records it is handed again.
    """
    episodes = 0
    told = explained = False
    for before, row in zip([None, *rows], rows, strict=False):
        if before is None or row["offset"] <= before["offset"] or _changed_hands(judge, before, row):
            told, explained = False, _sought(events, before or {**row, "ns": 0}, row)
        if not told and not explained and _again(judge, row, events, choices):
            told = True
            episodes += 1
    return episodes


def _changed_hands(judge: Judge, before: Row, after: Row) -> bool:
    """Whether another member of the group was handed something of the partition between two deliveries."""
    return any(
        row.get("group") == after.get("group")
        and row["reader"] != after["reader"]
        and before["ns"] < row["ns"] < after["ns"]
        for row in judge.partition.reads
    )


def _again(judge: Judge, row: Row, events: list[Row], choices: Choices) -> bool:
    """Whether the group had been handed this very record before, and had committed it."""
    group = row.get("group")
    if group is None:
        return False
    commits = [
        (event["ns"], event["offset"])
        for event in events
        if event["event"] == "committed"
        and event["group"] == group
        and event["ns"] <= row["ns"]
        and event.get("offset") is not None
    ]
    if not commits:
        return False
    committed = max(commits)[1] if choices.newest_commit_counts else max(offset for _, offset in commits)
    return row["offset"] < committed and any(
        earlier["ns"] < row["ns"]
        and earlier.get("group") == group
        and earlier["offset"] == row["offset"]
        and message_id(earlier) == message_id(row)
        for earlier in judge.partition.reads
    )
