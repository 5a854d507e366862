"""The main scenario on a real cluster: judged as declared, and judged again alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.conftest import acked

pytestmark = pytest.mark.cluster


def test_every_zombie_write_is_lost_and_nothing_else(runs: Path) -> None:
    """The article's case: acks=1 writes to the cut-off leader are lost, what the majority took is kept."""
    run = acked("run", "leader-az-isolated", "--runs", runs, "--json")
    judgement = run.json()
    assert judgement["verdict"] == "as declared", (judgement, run.stderr)
    assert run.status == 0
    claims = {claim["name"]: claim for claim in judgement["claims"]}
    assert claims["zombie-writes-lost"]["status"] == "confirmed"
    assert claims["epoch-rises"]["status"] == "refuted"
    assert claims["epoch-rises"]["as_declared"]
    assert set(judgement["findings_by_class"]) == {"lost"}
    for finding in judgement["findings"]:
        assert finding["expected"]
        assert finding["acked_by"] == 1
        assert finding["last_broker"] == 1
        assert finding["epoch"] == 0

    again = acked("check", runs / "leader-az-isolated" / "latest", "--json")
    assert again.status == 0
    for key in ("verdict", "claims", "fates_by_writer", "findings_by_class"):
        assert again.json()[key] == judgement[key]
