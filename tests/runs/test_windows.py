"""A claim that something does not happen sees it wherever in its window it happens."""

from __future__ import annotations

import pytest

from tests.runs.mutants import MS, Recorded, Row
from tests.runs.test_other_outcomes import judged, recorded


def mark_of(history: Recorded, name: str) -> int:
    """The time of a mark, ns."""
    return max(int(row["ns"]) for row in history.rows("marks") if row["name"] == name)


def test_a_leader_that_is_elected_before_there_is_another_controller_is_noticed() -> None:
    """A second after the last moment at which the session of the dead controller was looked at."""
    history = recorded("controller-killed")
    early, killed = mark_of(history, "headless") + 1000 * MS, mark_of(history, "killed")

    def elected(row: Row) -> bool:
        return bool(row["subject"] == "partition" and row["topic"] == "c" and row["ns"] > killed)

    rows = [row | {"ns": early} if elected(row) else row for row in history.rows("views")]
    claim = judged("controller-killed", "nobody-elects-meanwhile", history.having(views=rows))
    assert claim.status == "refuted", claim.observed


def test_a_controller_that_is_elected_at_once_leaves_no_time_in_which_nobody_elects() -> None:
    history = recorded("controller-killed")
    killed, returned = mark_of(history, "killed"), mark_of(history, "before-return")
    rows = history.rows("views")
    for row in rows:
        if killed < row["ns"] < returned:
            row["ns"] = killed + (row["ns"] - killed) // 10
    claim = judged("controller-killed", "nobody-elects-meanwhile", history.having(views=rows))
    assert claim.status == "refuted", claim.observed


@pytest.mark.parametrize("version", ["3.7.0", "4.3.1"])
@pytest.mark.parametrize("shifted_s", [-2, 3])
def test_a_leader_resigns_neither_before_nor_long_after_one_and_a_half_fetch_timeouts(
    version: str, shifted_s: int
) -> None:
    stored = f"versions/kraft-followers-die@{version}"
    history = recorded(stored)
    rows = history.rows("log_events")
    for row in rows:
        if row["kind"] == "resigned" and mark_of(history, "alone") < row["ns"] < mark_of(history, "standing"):
            row["ns"] += shifted_s * 1000 * MS
    claim = judged(stored, "leads-for-ever", history.having(log_events=rows))
    assert not claim.as_declared, claim.observed
