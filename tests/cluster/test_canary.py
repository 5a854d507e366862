"""The checker finds what was altered by hand, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.conftest import acked

pytestmark = pytest.mark.cluster


@pytest.mark.long
def test_one_flipped_byte_of_one_replica_is_seen(runs: Path) -> None:
    """A byte of one replica's log is flipped on disk: exactly that record is found, on that replica."""
    run = acked("run", "canary", "--runs", runs, "--json")
    judgement = run.json()
    assert judgement["verdict"] == "as declared", (judgement, run.stderr)
    assert judgement["findings_by_class"] == {"corrupt": 1}
    (finding,) = judgement["findings"]
    assert (finding["topic"], finding["partition"], finding["offset"]) == ("t", 0, 1)
    assert finding["brokers"] == [3]
