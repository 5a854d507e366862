"""Committed offsets that `offsets.retention.minutes` removed.

Since 2.1 (KIP-211, KAFKA-4682) the time counts from when the group became empty, and for a client that is no
member from its last commit. For a group with KIP-848 it counts from the last commit as well, but the offsets
of topics to which the group is subscribed are kept. Before 2.1 it counts from the commit, whether the group
has members or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from checkers.evidence import Evidence, whole_number
from checkers.groups.history import Commit, FetchedOffset, GroupHistory
from checkers.groups.membership import memberships, rows_of_group, vacancies
from checkers.records import evidence_row
from harness.kafka.model import broker_name

RETENTION_CONFIG = "offsets.retention.minutes"
_SINCE_EMPTY = (2, 1)
"""The first version that counts from when the group became empty."""
_MINUTE_NS = 60 * 10**9


@dataclass(frozen=True, kw_only=True)
class Expiry:
    """Why a committed offset may have expired: the setting, and the time that it allowed."""

    minutes: int
    since_ns: int
    """From when the retention counted."""
    since: Mapping[str, int | str]
    """What happened then: `committed_offset`, or `empty_group`, which had no member any more."""
    rows: tuple[str, ...]
    """The rows of the history that this rests on."""


def retention_minutes(evidence: Evidence, broker: int) -> int | None:
    """`offsets.retention.minutes` of the brokers, or of ``broker`` where they differ; None: not recorded."""
    values: dict[str, str] = {}
    for row in evidence.rows("configs"):
        if (row["scope"], row["key"]) == ("broker", RETENTION_CONFIG):
            value = row["asked"] if row["value"] is None else row["value"]
            if value is not None:
                values[row["name"]] = value
    different = set(values.values())
    text = different.pop() if len(different) == 1 else values.get(broker_name(broker), "")
    minutes = whole_number(text)
    return minutes if minutes is not None and minutes >= 0 else None


def expiry(history: GroupHistory, commit: Commit, answer: FetchedOffset) -> Expiry | None:
    """Why the coordinator may have removed a commit before an answer; None if setting or time forbid it."""
    evidence = history.evidence
    minutes = retention_minutes(evidence, answer.broker)
    if minutes is None or answer.offset >= 0:
        return None
    retention_ns = minutes * _MINUTE_NS
    begin = _begin(history, commit, answer, retention_ns)
    if begin is None:
        return None
    since_ns, since = begin
    happened = (
        f"group {since['empty_group']} had no member any more"
        if "empty_group" in since
        else f"offset {since['committed_offset']} committed"
    )
    expired = [
        evidence_row("log_events", row["ns"], f"{row['host']}: {row['text']}")
        for row in evidence.rows("log_events")
        if row["kind"] == "offsets_expired" and since_ns + retention_ns <= row["ns"] <= answer.ns
    ]
    setting = evidence_row("configs", None, f"{RETENTION_CONFIG}={minutes}")
    return Expiry(
        minutes=minutes,
        since_ns=since_ns,
        since=since,
        rows=(setting, evidence_row("groups", since_ns, happened), *expired[:1]),
    )


def _begin(
    history: GroupHistory, commit: Commit, answer: FetchedOffset, retention_ns: int
) -> tuple[int, Mapping[str, int | str]] | None:
    """From when the retention counted, and what happened then, if it ended before the answer."""
    committed = {"committed_offset": commit.offset}
    version = history.evidence.kafka
    if version is not None and version < _SINCE_EMPTY:
        expired = answer.ns - commit.asked_ns >= retention_ns
        return (commit.acked_ns, committed) if expired else None
    rows = rows_of_group(history.evidence, history.group)
    members = memberships(rows)
    empty = vacancies(members, commit.asked_ns, answer.ns)
    if any(row["event"] == "joined" and row["protocol"] == "consumer" for row in rows):
        due_ns = commit.asked_ns + retention_ns
        return (commit.acked_ns, committed) if any(vacancy.until_ns > due_ns for vacancy in empty) else None
    for vacancy in empty:
        if vacancy.until_ns - vacancy.from_ns >= retention_ns:
            if vacancy.from_ns == commit.asked_ns:
                return commit.acked_ns, committed
            return vacancy.from_ns, {"empty_group": history.group}
    return None
