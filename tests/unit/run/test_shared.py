"""Cases that are one case: which cells share a run, and what the second one gets."""

from __future__ import annotations

import json
from pathlib import Path

from harness.run.folder import RunFolder
from harness.series.cell import Cell, Ran
from harness.series.series import cells, select
from harness.series.shared import groups, hand_over

ISOLATED = Cell("leader-az-isolated", "2.7.1", "zookeeper")
AGAIN = Cell("partition-6-leader-isolated", "2.7.1", "zookeeper")


def test_a_case_told_twice_is_one_run() -> None:
    """Another version is another run, and so is a repeat."""
    newer = Cell(AGAIN.scenario, "3.9.1", "kraft-combined")
    found = groups([ISOLATED, AGAIN, newer, ISOLATED, AGAIN])
    assert found == [(ISOLATED, AGAIN), (newer,), (ISOLATED, AGAIN)]


def test_an_equal_body_with_another_set_up_is_a_run_of_its_own() -> None:
    """The power cut with and without flush; all of the catalogue is in some group, once."""
    planned = cells(select("*"), 2)
    found = groups(planned)
    assert sorted(map(str, planned)) == sorted(str(cell) for group in found for cell in group)
    shared = {cell.scenario for group in found if len(group) > 1 for cell in group}
    assert {"unclean-election", "loss-2-unclean-failover"} <= shared
    assert not {"power-cut", "power-cut-flushed"} & shared


def test_the_second_case_gets_the_history_and_its_own_claims(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, ISOLATED.scenario)
    folder.update(scenario=ISOLATED.scenario, kafka="2.7.1", status="complete")
    (folder.path / "history" / "marks.parquet").write_bytes(b"rows")
    ran = hand_over(Ran(ISOLATED, folder.path, 7.0), AGAIN, tmp_path)
    assert (ran.cell, ran.seconds, ran.folder.parent.name) == (AGAIN, 7.0, AGAIN.scenario)
    manifest = RunFolder.open(ran.folder).manifest()
    assert (manifest["scenario"], manifest["status"]) == (AGAIN.scenario, "complete")
    assert manifest["run_of"] == str(folder.path)
    assert sorted(path.name for path in ran.folder.iterdir()) == ["claims.json", "history", "run.json"]
    assert (ran.folder / "history" / "marks.parquet").read_bytes() == b"rows"
    claims = json.loads((ran.folder / "claims.json").read_text())["claims"]
    assert "accepts-acks-1-briefly" in {claim["name"] for claim in claims}
