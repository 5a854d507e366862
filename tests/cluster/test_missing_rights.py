"""A planted loss is found whatever right is missing; a recording that could prove nothing is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.test_recorded_faults import ONE_WRITER, carried_out

pytestmark = [pytest.mark.cluster, pytest.mark.long]

REFUSED = {
    "create": "You lack CREATE on topics acked-*",
    "read": "You lack READ on topics acked-*",
    "write": "You lack WRITE on topics acked-*",
    "transactional-id-write": "You lack WRITE on transactional ids acked-*",
    "group-read": "You lack READ on groups acked-*",
}


@pytest.mark.parametrize("kafka", ["4.3.1", "2.7.1"])
def test_without_a_right_that_is_needed_nothing_begins(tmp_path: Path, kafka: str) -> None:
    outcomes = {one["missing"]: one for one in carried_out("missing_rights", tmp_path, kafka, *REFUSED)}
    assert list(outcomes) == list(REFUSED)
    for right, says in REFUSED.items():
        done = outcomes[right]
        assert done["status"] == 254 and says in done["stderr"], done
        assert len(done["stderr"].splitlines()) == 1 and len(done["stderr"]) <= 300


@pytest.mark.parametrize(
    ("kafka", "rights"),
    [
        ("4.3.1", ["none", "delete", "describe-configs"]),
        ("4.3.1", ["describe", "cluster-describe", "cluster-describe-configs"]),
        ("2.7.1", ["none", "idempotent-write", "cluster-describe-configs"]),
    ],
)
def test_a_planted_loss_is_found_whatever_right_is_missing(
    tmp_path: Path, kafka: str, rights: list[str]
) -> None:
    outcomes = {one["missing"]: one for one in carried_out("missing_rights", tmp_path, kafka, *rights)}
    assert list(outcomes) == rights
    for right, one in outcomes.items():
        assert one["only_by_findings"] == one["only_on_disk"] == [], (right, one)
        assert one["different"] == one["dumped_different"] == 0, (right, one)
        assert set(one["lost_by_writer"]) == {ONE_WRITER}, (right, one["lost_by_writer"])
        assert one["judgement"]["verdict"] == "as declared", (right, one["judgement"]["reasons"])
