"""Claims that something does not happen need the events in which it would have happened."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.runs.mutants import Recorded, Row
from tests.runs.stored import judge_tables, read_stored


def _status(scenario: str, claim: str, changed: Recorded | None) -> str:
    assert changed is not None
    judged = judge_tables(changed.tables, read_stored(scenario).declared)
    return next(one.status for one in judged if one.name == claim)


def _names(recorded: Recorded) -> dict[int, str]:
    return {row["writer"]: row["name"] for row in recorded.rows("writers")}


def without(recorded: Recorded, removed: Callable[[str, Row], bool]) -> Recorded | None:
    """The history without the sends for which ``removed`` (writer's name, row) is true."""
    names = _names(recorded)
    kept = [row for row in recorded.rows("sends") if not removed(names[row["writer"]], row)]
    return recorded.having(sends=kept)


@pytest.mark.parametrize(
    ("scenario", "claim", "removed"),
    [
        (
            "isr-shrunk-leader-isolated",
            "min-insync-safe",
            lambda name, row: name in ("az1-before", "az1-inside") and row["topic"] == "m",
        ),
        ("configuration-matrix", "only-two-settings-together", lambda name, row: "-min2-" in name),
        (
            "configuration-matrix",
            "only-two-settings-together",
            lambda name, row: name == "shrunk-min2-unclean idempotent",
        ),
    ],
    ids=["to the leader with min.insync.replicas=2", "all with min.insync.replicas=2", "one of them"],
)
def test_a_claim_about_writes_is_unknown_without_them(
    scenario: str, claim: str, removed: Callable[[str, Row], bool]
) -> None:
    recorded = Recorded(read_stored(scenario).tables)
    assert _status(scenario, claim, without(recorded, removed)) == "unknown"
