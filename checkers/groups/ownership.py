"""Members of a group that owned a partition at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from checkers.causes import evidence_row
from checkers.groups.history import GroupHistory, Ownership

DOUBLE_OWNERSHIP = "double_ownership"


def shared(known: GroupHistory) -> Iterator[tuple[Ownership, Ownership]]:
    """Pairs of different members, the earlier owner first, that both owned the partition for a while."""
    for number, one in enumerate(known.ownerships):
        for other in known.ownerships[number + 1 :]:
            if other.reader != one.reader and other.from_ns < one.until_ns:
                yield one, other


def ownership_findings(known: GroupHistory) -> Iterator[dict[str, Any]]:
    """Findings about pairs of members that owned the partition at the same time."""
    for one, other in shared(known):
        seconds = (min(one.until_ns, other.until_ns) - other.from_ns) / 1e9
        cause = {
            "lost": f"late notice: reader {one.reader} learnt later that it had lost the partition",
            "revoked": f"late revocation: reader {one.reader} gave the partition up later",
        }.get(one.ended, f"reader {one.reader} is not known to have given the partition up")
        yield {
            "class": DOUBLE_OWNERSHIP,
            "topic": known.topic,
            "partition": known.partition,
            "count": 1,
            "reader": f"group {known.group}",
            "cause": cause,
            "evidence": ownership_rows(one, other),
            "detail": f"readers {one.reader} and {other.reader} owned it together for {seconds:.1f} s",
        }


def ownership_rows(one: Ownership, other: Ownership) -> list[str]:
    """The rows that show two owners: both assignments, and until when the first one owned the partition."""
    return [
        evidence_row("groups", one.from_ns, f"reader {one.reader} assigned"),
        evidence_row("groups", other.from_ns, f"reader {other.reader} assigned"),
        evidence_row("groups", one.until_ns, f"reader {one.reader} {one.ended or 'gave its last sign'}"),
    ]
