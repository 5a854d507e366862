"""Claims about other Kafka versions than the scenario's own are as declared there, and can fail."""

from __future__ import annotations

import pytest

from tests.runs.store import OTHERS, STORED
from tests.runs.stored import judge_tables, read_stored
from tests.runs.turning import turned_by

NAMES = sorted(f"{OTHERS}/{file.stem}" for file in (STORED / OTHERS).glob("*.zip"))


@pytest.mark.parametrize("name", NAMES)
def test_a_run_on_another_version_is_as_declared_and_every_claim_has_a_mutant(name: str) -> None:
    run = read_stored(name)
    wrong = [claim.name for claim in judge_tables(run.tables, run.declared) if not claim.as_declared]
    assert not wrong
    assert set(run.claims) == set(turned_by(run)), "no mutant turns these claims"


def test_runs_of_other_versions_are_stored() -> None:
    assert NAMES
