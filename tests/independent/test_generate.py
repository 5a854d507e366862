"""The generator covers every kind of damage and layout, and reproduces a history. No Spark."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.independent import deliveries
from tests.independent import generate as making
from tests.independent.compare import cases
from tests.independent.generate import KINDS, generate
from tests.independent.layout import LAYOUTS, TELLING, layout
from tests.independent.truth import truth_of

SEED = 3
PAIRS = len(KINDS) * (len(KINDS) - 1) // 2

FATES = {
    "kept",
    "lost",
    "lost_after_read",
    "duplicated",
    "moved",
    "overwritten",
    "diverged",
    "corrupt",
    "misrouted",
    "phantom",
    "failed",
    "unknown_kept",
    "unknown_dropped",
    "retired",
    "undetermined",
}
FINDINGS = FATES - {"kept", "failed", "unknown_kept", "unknown_dropped", "retired"} | {
    "foreign",
    "out_of_order",
    "aborted_read",
    "offset_conflict",
    "skip",
    "non_monotonic",
    "replay",
    "commit_lost",
    "stale_offset",
    "double_ownership",
    "process_exit",
    "server_error",
    "not_converged",
    "config_mismatch",
}


def test_the_same_history_again() -> None:
    """Seed and number say everything; another seed makes another history."""
    assert generate(SEED, 5) == generate(SEED, 5)
    assert generate(SEED, 5) != generate(SEED + 1, 5)


def test_every_kind_alone_and_in_pairs() -> None:
    """The first histories hold each kind alone, the next each pair, where a partition has room for both."""
    alone = [set(generate(SEED, number)[1]) for number in range(len(KINDS))]
    assert all(kind in planted for kind, planted in zip(KINDS, alone, strict=True))
    pairs = [len(set(generate(SEED, len(KINDS) + number)[1]) & set(KINDS)) for number in range(PAIRS)]
    assert pairs.count(2) > 0.95 * PAIRS


def test_every_fate_and_finding_occurs() -> None:
    """In a few hundred histories, as they are laid down, there is every fate and every class of finding."""
    fates: Counter[str] = Counter()
    findings: Counter[str] = Counter()
    for case in cases(SEED, range(800)):
        truth = truth_of(case.history)
        fates.update(truth.fates.values())
        findings.update(finding.name for finding in truth.findings.elements())
    assert set(fates) == FATES
    assert set(findings) == FINDINGS


def test_layouts_have_every_combination_of_the_tables_that_tell() -> None:
    """Half of the layouts have all tables; the others every combination of four, and fewer columns."""
    absent = {frozenset(layout(SEED, number).absent_tables & set(TELLING)) for number in range(LAYOUTS)}
    assert len(absent) == 2 ** len(TELLING)
    assert {layout(SEED, number).files for number in range(LAYOUTS)} == {
        "one",
        "folder",
        "partitions",
        "mixed",
    }
    assert sum(len(layout(SEED, number).absent_columns) > 0 for number in range(LAYOUTS)) > LAYOUTS / 4


def test_a_healthy_history_has_no_finding() -> None:
    """Where nothing was planted nothing is found: the control of everything else."""
    healthy = 0
    for number in range(len(KINDS) + PAIRS, len(KINDS) + PAIRS + 400):
        history, planted = generate(SEED, number)
        if not planted:
            truth = truth_of(history)
            healthy += 1
            assert not truth.findings, number
            assert set(truth.fates.values()) <= {"kept", "unknown_kept"}
    assert healthy > 10


def test_members_commit_past_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of these commits are findings; others only look like it, and something explains them."""
    judged: list[bool] = []
    past = deliveries.committed_past

    def counted(*arguments: Any) -> bool:
        judged.append(past(*arguments))
        return judged[-1]

    def this_kind(random: Random, number: int) -> list[str]:
        return ["commits_past_what_it_read"]

    monkeypatch.setattr(deliveries, "committed_past", counted)
    monkeypatch.setattr(making, "kinds_of", this_kind)
    found = 0
    for number in range(40):
        judged.clear()
        truth_of(generate(SEED, number)[0])
        found += any(judged)
    assert 8 < found < 32
