"""Changes of a history that only parts of compound claims need: no whole claim depends on them."""

from __future__ import annotations

from harness.history.schema import TABLES
from tests.runs.mutants import MS, MUTANTS, Mutant, Recorded, Row, still_tailed

OF_PARTS: dict[str, Mutant] = {}
"""These mutants by name."""
ASKED_IN_VAIN = "made-by-old"
"""A topic that scenarios request from a controller which is none any more."""


def of_parts(function: Mutant) -> Mutant:
    """Register a mutant under its name."""
    OF_PARTS[function.__name__.replace("_", "-")] = function
    return function


@of_parts
def notes_say_otherwise(recorded: Recorded) -> Recorded | None:
    """The scenario described each of its steps with other words."""
    return recorded.having(marks=[row | {"text": "otherwise"} for row in recorded.rows("marks")])


@of_parts
def never_seen(recorded: Recorded) -> Recorded | None:
    """No record was ever seen on a replica, before the fault or after it."""
    return recorded.having(sightings=still_tailed(recorded, []))


@of_parts
def others_are_read(recorded: Recorded) -> Recorded | None:
    """Consumers receive other messages than were sent."""
    rows = recorded.rows("reads")
    known = [row | {"seq": row["seq"] + 1_000_000} for row in rows if row["seq"] is not None]
    return recorded.having(reads=known)


@of_parts
def written_once(recorded: Recorded) -> Recorded | None:
    """Every replica holds every message once."""
    kept: dict[tuple[object, ...], Row] = {}
    others = []
    for row in recorded.rows("copies"):
        if row["writer"] is None:
            others.append(row)
        else:
            kept.setdefault((row["broker"], row["topic"], row["partition"], row["writer"], row["seq"]), row)
    return recorded.having(copies=[*others, *kept.values()])


@of_parts
def brokers_log_errors(recorded: Recorded) -> Recorded | None:
    """After each mark every broker logs an error."""
    rows = recorded.rows("log_events")
    blank: Row = dict.fromkeys(TABLES["log_events"].arrow().names)
    added = [
        {**blank, "ns": ns + MS, "host": host, "kind": "error", "text": "an error"}
        for ns in recorded.marks
        for host in sorted({row["host"] for row in rows})
    ]
    return recorded.having(log_events=[*rows, *added])


@of_parts
def topics_asked_for_in_vain_exist(recorded: Recorded) -> Recorded | None:
    """Everybody knows of `ASKED_IN_VAIN` since the fault."""
    rows = recorded.rows("views")
    known = {row["source"]: row for row in rows if row["subject"] == "partition"}
    place = {"topic": ASKED_IN_VAIN, "partition": 0, "ns": recorded.since + MS}
    return recorded.having(views=[*rows, *(row | place for row in known.values())])


EVERY = {**OF_PARTS, **MUTANTS}
"""All mutants. The mutants that change most come last."""
