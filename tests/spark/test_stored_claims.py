"""Spark and DuckDB judge claims alike: on a stored run of each scenario, and on mutants of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from checkers.claims.evaluate import ClaimResult
from checkers.judge import judge_history
from tests.runs.mutants import MUTANTS, Recorded
from tests.runs.stored import judge_tables, read_stored, stored_names, written
from tests.runs.turning import read_turned

pytestmark = pytest.mark.spark

SAMPLE = ("canary", "hw-truncation-diverges")
"""Scenarios with the claims whose SQL is most varied; the others are judged by the long tests."""


def outcomes(claims: Sequence[ClaimResult]) -> dict[str, tuple[Any, ...]]:
    """What was decided of each claim, without the words."""
    shown = {}
    for claim in claims:
        others = [other and other["holds"] for other in (claim.erratum, claim.either)]
        shown[claim.name] = (claim.status, claim.as_declared, *others)
    return shown


@pytest.mark.parametrize(
    "scenario",
    [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.long) for name in stored_names()],
)
def test_spark_and_duckdb_decide_alike(spark: Any, scenario: str) -> None:
    run = read_stored(scenario)
    mutant = min(read_turned()[scenario].values(), default="all-refused")
    changed = MUTANTS[mutant](Recorded(run.tables))
    assert changed is not None
    for tables in (run.tables, changed.tables):
        with written(tables) as history:
            by_spark = judge_history(spark, history, None, run.declared).claims
        assert outcomes(by_spark) == outcomes(judge_tables(tables, run.declared))
