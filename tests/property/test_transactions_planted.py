"""Planted transactions: the checker and brute force have the same result."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.histories import History
from tests.property import transactions
from tests.property.test_checker import SETTINGS
from tests.property.test_mutants import MUTANTS, mutated
from tests.property.transactions import planted
from tests.property.transactions_compared import check_model, differences, disagreements, histories_of

FEW = (*range(12), 38, 150)
"""Numbers of the histories; in 38 a transaction blocks readers, in 150 the start of a successor alone makes a
write a fenced one.
"""


@cache
def few() -> list[History]:
    """The same for every test."""
    return histories_of(0, FEW)


def agree(seed: int, count: int) -> None:
    """Fail, with each history on which the two differ."""
    odd = disagreements(histories_of(seed, range(count)))
    assert not odd, f"{len(odd)} of {count} histories of seed {seed}:\n" + "\n".join(odd[:3])


def test_the_checker_finds_what_brute_force_finds() -> None:
    assert not disagreements(few())


@settings(SETTINGS, max_examples=20)
@given(planted())
def test_finds_what_was_planted(history: History) -> None:
    """One by one, so that hypothesis can shrink what fails."""
    with tempfile.TemporaryDirectory() as scratch:
        check_model(history, Path(scratch) / "history")


# ---- the comparison can fail


def in_python(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """One of the mutants of the checker."""
    mutant = MUTANTS[name]
    return lambda patch: patch.setattr(mutant.function, "__code__", mutated(mutant).__code__)


def in_the_model(patch: pytest.MonkeyPatch) -> None:
    """Brute force for which nobody is fenced."""
    patch.setattr(transactions, "_after_successor", lambda rows, send, reported: False)


DEFECTS: Mapping[str, Callable[[pytest.MonkeyPatch], None]] = {
    "the checker: an abort marker commits": in_python("an abort marker commits"),
    "brute force: nobody is fenced": in_the_model,
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_on_one_side_is_noticed(monkeypatch: pytest.MonkeyPatch, defect: str) -> None:
    DEFECTS[defect](monkeypatch)
    assert differences(few())


def test_a_history_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judged alone, it differs in the same way."""
    in_the_model(monkeypatch)
    some = few()
    numbers = sorted({one.number for one in differences(some)})
    texts = disagreements(some)
    assert numbers and [text.split("\n")[0] for text in texts] == [f"history {number}" for number in numbers]
    assert all("by brute force" in text and "only in a batch" not in text for text in texts)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 21))
@pytest.mark.timeout(3600)
def test_the_checker_finds_what_brute_force_finds_ten_thousand_times(seed: int) -> None:
    """Five hundred histories of each seed."""
    agree(seed, 500)
