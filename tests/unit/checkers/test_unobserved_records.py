"""What was not observed is a reason of the verdict, and a claim that depends on it is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.claims.evaluate import ClaimResult, QueryResult, observed, result
from checkers.claims.moments import Moments
from checkers.unobserved import clauses
from checkers.verdict import decide

TAIL: dict[str, Any] = {
    **{"ns": 2000, "source": "tail", "topic": "t", "partition": 0, "broker": 2, "since_ns": 1500},
    **{"from_offset": 3, "to_offset": 9, "late": None, "error": None},
}
READ_BACK = TAIL | {"source": "read_back", "broker": None, "since_ns": None}
MOMENTS = Moments(marks={"before": 1000, "meanwhile": 1700, "after": 3000})
SIGHTINGS, READS = "SELECT count(*) FROM sightings", "SELECT count(*) FROM reads"


def claimed(row: dict[str, Any], query: str, holds: bool = True, **subject: object) -> ClaimResult:
    """A claim about a history with one row of `unobserved`."""
    claim = {"name": "c", "says": "It does.", "section": "1", "holds": query, "subject": subject}
    return observed(claim, result(claim, {"c": QueryResult(holds, "seen")}), MOMENTS, [row])


@pytest.mark.parametrize("row", [TAIL, READ_BACK, READ_BACK | {"source": "reader"}])
@pytest.mark.parametrize("holds", [True, False])
def test_a_claim_that_depends_on_it_is_unknown(row: dict[str, Any], holds: bool) -> None:
    query, other = (SIGHTINGS, READS) if row["source"] == "tail" else (READS, SIGHTINGS)
    claim = claimed(row, query, holds)
    assert (claim.status, claim.as_declared, claim.occurred) == ("unknown", False, "")
    assert claim.observed.startswith("seen; ") and "offsets 3 to 8" in claim.observed
    assert claimed(row, other, holds).status == ("confirmed" if holds else "refuted")


@pytest.mark.parametrize(
    ("subject", "status"),
    [
        ({"partitions": ["t/0", "u/0"]}, "unknown"),
        ({"partitions": ["t/1"]}, "confirmed"),
        ({"hosts": ["broker2"]}, "unknown"),
        ({"hosts": ["zookeeper1"]}, "unknown"),
        ({"hosts": ["broker1", "broker3"]}, "confirmed"),
        ({"until": [["before", 0]]}, "confirmed"),
        ({"until": [["before", 500]]}, "unknown"),
        ({"until": [["meanwhile", 0]]}, "unknown"),
        ({"since": [["meanwhile", 0]]}, "unknown"),
        ({"since": [["after", 0]]}, "confirmed"),
    ],
)
def test_one_about_another_place_or_time_is_not(subject: dict[str, Any], status: str) -> None:
    assert claimed(TAIL, SIGHTINGS, **subject).status == status


@pytest.mark.parametrize(
    ("subject", "status"),
    [
        ({}, "confirmed"),
        ({"until": [["before", 0]]}, "confirmed"),
        ({"until": [["meanwhile", 0]]}, "unknown"),
        ({"until": [["after", 0]]}, "confirmed"),
        ({"since": [["meanwhile", 0]]}, "unknown"),
        ({"since": [["before", 0]], "until": [["after", 0]]}, "confirmed"),
    ],
)
def test_what_was_observed_late_matters_to_who_asks_meanwhile(subject: dict[str, Any], status: str) -> None:
    assert claimed(TAIL | {"late": True}, SIGHTINGS, **subject).status == status


def test_it_is_a_reason_of_the_verdict() -> None:
    """Where nothing else shows what happened, it makes the verdict unknown."""
    said: dict[str, Any] = {"messages": 9, "findings": {}, "expected": {}, "claims": ()}
    (tail,), (read_back,) = clauses([TAIL]), clauses([READ_BACK])
    assert decide(**said) == ("as declared", ())
    assert decide(**said, unobserved=[TAIL]) == ("as declared", (tail,))
    assert decide(**said, unobserved=[TAIL], compared=3) == ("unknown", (tail,))
    assert decide(**said, unobserved=[TAIL | {"late": True}], compared=3) == ("as declared", (tail,))
    assert decide(**said, unobserved=[READ_BACK]) == ("unknown", (read_back,))
    verdict, reasons = decide(**said | {"findings": {"lost": 1}}, unobserved=[TAIL])
    assert (verdict, reasons[1]) == ("violated", tail)


def test_ranges_of_a_log_are_told_together() -> None:
    rows = [TAIL | {"broker": broker} for broker in (1, 2, 3, 4, 5)]
    rows += [TAIL | {"broker": 1, "from_offset": 20, "to_offset": 30}, READ_BACK | {"to_offset": None}]
    assert list(clauses(rows)) == [
        "the consumer that reads all partitions at the end did not receive all records (t/0, from offset 3)",
        "the observer saw parts of replicas' logs late or never (t/0 on broker1, offsets 3 to 29 in 2 "
        "ranges; t/0 on broker2, offsets 3 to 8; t/0 on broker3, offsets 3 to 8; and 2 more)",
    ]
