"""Checks of every run: did a process end by itself, did a log complain of something that no fault explains,
did the replicas converge, was the configuration the one that was asked for?

They look at small tables only, and what they find are findings like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.evidence import Evidence
from checkers.known_errors import KNOWN
from checkers.tables.output import FINDING, TALLY, build

CLASSES = ("process_exit", "server_error", "not_converged", "config_mismatch")
"""Findings about the run as such, not about messages."""
_SERIOUS = ("error", "fatal")
_UNANSWERED = "ISR change never answered"


def check_health(evidence: Evidence, findings: Path, tallies: Any) -> Any:
    """Add what is wrong with the run itself to the folder ``findings`` and to the tallies; returns these."""
    rows = [
        *_ended(evidence),
        *_complaints(evidence),
        *_apart(evidence),
        *_configured_otherwise(evidence),
    ]
    if not rows:
        return tallies
    found = pa.Table.from_pylist([{"expected": False, **row} for row in rows], schema=FINDING)
    pq.write_table(found, findings / "health.parquet")
    counted: dict[tuple[str, str | None, int | None], int] = {}
    for row in rows:
        key = (row["class"], row.get("topic"), row.get("partition"))
        counted[key] = counted.get(key, 0) + 1
    more = [
        build(
            TALLY,
            {"kind": "finding", "topic": topic, "partition": partition, "name": name, "count": count},
            1,
        )
        for (name, topic, partition), count in counted.items()
    ]
    return pa.concat_tables([tallies, *more])


def _ended(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Processes that ended although no fault ended them."""
    for row in evidence.rows("processes"):
        if row["event"] == "exited":
            status = "" if row["status"] is None else f" with status {row['status']}"
            yield {"class": "process_exit", "detail": f"{row['host']} ended by itself{status}"}


def _complaints(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """ERROR and FATAL lines; one finding per host and wording, with how often it was said.

    What is known to follow from a fault is no finding once there was one: see `checkers.known_errors`.
    """
    first_fault = min((fault.from_ns for fault in evidence.faults), default=None)
    said: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in evidence.rows("log_events"):
        if row["kind"] not in _SERIOUS:
            continue
        after_fault = first_fault is not None and row["ns"] >= first_fault
        if row["kind"] == "error" and any(
            known.needle in row["text"] and (after_fault or known.any_time) for known in KNOWN
        ):
            continue
        said.setdefault((row["host"], _wording(row["text"])), []).append(row)
    for (host, _), rows in sorted(said.items()):
        level = rows[0]["kind"].upper()
        yield {"class": "server_error", "count": len(rows), "detail": f"{host} {level}: {rows[0]['text']}"}


def _wording(text: str) -> str:
    return "".join("#" if letter.isdigit() else letter for letter in text)[:60]


def _apart(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Partitions that ended with replicas out of sync or of different length.

    Only where all replicas were read whole: else the partition is undetermined, which says enough.
    """
    partitions: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in evidence.rows("replicas"):
        partitions.setdefault((row["topic"], row["partition"]), []).append(row)
    for (topic, partition), rows in sorted(partitions.items()):
        if len(rows) < 2 or not all(row["complete"] for row in rows):
            continue
        outside = [row["broker"] for row in rows if row["in_sync"] is False]
        if outside and not all(row["in_sync"] is False for row in rows):
            ends = ", ".join(f"broker {row['broker']} to {row['leo']}" for row in rows)
            leader = next((row["broker"] for row in rows if row["leader"]), None)
            yield {
                "class": "not_converged",
                "topic": topic,
                "partition": partition,
                "brokers": outside,
                "cause": _UNANSWERED if _unanswered(evidence, topic, partition, leader) else None,
                "detail": f"not in the ISR at the end; logs reach: {ends}",
            }


def _unanswered(evidence: Evidence, topic: str, partition: int, leader: int | None) -> bool:
    """Whether the leader set out to change the ISR and never heard that it was changed (KAFKA-12751)."""
    told = [
        row["kind"]
        for row in evidence.rows("log_events")
        if row["host"] == f"broker{leader}"
        and (row["topic"], row["partition"]) == (topic, partition)
        and row["kind"] in ("isr_shrinking", "isr_expanding", "isr_updated")
    ]
    return bool(told) and told[-1] != "isr_updated"


def _configured_otherwise(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Keys that took another value than was asked for; the harness refuses such a run before it begins."""
    for row in evidence.rows("configs"):
        asked, value = row["asked"], row["value"]
        if asked is not None and value is not None and asked != value:
            yield {
                "class": "config_mismatch",
                "detail": f"{row['scope']} {row['name']}: {row['key']}={asked} was asked for, "
                f"{row['key']}={value} took effect",
            }
