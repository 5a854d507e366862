"""Intervals of rates, and when enough runs were made."""

from __future__ import annotations

from random import Random

import pytest

from studies.search.rates import Sequential, misses_that_tell, wilson


@pytest.mark.parametrize(
    ("hits", "runs", "low", "high"),
    [
        (0, 0, 0.0, 1.0),
        (0, 10, 0.0, 0.278),
        (10, 10, 0.722, 1.0),
        (5, 10, 0.237, 0.763),
        (1, 100, 0.002, 0.054),
    ],
)
def test_wilson(hits: int, runs: int, low: float, high: float) -> None:
    """Against the values of the literature's formula, computed by hand."""
    assert wilson(hits, runs) == pytest.approx((low, high), abs=0.001)


def decided(rate: float, seed: int) -> tuple[str, int]:
    rng, hits = Random(seed), 0
    for runs in range(1, 200):
        hits += rng.random() < rate
        answer = Sequential().decide(hits, runs)
        if answer:
            return answer, runs
    return "", 200


@pytest.mark.parametrize(
    ("rate", "answer"), [(0.5, "comes back"), (0.9, "comes back"), (0.05, "does not come back")]
)
def test_the_sequential_test_is_seldom_wrong_and_stops_early(rate: float, answer: str) -> None:
    trials = [decided(rate, seed) for seed in range(1000)]
    right = sum(decision == answer for decision, _ in trials)
    assert right >= 940
    assert sum(runs for _, runs in trials) / len(trials) < 12


def test_one_hit_decides_nothing_and_two_do() -> None:
    test = Sequential()
    assert [test.decide(hits, hits) for hits in (1, 2)] == ["", "comes back"]
    assert [test.decide(0, runs) for runs in (4, 5)] == ["", "does not come back"]


@pytest.mark.parametrize(("rate", "runs"), [(1.0, 1), (0.95, 1), (0.5, 5), (0.3, 9), (0.01, 12), (0.0, 12)])
def test_misses_that_tell(rate: float, runs: int) -> None:
    assert misses_that_tell(rate) == runs
