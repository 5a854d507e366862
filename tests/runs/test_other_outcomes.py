"""What decides whether a claim speaks of a run at all, and which of its two outcomes a run had."""

from __future__ import annotations

from collections.abc import Callable

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
    claim = judged(scenario, "wants-to-shrink", history.having(log_events=rows))
    assert alone.either and alone.occurred == alone.says
    assert claim.either and claim.occurred == claim.either["says"]


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


def late_on_broker3(late: Callable[[Row], bool]) -> Recorded | None:
    """broker3 got these records a second later."""
    history = recorded("flapping-link")
    rows = history.rows("sightings")
    for row in rows:
        row["seen_ns"] += 1_000_000_000 if row["broker"] == 3 and late(row) else 0
    return history.having(sightings=rows)


def test_a_follower_beside_a_flapping_link_that_waits_as_well_decides_nothing() -> None:
    assert judged("flapping-link", "fetches-stop", late_on_broker3(lambda _: True)).status == "unknown"


def test_records_that_both_followers_waited_for_do_not_hide_the_others() -> None:
    rows = recorded("flapping-link").rows("sightings")
    late = sorted(row["offset"] for row in rows if row["broker"] == 3 and row["topic"] == "stream")[-3:]
    some = late_on_broker3(lambda row: row["offset"] in late)
    assert judged("flapping-link", "fetches-stop", some).status == "confirmed"


def test_whether_a_flapping_link_costs_the_follower_its_place_is_named() -> None:
    history = recorded("flapping-link")
    (cut,) = (row["ns"] for row in history.rows("marks") if row["name"] == "cut")
    rows = history.rows("views")
    view = [row for row in rows if row["source"] == "zookeeper1" and row["topic"] == "t" and row["ns"] < cut][
        -1
    ]
    left = view | {"ns": cut + 3_000_000_000, "isr": [1, 3]}
    back = view | {"ns": cut + 5_000_000_000}
    stays = judged("flapping-link", "isr-stays", history)
    leaves = judged("flapping-link", "isr-stays", history.having(views=[*rows, left, back]))
    led_by_another = judged(
        "flapping-link", "isr-stays", history.having(views=[*rows, left | {"leader": 3}, back])
    )
    assert stays.either and stays.occurred == stays.says
    assert leaves.either and leaves.occurred == leaves.either["says"]
    assert led_by_another.status == "refuted"


STUCK, REFUSED = "leader-cut-from-followers-stuck", "offsets-commit-refused"


def without_the_shrink_to_the_leader(history: Recorded) -> list[Row]:
    """Events without those by which an ISR becomes the leader alone; it expands afterwards."""
    return [
        row
        for row in history.rows("log_events")
        if row["kind"] != "isr_updated" or " to 1 and version " not in row["text"]
    ]


def test_an_isr_that_only_expands_after_the_heal_has_not_shrunk_late() -> None:
    history = recorded(STUCK)
    claim = judged(STUCK, "late-shrink", history.having(log_events=without_the_shrink_to_the_leader(history)))
    assert claim.status == "refuted"


def test_a_late_shrink_by_one_follower_is_named() -> None:
    history = recorded(STUCK)
    rows = without_the_shrink_to_the_leader(history)
    for row in rows:
        if row["kind"] == "isr_shrinking":
            row["text"] = row["text"].replace(" to 1. ", " to 1,3. ")
    alone = judged(STUCK, "late-shrink", history)
    claim = judged(STUCK, "late-shrink", history.having(log_events=rows))
    assert alone.either and alone.occurred == alone.says
    assert claim.either and claim.occurred == claim.either["says"]


def answered(error: int, seconds_sooner: int = 0) -> Recorded | None:
    """The commit that waits for the followers got this error, and so much sooner."""
    history = recorded(REFUSED)
    rows = history.rows("groups")
    for row in rows:
        if row["event"] == "commit_failed" and row["offset"] == 20:
            row |= {"error": error, "ns": row["ns"] - seconds_sooner * 1_000_000_000}
    return history.having(groups=rows)


def test_whether_a_waiting_commit_outlives_the_isr_is_named() -> None:
    timed_out = judged(REFUSED, "waiting-commit-not-acknowledged", recorded(REFUSED))
    refused = judged(REFUSED, "waiting-commit-not-acknowledged", answered(15))
    assert timed_out.either and timed_out.occurred == timed_out.says
    assert refused.either and refused.occurred == refused.either["says"]


def test_a_waiting_commit_does_not_time_out_at_once() -> None:
    assert judged(REFUSED, "waiting-commit-not-acknowledged", answered(7, 3)).status == "refuted"


@pytest.mark.parametrize(
    ("scenario", "claim", "as_said"),
    [
        ("controller-az-isolated", "broker-0-elected", 1),
        ("controller-and-leader-isolated", "two-controllers", 3),
    ],
)
def test_who_becomes_controller_is_named(scenario: str, claim: str, as_said: int) -> None:
    history = recorded(scenario)
    (successor,) = {
        row["controller"]
        for row in history.rows("views")
        if row["subject"] == "controller" and row["epoch"] == 2 and row["source"].startswith("zookeeper")
    }

    def elected(number: int) -> ClaimResult:
        rows = history.rows("views")
        for row in rows:
            if row["subject"] == "controller" and row["controller"] == successor:
                row["controller"] = number
        return judged(scenario, claim, history if number == successor else history.having(views=rows))

    candidates = {1, 2, 3} - {3 if as_said == 1 else 1}
    for number in candidates:
        found = elected(number)
        assert found.either
        assert found.occurred == (found.says if number == as_said else found.either["says"])
