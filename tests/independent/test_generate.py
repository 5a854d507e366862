"""The generator covers every kind of damage and layout, and reproduces a history. No Spark."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random
from typing import Any

import pytest

from harness.history.schema import TABLES
from tests.independent import deliveries, test_independent_oracle
from tests.independent import generate as making
from tests.independent.compare import cases, coverage
from tests.independent.generate import COMPLETE, KINDS, SCHEDULED, generate
from tests.independent.layout import IDENTITY, LAYOUTS, TELLING, layout
from tests.independent.truth import truth_of

SEED = 3
DECIDING = {
    "sends": ("outcome", "offset", "txn"),
    "copies": ("epoch", "writer", "seq", "intact", "home", "control"),
    "replicas": (
        *("leo", "log_start", "leader", "in_sync"),
        *("cleanup", "aborted", "last_stable_offset"),
    ),
    "reads": ("writer", "seq", "group", "isolation"),
    "groups": ("topic", "partition", "offset", "asked_ns", "error"),
    "configs": ("asked",),
}
"""Columns that decide fates or findings here and may be null."""

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


def test_the_ten_thousand_cover_every_kind_with_every_combination_of_tables_and_every_pair() -> None:
    """By what was planted, not by what was wanted. The first histories suffice; the others can only add."""
    assert SCHEDULED < test_independent_oracle.MANY
    covered = coverage(test_independent_oracle.SEED, range(SCHEDULED), truths=False)
    tables = {frozenset(absent) for size in range(len(TELLING) + 1) for absent in combinations(TELLING, size)}
    assert covered.alone == {(kind, absent) for kind in KINDS for absent in tables}
    assert covered.pairs == set(combinations(KINDS, 2))
    assert covered.complete


def test_every_other_optional_table_is_absent_from_some_layouts() -> None:
    """With some tables that tell, and without them; so each kind of damage occurs alone without it."""
    odd = [layout(test_independent_oracle.SEED, number).absent_tables for number in range(1, LAYOUTS, 2)]
    for table in set(TABLES) - {*TELLING, "sends", "copies"}:
        assert 2 < sum(table in absent for absent in odd) < len(odd) - 2, table


def test_every_optional_column_is_absent_from_some_layouts() -> None:
    seed = test_independent_oracle.SEED
    absent = frozenset().union(*(layout(seed, number).absent_columns for number in range(LAYOUTS)))
    optional = {
        (name, column.name) for name in TABLES for column in TABLES[name].columns if not column.required
    }
    assert {one for one in optional - absent if one[1] not in IDENTITY} == set()


def test_every_column_that_decides_is_null_in_some_rows() -> None:
    values: dict[tuple[str, str], set[bool]] = {}
    for number in range(COMPLETE, SCHEDULED, 5):
        for table, rows in generate(SEED, number)[0].items():
            for row in rows:
                for column in DECIDING.get(table, ()):
                    values.setdefault((table, column), set()).add(row.get(column) is None)
    assert values == {(table, column): {True, False} for table in DECIDING for column in DECIDING[table]}


def test_every_fate_and_finding_occurs() -> None:
    """In a thousand histories, as they are laid down, there is every fate and every class of finding.

    The rarest, an old answer of a coordinator, is in one of some thousand.
    """
    fates: Counter[str] = Counter()
    findings: Counter[str] = Counter()
    for case in cases(SEED, (*range(800), *range(2200, 2400))):
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
    for number in range(SCHEDULED, SCHEDULED + 400):
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
    flagged = 0
    for number in range(40):
        judged.clear()
        truth_of(generate(SEED, number)[0])
        flagged += any(judged)
    assert 8 < flagged < 32
