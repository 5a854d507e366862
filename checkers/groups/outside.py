"""Committed offsets of groups that are not in the log of a watched topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from checkers.evidence import Evidence, Row
from checkers.records import evidence_row, facts_text

OUTSIDE = "offset_outside"


def outside_findings(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """One for each group and partition whose newest answer lies before the leader's log or behind it."""
    leaders = {
        (row["topic"], row["partition"]): row
        for row in evidence.rows("replicas")
        if row["watched_from"] is not None and row["leader"]
    }
    newest: dict[tuple[str, str, int], Row] = {}
    for row in sorted(evidence.rows("groups") if leaders else [], key=lambda row: int(row["ns"])):
        if row["event"] == "fetched" and row["topic"] is not None and not row["error"]:
            newest[row["group"], row["topic"], row["partition"]] = row
    for (group, topic, partition), row in sorted(newest.items()):
        leader, offset = leaders.get((topic, partition)), row["offset"]
        if leader is None or offset is None or None in (leader["log_start"], leader["leo"]):
            continue
        if leader["log_start"] <= offset <= leader["leo"]:
            continue
        said = f"group {group} committed offset {offset}"
        yield {
            "class": OUTSIDE,
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "count": 1,
            "reader": f"group {group}",
            "evidence": [evidence_row("groups", row["ns"], said)],
            "detail": facts_text(
                offset=offset, log_start=leader["log_start"], leo=leader["leo"], broker=leader["broker"]
            ),
        }
