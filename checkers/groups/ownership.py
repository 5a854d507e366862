"""Members of a group that owned a partition at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from checkers.groups.history import GroupHistory, Ownership
from checkers.records import evidence_row, facts_text

DOUBLE_OWNERSHIP = "double_ownership"


def shared(history: GroupHistory) -> Iterator[tuple[Ownership, Ownership]]:
    """Pairs of different members, the earlier owner first, that both owned the partition for a while."""
    for number, earlier in enumerate(history.ownerships):
        for other in history.ownerships[number + 1 :]:
            if other.reader != earlier.reader and other.from_ns < earlier.until_ns:
                yield earlier, other


def ownership_findings(history: GroupHistory) -> Iterator[dict[str, Any]]:
    """Findings about pairs of members that owned the partition at the same time."""
    for earlier, other in shared(history):
        seconds = (min(earlier.until_ns, other.until_ns) - other.from_ns) / 1e9
        kind = {"lost": "late_notice", "revoked": "late_revocation"}.get(earlier.ended, "no_revocation")
        yield {
            "class": DOUBLE_OWNERSHIP,
            "topic": history.topic,
            "partition": history.partition,
            "count": 1,
            "reader": f"group {history.group}",
            "cause": kind,
            "cause_facts": facts_text(reader=earlier.reader),
            "evidence": ownership_rows(earlier, other),
            "detail": facts_text(readers=[earlier.reader, other.reader], seconds=round(seconds, 3)),
        }


def ownership_rows(one: Ownership, other: Ownership) -> list[str]:
    """The rows that show two owners: both assignments, and until when the first one owned the partition."""
    return [
        evidence_row("groups", one.from_ns, f"reader {one.reader} assigned"),
        evidence_row("groups", other.from_ns, f"reader {other.reader} assigned"),
        evidence_row("groups", one.until_ns, f"reader {one.reader} {one.ended or 'gave its last sign'}"),
    ]
