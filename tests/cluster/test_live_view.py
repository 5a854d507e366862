"""A real run watched through `acked serve`: what it shows at the end is what the final page shows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import wait_until
from report.model.gather import report_model
from report.model.model import Lane
from studies.browse.live import LiveRun
from tests.unit.report.test_serve import pictures, serving

pytestmark = [pytest.mark.cluster, pytest.mark.long]


def stated(lanes: Sequence[Lane]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """What each node stated, and from when on. The last statement of a run has no end yet."""
    return [
        (lane.source, [(one.from_s, one.leader, one.epoch, one.isr, one.error) for one in lane.beliefs])
        for lane in lanes
    ]


def test_pictures_of_a_run_under_way_are_those_of_its_page(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "cli.main",
        "run",
        "leader-az-isolated",
        "--runs",
        str(tmp_path),
        "--quiet",
    ]
    with serving(tmp_path) as server, subprocess.Popen(command) as run:
        try:
            address = wait_until(
                lambda: next((one["address"] for one in server.json("/runs.json") if one["under_way"]), ""),
                within_s=120,
                awaiting="the run to be under way",
                poll_s=0.5,
            )
            shown = [text for kind, text in pictures(server, address) if kind == "message"]
        finally:
            assert run.wait(timeout=300) == 0
    assert len(shown) > 5
    assert any("isolate az" in text for text in shown)
    folder = tmp_path / address
    live, final = LiveRun(folder).model(), report_model(folder)
    assert live is not None
    assert live.partition is not None
    story = next(one for one in final.partitions if one.name == live.partition.name)
    assert stated(live.partition.lanes) == stated(story.lanes)
    assert stated(live.controllers) == stated(final.controllers)
    assert live.partition.offsets == story.offsets
    faults = [(one.name, one.from_s, one.to_s) for one in final.faults]
    assert [(one.name, one.from_s, one.to_s) for one in live.faults] == faults
    assert live.acknowledged >= sum(one.acknowledged for one in final.availability) > 0
