"""The checker against the independent truth on random histories (`tests/independent/compare.py`).

A failure names seed and number of each history; `python -m tests.independent.compare --seed S --only N`
makes and judges one again, and `python -m tests.independent.generate --seed S --only N` prints its
rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import SystemRandom
from typing import Any

import pytest

from checkers.spark.session import start_session
from tests.independent.compare import compare_many, report

pytestmark = pytest.mark.spark
SEED = 20261121
LAYOUTS = 6
"""Few histories are laid down in few ways: every batch costs seconds, however small."""


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    session = start_session()
    yield session
    session.stop()


def agree(session: Any, seed: int, histories: int, plans: Sequence[str], layouts: int) -> None:
    """Fail, with every kind of disagreement, unless checker and truth say the same."""
    found = compare_many(session, seed, range(histories), plans, layouts=layouts)
    print(f"seed {seed}, {histories} histories in {layouts} layouts")
    report(found, show=3)
    assert not found, f"{len(found)} disagreements with the truth, seed {seed}, layouts {layouts}"


@pytest.mark.long
def test_sixty_histories(session: Any) -> None:
    agree(session, SEED, 60, ("fast",), LAYOUTS)


@pytest.mark.long
def test_histories_of_a_new_seed(session: Any) -> None:
    agree(session, SystemRandom().randrange(10**6), 60, ("fast",), LAYOUTS)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_thousand_histories(session: Any) -> None:
    agree(session, SEED + 1, 10_000, ("fast",), 64)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_thousand_histories_by_the_general_plan(session: Any) -> None:
    agree(session, SEED + 2, 1_000, ("general",), 16)
