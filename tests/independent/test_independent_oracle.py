"""The checker against the independent truth on random histories (`tests/independent/compare.py`).

A failure names seed and number of each history; `python -m tests.independent.compare --seed S --only N`
makes and judges one again, and `python -m tests.independent.generate --seed S --only N` prints its
rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import SystemRandom
from typing import Any

import pytest

import checkers.removals
from checkers.partition import deliveries, fates, removals, replicas
from checkers.spark.session import start_session
from checkers.tables import rows
from tests.independent.compare import disagreements, in_words, judge_many, report
from tests.independent.generate import KINDS
from tests.property.test_mutants import Mutant, mutated

SEED = 20261126
LAYOUTS = 6
"""Few histories are laid down in few ways: every batch costs time, however small."""


def agree(histories: int, *, seed: int = SEED, layouts: int = LAYOUTS, session: Any = None) -> None:
    """Fail, with every kind of disagreement, unless checker and truth say the same."""
    mismatches = list(disagreements(session, seed, range(histories), layouts=layouts))
    print(f"seed {seed}, {histories} histories in {layouts} layouts")
    report(mismatches, show=3)
    assert not mismatches, f"{len(mismatches)} disagreements with the truth, seed {seed}, layouts {layouts}"


def test_forty_histories() -> None:
    agree(40)


def test_every_kind_of_damage() -> None:
    """The first histories hold every kind of damage alone."""
    agree(len(KINDS), layouts=1)


# ---- the comparison can fail

MUTANTS = {
    "a read loss is a plain loss": Mutant(
        fates.decide, "np.where(read[absent] > 0,", "np.where(read[absent] > 9,"
    ),
    "two copies are no duplicate": Mutant(
        fates.decide, "fate[(outcome != FAIL) & (copies > 1)]", "fate[(outcome != FAIL) & (copies > 2)]"
    ),
    "retention explains any loss": Mutant(
        removals.Removals.reasons, "(offsets < log_start) & (log_start > 0)", "(offsets < log_start + 99)"
    ),
    "retention removes what is too young": Mutant(
        removals.Removals._outlived, "until - sent_ns < youth_ns", "until - sent_ns < 0"
    ),
    "retention knows the time of sending alone": Mutant(
        removals.Removals._outlived, "youth_ns -= self.age_ns[place]", "youth_ns -= 0"
    ),
    "retention needs no log of its size": Mutant(
        checkers.removals._may_exceed, "reference.size_bytes >= limit", "reference.size_bytes >= 0"
    ),
    "a deleted topic explains later losses": Mutant(
        removals.Removals.reasons, "(sent_ns <= self.topic_deleted_ns)",
        "(sent_ns <= self.topic_deleted_ns + 10**9)"
    ),
    "replicas may differ in epoch": Mutant(
        replicas._against, "_pick(EPOCH, log, renewed)]", "_pick(EPOCH, log, renewed[:0])]"
    ),
    "readers may skip": Mutant(
        deliveries.suspicious_steps, "passed > 0", "passed > 9"
    ),
    "a group may receive again what it committed": Mutant(
        deliveries._repositioned,
        "reads.offset[pairs.after] >= _committed(reads, events, pairs.after, read_ns).offset",
        "reads.offset[pairs.after] >= 0"
    ),
    "any stray is foreign": Mutant(
        rows.of_records, '"misrouted", "foreign"', '"foreign", "foreign"'
    ),
}  # fmt: skip
REVEALING = 20261127
FEW = tuple(range(60))
"""These histories of this seed show every mutant that no others do."""
SHOWN_BY = {
    "a read loss is a plain loss": 1,
    "two copies are no duplicate": 42,
    "retention explains any loss": 0,
    "retention removes what is too young": 372,
    "retention knows the time of sending alone": 552,
    "retention needs no log of its size": 592,
    "a deleted topic explains later losses": 606,
    "replicas may differ in epoch": 15,
    "readers may skip": 107,
    "a group may receive again what it committed": 33,
}


@pytest.mark.parametrize(
    "name", [one if one in SHOWN_BY else pytest.param(one, marks=pytest.mark.long) for one in MUTANTS]
)
def test_a_mutant_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Histories that agree with the checker disagree with one that is wrong in one place."""
    mutant = MUTANTS[name]
    numbers = (SHOWN_BY[name],) if name in SHOWN_BY else FEW
    assert not any(disagreements(None, REVEALING, numbers, size=15, layouts=1))
    monkeypatch.setattr(mutant.function, "__code__", mutated(mutant).__code__)
    assert any(disagreements(None, REVEALING, numbers, size=15, layouts=1))


# ---- many


MANY = 10_000


@pytest.mark.long
@pytest.mark.timeout(3 * 3600)
def test_ten_thousand_histories() -> None:
    """Partitions are judged as by the truth, in blocks of one row and of more."""
    mismatches, seen = judge_many(SEED, range(MANY), processes=2)
    print(f"seed {SEED}, {seen}: {in_words(mismatches)}")
    report(mismatches, show=3)
    assert not mismatches, f"{in_words(mismatches)}, seed {SEED}"
    assert seen.histories == MANY
    assert seen.complete


@pytest.mark.long
def test_histories_of_a_new_seed() -> None:
    agree(200, seed=SystemRandom().randrange(10**6))


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    session = start_session()
    yield session
    session.stop()


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_histories_in_spark(session: Any) -> None:
    """The same through `acked check --import`: in a Spark session, life and findings as files."""
    agree(300, session=session)
