"""An assessment that was interrupted is resumed from its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadDataError
from studies.assess.series import Assessment, AssessmentPlan
from studies.series.folder import PLAN


def test_a_resumed_assessment_has_its_plan(tmp_path: Path) -> None:
    plan = AssessmentPlan(cases=("a", "b"), version="2.7.1", mode="kraft", lab="embedded", settings={})
    made = Assessment.create(tmp_path, plan, None)
    assert Assessment.resume(made.series.path).plan == plan


@pytest.mark.parametrize(
    "plan", ["{", "7", '{"cases": 7}', "[" * 9**5, '{"a":' * 9**5], ids=lambda text: text[:20]
)
def test_a_damaged_plan_cannot_be_resumed(tmp_path: Path, plan: str) -> None:
    (tmp_path / PLAN).write_text(plan)
    with pytest.raises(BadDataError, match="holds no assessment to resume"):
        Assessment.resume(tmp_path)
