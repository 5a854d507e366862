"""What readers received: aborted reads, conflicting offsets, skips, steps back, replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.independent import groups, positions
from tests.independent.model import Finding, History, MessageId, Row, message_id

if TYPE_CHECKING:
    from tests.independent.truth import PartitionJudge as Judge


def findings(history: History, judge: Judge) -> Counter[Finding]:
    """Findings of one partition's readers."""
    findings_of_readers: Counter[Finding] = Counter()
    topic, partition = judge.partition.at
    for message in aborted_reads(judge):
        findings_of_readers[Finding("aborted_read", topic, partition, None, *message)] += 1
    for offset, _ in unsent(judge):
        findings_of_readers[Finding("aborted_read", topic, partition, offset)] += 1
    for message, offset in offset_conflicts(judge):
        findings_of_readers[Finding("offset_conflict", topic, partition, offset, *message)] += 1
    events = [row for row in history.get("groups", ()) if _concerns(row, judge)]
    for stream in streams(judge.partition.reads):
        for before, after in pairwise(stream):
            name = step(judge, stream, events, before, after)
            if name in ("skip", "replay") and removed(history, judge, before, after):
                continue  # `then the finding is offset_expired or group_reset`
            if name:
                findings_of_readers[Finding(name, topic, partition)] += 1
            if committed_past(judge, stream, events, before, after):
                findings_of_readers[Finding("skip", topic, partition)] += 1
    return findings_of_readers


def removed(history: History, judge: Judge, before: Row, after: Row) -> bool:
    """`the member's position had been removed`: its committed offset expired, or it was not in the log."""
    group, at = after.get("group"), judge.partition.at
    if group is None:
        return False
    if any(
        row["reader"] == after["reader"] and row["ns"] == after["ns"]
        for _, row in positions.resets(history, at, group)
    ):
        return True
    rows = [
        row for row in positions.of_group(history, group) if (row.get("topic"), row.get("partition")) == at
    ]
    told = [
        row
        for row in rows
        if row["event"] == "assigned"
        and row["reader"] == after["reader"]
        and before["ns"] <= row["ns"] <= after["ns"]
        and row.get("asked_ns") is not None
        and not row.get("error")
    ]
    return bool(told) and groups.of_answer(rows, told[-1], history) == "offset_expired"


def _concerns(row: Row, judge: Judge) -> bool:
    """Whether a group event is about this partition.

    An event without a partition is about all of them, except a commit, which then means nothing.
    """
    place = row.get("topic"), row.get("partition")
    return place == judge.partition.at or (place == (None, None) and row["event"] != "committed")


# ---- messages that are not there


def aborted_reads(judge: Judge) -> Iterator[MessageId]:
    """`a reader received a message that definitely failed, was aborted, or is not part of the final log`."""
    for message, send in judge.partition.sends.items():
        reads = [row for row in judge.partition.reads if message_id(row) == message]
        fate = judge.fates[message]
        if judge.judge.transaction(message, send) == "aborted":
            # `only readers with read_committed must not receive what was aborted`
            guilty = any(row.get("isolation") == "read_committed" for row in reads)
        elif fate == "failed":
            guilty = bool(reads)
        elif fate == "unknown_dropped":
            # `If an in-sync follower holds the message of unknown outcome that a reader received, the finding
            # is diverged. A message that was read where retention or compaction may have removed it since
            # was part of the log.`
            told = any(
                log.counts_as_in_sync and judge.good(log, message) for log in judge.partition.logs.values()
            )
            guilty = not told and any(not judge.retired_at(row["offset"], message) for row in reads)
        else:
            guilty = False
        if guilty:
            yield message


def unsent(judge: Judge) -> set[tuple[int, object]]:
    """`A record that nobody sent to the partition is a finding of the reader if no replica holds that record
    (or a damaged one) at its offset.`
    """
    records: set[tuple[int, object]] = set()
    if not judge.judge.producers_recorded:
        return records
    for row in judge.partition.reads:
        offset = row["offset"]
        if message_id(row) in judge.partition.sends:
            continue
        stands = any(
            log.records[offset].get("intact") is False
            or (log.records[offset].get("writer"), log.records[offset].get("seq"))
            == (row.get("writer"), row.get("seq"))
            for log in judge.partition.logs.values()
            if offset in log.records and judge.kind(log, offset) != "marker"
        )
        if not stands:
            records.add((offset, (row.get("writer"), row.get("seq"))))
    return records


# ---- messages that are elsewhere


def offset_conflicts(judge: Judge) -> set[tuple[MessageId, int]]:
    """`a reader received a message at another offset than the one that it has in the final log`; `it does
    not matter whether another message or nothing is at the offset`.
    """
    conflicts: set[tuple[MessageId, int]] = set()
    for row in judge.partition.reads:
        message, offset = message_id(row), row["offset"]
        send = judge.partition.sends.get(message) if message is not None else None
        if message is None or send is None or judge.fates[message] == "corrupt":
            continue
        here = judge.held(judge.reference, message)
        if judge.judge.transaction(message, send) == "aborted" and row.get("isolation") == "read_committed":
            continue  # an aborted read
        # `A message that was read at the offset of its acknowledgement, or where retention or compaction may
        # have removed a copy of it, is not a conflict.`
        if (
            here
            and offset not in here
            and offset != send.get("offset")
            and not judge.retired_at(offset, message)
        ):
            conflicts.add((message, offset))
    return conflicts


# ---- the order in which they were received


def streams(reads: list[Row]) -> list[list[Row]]:
    """`the members of a consumer group are one reader`; what each reader received, in order."""
    rows_by_stream: dict[tuple[str, object], list[Row]] = {}
    for row in reads:
        group = row.get("group")
        rows_by_stream.setdefault(
            ("reader", row["reader"]) if group is None else ("group", group), []
        ).append(row)
    return list(rows_by_stream.values())


def step(judge: Judge, stream: list[Row], events: list[Row], before: Row, after: Row) -> str:
    """What is wrong with a step from one record to the next; empty if nothing is."""
    between = [
        event
        for event in events
        if before["ns"] <= event["ns"] <= after["ns"] and event["reader"] == after["reader"]
    ]
    assigned = [event["ns"] for event in between if event["event"] == "assigned"]
    group = after.get("group")
    if any(event["event"] == "sought" for event in between):
        return ""
    if group is None and assigned:
        return ""  # `a reader that was assigned the partition again may start anywhere`
    if after["offset"] <= before["offset"]:
        return step_back(judge, events, before, after)
    low = before["offset"]
    if group is not None and (assigned or before["reader"] != after["reader"]):
        # `A member that takes over a partition starts at the offset that was committed by then: when it was
        # assigned the partition or, if groups does not say when, by another member before it received
        # anything. What lies before that offset is not skipped. A group that never committed may start
        # anywhere.`
        if assigned:
            start = committed(events, group, max(assigned))
        else:
            start = committed(events, group, after["ns"], but=after["reader"])
        if start is None:
            return ""
        low = max(low, start - 1)
    passed = any(
        due(judge, stream, events, offset, before, after) for offset in range(low + 1, after["offset"])
    )
    return "skip" if passed else ""


def committed_past(judge: Judge, stream: list[Row], events: list[Row], before: Row, after: Row) -> bool:
    """`a member committed past what it had received, and another one, or itself, went on from there`."""
    group, member = after.get("group"), before["reader"]
    between = [e for e in events if before["ns"] <= e["ns"] <= after["ns"] and e["reader"] == after["reader"]]
    taken = [event["ns"] for event in between if event["event"] == "assigned"]
    if group is None or after["offset"] <= before["offset"] or not (taken or member != after["reader"]):
        return False
    if any(event["event"] == "sought" for event in between):
        return False
    commits = [
        (event["ns"], event["offset"], event["reader"])
        for event in events
        if event["event"] == "committed" and event["group"] == group and event.get("offset") is not None
        if (event["ns"] <= max(taken) if taken else event["reader"] != after["reader"])
        if event["ns"] <= after["ns"]
    ]
    ns, offset, committer = max(commits, default=(-1, -1, -1))
    if committer != member or ns <= before["ns"]:
        return False
    # `It had been assigned the partition before, and nothing moved it in between.`
    placed = [
        event
        for event in events
        if event["reader"] == member
        and event["event"] in ("assigned", "sought", "revoked", "lost")
        and event["ns"] <= ns
    ]
    if not any(event["event"] == "assigned" for event in placed):
        return False
    if any(event["ns"] >= before["ns"] for event in placed):
        return False
    # `never handed to any member`: whatever time, seeks or not
    handed = {message_id(row) for row in stream}
    as_of = {**before, "ns": ns}
    return any(
        due(judge, [], [], number, as_of, as_of)
        and judge.reference is not None
        and message_id(judge.reference.records[number]) not in handed
        for number in range(before["offset"] + 1, offset)
    )


def committed(events: list[Row], group: str, until: int, but: int | None = None) -> int | None:
    """The group's newest commit (of other members than ``but``)."""
    commits = [
        (event["ns"], event["offset"])
        for event in events
        if event["event"] == "committed"
        and event["group"] == group
        and event["ns"] <= until
        and event["reader"] != but
        and event.get("offset") is not None
    ]
    return max(commits)[1] if commits else None


def step_back(judge: Judge, events: list[Row], before: Row, after: Row) -> str:
    """`non_monotonic` or `replay`, unless its last record is gone or the group had not committed it."""
    stands = judge.reference.records.get(before["offset"]) if judge.reference else None
    if stands is None or message_id(stands) != message_id(before):
        return ""
    if after.get("group") is None:
        return "non_monotonic"
    commit = committed(events, after["group"], after["ns"])
    return "replay" if commit is not None and after["offset"] < commit else ""


def due(judge: Judge, stream: list[Row], events: list[Row], offset: int, before: Row, after: Row) -> bool:
    """Whether the reader should have received the message at ``offset`` between two records."""
    if judge.reference is None or offset not in judge.reference.records:
        return False
    if judge.kind(judge.reference, offset) != "copy":
        return False  # markers, and records that have a finding of their own
    message = message_id(judge.reference.records[offset])
    assert message is not None
    send = judge.partition.sends[message]
    if send["sent_ns"] > after["ns"]:
        return False  # `a message that was sent after the read`
    transaction = judge.judge.transaction(message, send)
    if after.get("isolation") != "read_uncommitted" and transaction not in ("none", "committed"):
        return False  # `that its isolation level hides (with read_committed, unless … known to be committed)`
    # `or that it received before or after, without a seek in between`
    readers = {row["reader"] for row in stream}
    group = after.get("group")
    seeks = [
        event["ns"]
        for event in events
        if event["event"] == "sought"
        and (event["group"] == group if group is not None else event["reader"] in readers)
    ]
    since = max((ns for ns in seeks if ns <= before["ns"]), default=None)
    until = min((ns for ns in seeks if ns >= after["ns"]), default=None)
    return not any(
        message_id(row) == message
        and (since is None or row["ns"] >= since)
        and (until is None or row["ns"] <= until)
        for row in stream
    )
