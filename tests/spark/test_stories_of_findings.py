"""The story with which a shrunk scenario begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies.search.findings import RunFinding
from studies.search.shrinking import _story
from tests.runs.judged import judged_run

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.mark.parametrize(
    ("scenario", "name", "subject"),
    [
        ("delayed-end-txn-librdkafka", "torn_transaction", "Transaction "),
        ("leader-az-isolated", "lost", "Message "),
    ],
)
def test_it_is_that_of_the_transaction_if_the_finding_is_about_one(
    tmp_path: Path, scenario: str, name: str, subject: str
) -> None:
    finding = RunFinding(name=name, weight="known")
    (first, *others) = _story(judged_run(scenario, tmp_path / "run"), finding)
    assert first.startswith(subject)
    assert others
