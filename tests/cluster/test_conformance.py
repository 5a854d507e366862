"""Every fault in both labs on the real kernel: inject, verify, heal, verify, with trivial TCP listeners.

The cases are in `conformance_worker.py`, which runs all those that were selected in one lab, once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conformance_worker import CASES

from harness import doctor

WORKER = Path(__file__).with_name("conformance_worker.py")
ROOT = WORKER.parents[2]
MARKS = {"embedded": pytest.mark.cluster, "compose": pytest.mark.compose}
FIRST_ON_COMPOSE = frozenset(
    {
        *("az_isolated", "broker_from_broker", "client_from_broker", "one_way_packets", "one_way_calls"),
        *("sender_backs_off", "disconnected", "foreign_rules_survive", "restarted_host_is_cut_again"),
        *("held_data_of_a_closed_connection_is_delivered", "held_data_is_dropped_by_a_reset"),
        "restarted_container_is_cut_before_its_process",
        *("rate_limit", "delay", "killed_and_started_again", "stopped", "paused"),
        *("power_cut_emulated", "power_cut_of_ext4", "power_cut_of_xfs", "full_disk"),
        "stalled_and_slow_disk",
        *("wiped_and_damaged_replica", "clean_end"),
    }
)
"""One case for each mechanism. The other cases test what both labs share, on the embedded one; on Compose
they belong to `make test-all`."""
WITHIN_S = 500
"""Ten times what a lab takes on an idle machine: the tests share theirs."""
NAMES = [*CASES, "clean_end"]
assert set(NAMES) >= FIRST_ON_COMPOSE


def _belongs_to_all(lab: str, name: str) -> bool:
    return name == "loss" or (lab == "compose" and name not in FIRST_ON_COMPOSE)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Outcomes by lab and case; a lab's cases run when the first of them is asked for."""
    by_lab: dict[str, Mapping[str, Any]] = {}

    def of(lab: str) -> Mapping[str, Any]:
        if lab not in by_lab:
            chosen = [
                item.callspec.params["name"]
                for item in request.session.items
                if getattr(item, "callspec", None) and item.callspec.params.get("lab") == lab
                and item.path == request.path and item.callspec.params.get("name") in CASES
            ]  # fmt: skip
            command = [sys.executable, str(WORKER), lab, str(tmp_path_factory.mktemp(lab)), *chosen]
            stdout, stderr = _finished(command)
            rows = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
            by_lab[lab] = {row["case"]: row for row in rows} | {"": stderr}
        return by_lab[lab]

    return of


def _finished(command: list[str]) -> tuple[str, str]:
    """What the worker printed, also if it was too slow: cases that it finished are not run again."""
    worker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        return worker.communicate(timeout=WITHIN_S)
    except subprocess.TimeoutExpired:
        worker.terminate()
        stdout, stderr = worker.communicate()
        return stdout, f"{stderr}\nnot done within {WITHIN_S} s"


@pytest.mark.parametrize(
    ("name", "lab"),
    [
        pytest.param(name, lab, marks=[mark, *([pytest.mark.long] if _belongs_to_all(lab, name) else [])])
        for name in NAMES
        for lab, mark in MARKS.items()
    ],
)
def test_fault(outcomes: Any, lab: str, name: str) -> None:
    """The case's own assertions hold, and at the very end every host's rules are as they were.

    A case that this machine cannot run is skipped with the reason. In the embedded lab, `acked doctor` must
    agree: where it says that what is needed works, the skip is a failure.
    """
    outcome = outcomes(lab)
    assert name in outcome, f"the {lab} lab ended before the case {name}:\n{outcome['']}"
    assert not outcome[name]["problem"], outcome[name]["problem"]
    detail = outcome[name]["detail"]
    if isinstance(detail, dict) and "needs" in detail:
        (check,) = doctor.diagnose((detail["needs"],))
        assert lab != "embedded" or not check.ok, f"{detail['unfit']}, but {check.name} {check.found}"
        pytest.skip(detail["unfit"])
