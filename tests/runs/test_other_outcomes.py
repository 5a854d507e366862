"""What decides whether a claim speaks of a run at all, and which of its two outcomes a run had."""

from __future__ import annotations

import pytest

from checkers.claims.evaluate import ClaimResult
from tests.runs.mutants import MUTANTS, Recorded, Row
from tests.runs.stored import judge_tables, read_stored

ISOLATED = "leader-az-isolated"


def judged(scenario: str, claim: str, changed: Recorded | None) -> ClaimResult:
    """One claim of a scenario on a changed history."""
    assert changed is not None
    (declared,) = (one for one in read_stored(scenario).declared["claims"] if one["name"] == claim)
    (found,) = judge_tables(changed.tables, {**read_stored(scenario).declared, "claims": [declared]})
    return found


def recorded(scenario: str) -> Recorded:
    return Recorded(read_stored(scenario).tables)


def under_2_6(history: Recorded) -> Recorded:
    """The brokers speak the protocol of 2.6."""

    def spoken(row: Row) -> Row:
        return row | {"value": "2.6-IV0"} if row["key"] == "inter.broker.protocol.version" else row

    changed = history.having(configs=[spoken(row) for row in history.rows("configs")])
    assert changed is not None
    return changed


def shrinks_only_the_stream(history: Recorded) -> Recorded:
    """The isolated leader wants a smaller ISR of the background stream's partition only."""
    changed = history.having(
        log_events=[
            row
            for row in history.rows("log_events")
            if row["kind"] != "isr_shrinking" or row["topic"] == "stream"
        ]
    )
    assert changed is not None
    return changed


@pytest.mark.parametrize("scenario", ["partition-6-leader-isolated", "long-isolation-ibp26"])
def test_an_isr_without_one_follower_is_not_the_leader_alone(scenario: str) -> None:
    history = recorded(scenario)
    rows = history.rows("log_events")
    for row in rows:
        if row["kind"] == "isr_shrinking":
            row["text"] = row["text"].replace(" to 1. ", " to 1,3. ")
    alone = judged(scenario, "wants-to-shrink", history)
    found = judged(scenario, "wants-to-shrink", history.having(log_events=rows))
    assert alone.either and alone.occurred == alone.says
    assert found.either and found.occurred == found.either["says"]


def test_a_leader_that_did_not_try_to_shrink_this_isr_shows_nothing_about_it() -> None:
    history = shrinks_only_the_stream(recorded(ISOLATED))
    assert judged(ISOLATED, "old-leader-unaware", history).status == "not reproduced"


def test_a_leader_that_may_hang_on_another_partition_need_not_try_to_shrink_this_isr() -> None:
    history = under_2_6(shrinks_only_the_stream(recorded(ISOLATED)))
    assert judged(ISOLATED, "old-leader-unaware", history).status == "confirmed"


def test_only_a_leader_of_an_old_protocol_may_hang() -> None:
    hangs = MUTANTS["none-answered"]
    assert judged(ISOLATED, "zombie-accepts-on", hangs(recorded(ISOLATED))).status == "refuted"
    old = judged(ISOLATED, "zombie-accepts-on", hangs(under_2_6(recorded(ISOLATED))))
    assert old.either and old.occurred == old.either["says"]


def test_an_isr_that_stays_shows_nothing_if_the_flapping_link_never_held_the_follower_up() -> None:
    harmless = MUTANTS["seen-everywhere"](recorded("flapping-link"))
    assert judged("flapping-link", "fetches-stop", harmless).status == "refuted"
    assert judged("flapping-link", "isr-stays", harmless).status == "not reproduced"


def test_a_follower_beside_a_flapping_link_that_waits_as_well_decides_nothing() -> None:
    history = recorded("flapping-link")
    rows = history.rows("sightings")
    for row in rows:
        row["seen_ns"] += 1_000_000_000 if row["broker"] == 3 else 0
    assert judged("flapping-link", "fetches-stop", history.having(sightings=rows)).status == "unknown"
