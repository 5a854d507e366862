"""Every claim of the catalogue can fail: for each there is a mutant of a stored run that makes it false."""

from __future__ import annotations

from collections.abc import Set

import pytest

from tests.runs.mutants import MUTANTS, Recorded
from tests.runs.stored import Judging, all_stored, claims_of_stored, read_stored
from tests.runs.turning import judge_mutants, read_turned
from tests.sampling import every

RENEW = "python -m tests.runs.turning"


def _each_mutant_once() -> dict[str, set[str]]:
    """Few scenarios, and mutants that turn claims of them; no mutant comes twice."""
    left = {scenario: set(turned.values()) for scenario, turned in read_turned().items()}
    chosen: dict[str, set[str]] = {}
    while any(left.values()):
        best = max(sorted(left), key=lambda scenario: len(left[scenario]))
        chosen[best] = left.pop(best)
        left = {scenario: mutants - chosen[best] for scenario, mutants in left.items()}
    return chosen


ONCE = _each_mutant_once()


@pytest.mark.parametrize("scenario", every(3, ONCE))
def test_each_mutant_turns_claims(scenario: str) -> None:
    every_claim_is_turned(scenario, ONCE[scenario])


@pytest.mark.long
@pytest.mark.parametrize("scenario", all_stored())
def test_every_claim_is_turned_by_its_mutant(scenario: str) -> None:
    every_claim_is_turned(scenario, set(read_turned().get(scenario, {}).values()))


def every_claim_is_turned(scenario: str, mutants: Set[str]) -> None:
    """Each of these mutants turns the claims for which it is known."""
    turned = dict(judge_mutants(read_stored(scenario), sorted(mutants)))
    turned_by_name = read_turned().get(scenario, {})
    held = {
        claim: name
        for claim, name in turned_by_name.items()
        if name in mutants and claim not in turned.get(name, ())
    }
    assert not held, f"these mutants do not turn these claims: {RENEW} {scenario}"


def test_every_claim_has_a_mutant() -> None:
    for scenario in all_stored():
        unmoved = set(claims_of_stored(scenario)) - set(read_turned().get(scenario, {}))
        assert not unmoved, f"no mutant is known that turns these claims: {RENEW} {scenario}"


@pytest.mark.parametrize("scenario", ["leader-killed", "follower-cut-from-leader"])
def test_without_a_mutant_nothing_is_turned(scenario: str) -> None:
    """Also after mutants: what one of them changed is not left behind."""
    run = read_stored(scenario)
    judging = Judging(run.declared)
    for name in (None, "another-leader", None, "all-lost", None, "ten-seconds-late", None):
        changed = Recorded(run.tables) if name is None else MUTANTS[name](Recorded(run.tables))
        assert changed is not None
        wrong = [claim.name for claim in judging.judge(changed.tables) if not claim.as_declared]
        assert bool(wrong) is (name is not None)
    judging.close()


def test_every_mutant_turns_a_claim() -> None:
    used = {name for turned in read_turned().values() for name in turned.values()}
    assert used == set(MUTANTS)
