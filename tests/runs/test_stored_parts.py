"""Every part of a compound claim can fail: for each there is a mutant of the stored run that refutes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from checkers.claims.builders import both
from tests.runs.mutants import MUTANTS
from tests.runs.mutants_of_parts import OF_PARTS
from tests.runs.parts import declared_parts, parts_of, unrefuted
from tests.runs.stored import all_stored, read_stored

NEVER_REFUTED: Mapping[str, Mapping[str, str]] = {}
"""Parts that no mutant refutes: the reason, by stored run and part."""
NEEDED = {
    "notes-say-otherwise": ("controller-az-isolated", "az3-cannot-consume/holds/0"),
    "topics-asked-for-in-vain-exist": ("controller-az-isolated", "old-controller-powerless/holds/1"),
    "never-seen": ("power-cut", "kill-loses-nothing/holds/0"),
    "brokers-log-errors": ("power-cut", "isr-complete/holds/1"),
    "others-are-read": ("commit-marker-lost", "committed-and-read/holds/1"),
    "answers-are-not-noted": ("kraft-zombie-controller", "operation-unknown/holds/0"),
    "refused-for-another-reason": ("idempotent-first-sequence", "too-late/holds/0"),
    "another-broker-answered": ("idempotent-stale-leader-librdkafka", "refused/holds/1"),
    "every-controller-leads": ("kraft-followers-die", "leads-for-ever/holds/1"),
    "zookeeper-names-another": ("migration-az-cut", "taken-over/holds/0"),
    "written-in-a-later-epoch": ("idempotent-timeout-java", "once-without-time-out/holds/2"),
    "logs-say-everything-of-late-epochs": ("kraft-last-replica-wiped", "empty-leads/erratum/1"),
    "everybody-is-assigned-everything": ("static-member-az-isolated", "nobody-takes-over/holds/0"),
    "a-minute-late": ("slow-follower", "leaves/holds/0"),
    "what-did-not-happen-is-noted": ("isr-stuck-for-ever", "stuck-until-reordered/holds/1"),
    "windows-are-missed": ("hw-truncation-by-version", "truncated/given/0"),
    "never-acknowledged": ("hw-truncation-fast-failovers", "a-truncates/given/0"),
    "always-led-by-another": ("no-fault", "nothing-changes/given/0"),
    "switches-are-turned": ("operator-actions", "forced-leads/given/0"),
    "written-once": ("follower-az-isolated", "retries-duplicate/holds/1"),
}
"""For each of `OF_PARTS` a stored run and a part that it refutes."""


@pytest.mark.long
@pytest.mark.parametrize("name", all_stored())
def test_every_part_is_refuted_by_a_mutant(name: str) -> None:
    left = unrefuted(read_stored(name))
    never_refuted = NEVER_REFUTED.get(name, {})
    shown = {part: observed for part, observed in left.items() if part not in never_refuted}
    assert not shown, "remove these parts, or write a mutant that refutes them"
    assert set(never_refuted) <= set(left), "a mutant refutes these parts"


@pytest.mark.parametrize("mutant", OF_PARTS)
def test_every_mutant_of_parts_refutes_one(mutant: str) -> None:
    name, part = NEEDED[mutant]
    run = read_stored(name)
    chosen = [one for one in declared_parts(run) if one["name"] == part]
    assert set(unrefuted(run, [], chosen)) == {part}, "it holds in the stored run"
    assert unrefuted(run, [mutant], chosen) == {}


def test_a_part_that_always_holds_is_found() -> None:
    """Planted into the first compound claim of a scenario; its other parts are refuted."""
    run = read_stored("power-cut")
    vacuous = "SELECT count(*) >= 0 AS holds, 'whatever' AS observed FROM views"
    claim = next(one for one in run.declared["claims"] if len(parts_of(one["holds"])) > 1)
    (planted,) = (
        {**claim, "name": f"{claim['name']}/holds/{number}", "holds": part, "given": "", "erratum": None}
        for number, part in enumerate(parts_of(both(claim["holds"], vacuous)))
        if part == vacuous
    )
    names = ("another-isr", "logs-say-everything", "logs-say-nothing", "all-lost")
    assert set(names) <= set(MUTANTS)
    assert unrefuted(run, names, [planted]) == {planted["name"]: "whatever"}


def test_the_situation_and_the_other_outcome_are_parts_as_well() -> None:
    """Also if they are no compounds, because a mutant of the whole claim need not refute them."""
    names = {part["name"] for part in declared_parts(read_stored("flapping-link"))}
    assert {"isr-stays/given/0", "isr-stays/holds/0", "isr-stays/holds/1"} <= names
    assert "fetches-stop/holds/0" not in names
    names = {part["name"] for part in declared_parts(read_stored("leader-paused"))}
    assert {"sleeper-not-kept/either/0", "sleeper-not-kept/either/1"} <= names


def test_a_situation_that_always_holds_is_found() -> None:
    run = read_stored("leader-killed")
    vacuous = "SELECT count(*) >= 0 AS holds, 'whatever' AS observed FROM views"
    declared = {**run.declared, "claims": [{**run.declared["claims"][0], "given": vacuous}]}
    changed = replace(run, declared=declared)
    planted = [part for part in declared_parts(changed) if "/given/" in part["name"]]
    names = ("another-isr", "logs-say-nothing", "all-lost")
    assert set(unrefuted(changed, names, planted).values()) == {"whatever"}


def test_a_combination_is_split_at_every_depth() -> None:
    one = "SELECT count(*) = 0 AS holds, 'a ) in '' a literal' AS observed FROM views"
    two = "SELECT count(*) > 0 AS holds, concat('(', count(*)) AS observed FROM (SELECT * FROM sends)"
    assert parts_of(one) == [one]
    assert parts_of(both(one, two)) == [one, two]
    assert parts_of(both(both(one, two), one, both(two, one))) == [one, two, one, two, one]
