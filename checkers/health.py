"""Checks that apply to every run: processes, logs, replicas, configuration, transactions, groups.

They read only small tables. Their results are findings like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from checkers.convergence import incomplete_isrs
from checkers.evidence import Evidence, first_injection
from checkers.groups.findings import GROUP_CLASSES, group_findings
from checkers.known_errors import KNOWN_ERRORS
from checkers.partition.messages import FOREVER
from checkers.records import facts_text
from checkers.tables.files import inside, write_parquet
from checkers.tables.output import FINDING, TALLY, build
from checkers.transactions.hung import hung_transactions

HEALTH_CLASSES = (
    "process_exit",
    "server_error",
    "not_converged",
    "config_mismatch",
    "hung_transaction",
    *GROUP_CLASSES,
)
"""Findings about the run itself, not about messages."""
SERIOUS = ("error", "fatal")


def check_health(evidence: Evidence, findings: Path | str, tallies: pa.Table) -> pa.Table:
    """Write findings about the run itself to the folder ``findings``; returns the tallies with them."""
    rows = [
        *_process_exits(evidence),
        *_server_errors(evidence),
        *_not_converged(evidence),
        *_aborted_differently(evidence),
        *_config_mismatches(evidence),
        *hung_transactions(evidence),
        *group_findings(evidence),
    ]
    if not rows:
        return tallies
    findings_table = pa.Table.from_pylist([{"expected": False, **row} for row in rows], schema=FINDING)
    write_parquet(inside(findings, "health.parquet"), findings_table)
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


def _process_exits(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Processes that ended although no fault ended them."""
    for row in evidence.rows("processes"):
        if row["event"] == "exited":
            yield {"class": "process_exit", "detail": facts_text(host=row["host"], status=row["status"])}


def _server_errors(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """ERROR and FATAL lines: one finding per host and wording, with the number of lines.

    A line that is known as the effect of a fault is not a finding once the first fault is being injected
    (`checkers.known_errors`): a rolling restart has its effects long before it is complete.
    """
    first_fault = first_injection(evidence.rows("faults"))
    lines: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in evidence.rows("log_events"):
        level, text = row["kind"], row["text"] or ""
        if level not in SERIOUS:
            continue
        after_fault = first_fault is not None and row["ns"] >= first_fault
        is_known = any(error.part in text and (after_fault or error.any_time) for error in KNOWN_ERRORS)
        if level == "fatal" or not is_known:
            lines.setdefault((row["host"], _wording(text)), []).append((level, text))
    for (host, _), alike in sorted(lines.items()):
        level, text = alike[0]
        detail = facts_text(host=host, level=level, text=text)
        yield {"class": "server_error", "count": len(alike), "detail": detail}


def _wording(text: str) -> str:
    """The beginning of a line, without its numbers."""
    return "".join("#" if letter.isdigit() else letter for letter in text)[:60]


def _not_converged(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Partitions that ended with replicas out of the ISR.

    Where a replica was not read to its end, the partition is `undetermined` already.
    """
    for incomplete in incomplete_isrs(evidence):
        cause = incomplete.cause
        yield {
            "class": "not_converged",
            "topic": incomplete.topic,
            "partition": incomplete.partition,
            "brokers": incomplete.outside,
            "cause": cause and cause.kind,
            "evidence": cause and list(cause.rows),
            "detail": facts_text(
                log_ends=[{"broker": row["broker"], "leo": row["leo"]} for row in incomplete.replicas]
            ),
        }


def _aborted_differently(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """In-sync replicas that name other aborted transactions than their leader: one finding per replica.

    Readers of committed records leave out the records of the transactions that the broker names, so they
    would receive other records from one replica than from the other.
    """
    partitions: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in evidence.rows("replicas"):
        if row["complete"] and row["in_sync"] is not False and row["aborted"] is not None:
            partitions.setdefault((row["topic"], row["partition"]), []).append(row)
    for (topic, partition), rows in sorted(partitions.items()):
        rows.sort(key=lambda row: (not row["leader"], row["broker"]))
        reference, *others = rows
        for other in sorted(others, key=lambda row: int(row["broker"])):
            low = max(row["log_start"] or 0 for row in (reference, other))
            ends = [
                row["last_stable_offset"]
                for row in (reference, other)
                if row["last_stable_offset"] is not None
            ]
            named, expected = (
                {
                    (aborted["first_offset"], aborted["producer_id"])
                    for aborted in row["aborted"]
                    if low <= aborted["first_offset"] < min(ends, default=FOREVER)
                }
                for row in (other, reference)
            )
            if named == expected:
                continue
            offset, producer = min(named ^ expected)
            does, lacks = (other, reference) if (offset, producer) in named else (reference, other)
            yield {
                "class": "diverged",
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "brokers": [other["broker"]],
                "count": len(named ^ expected),
                "detail": facts_text(
                    difference="aborted_transactions",
                    broker=does["broker"],
                    other_broker=lacks["broker"],
                    producer_id=producer,
                    offset=offset,
                ),
            }


def _config_mismatches(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Configuration keys that took effect with another value; the harness itself refuses such a run."""
    for row in evidence.rows("configs"):
        asked, value = row["asked"], row["value"]
        if asked is not None and value is not None and asked != value:
            yield {
                "class": "config_mismatch",
                "detail": facts_text(
                    scope=row["scope"], name=row["name"], key=row["key"], asked=asked, value=value
                ),
            }
