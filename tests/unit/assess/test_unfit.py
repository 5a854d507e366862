"""Cases whose faults need what the machine lacks are unfit; what they need, the fault's class states."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.lab.layout import THREE_AZS
from studies.assess import series
from studies.assess.battery import battery

CASES = battery(THREE_AZS.topology("kraft"), "kraft")


@pytest.mark.parametrize("present", [True, False])
def test_only_a_machine_without_netem_cannot_delay(present: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def diagnose(names: list[str]) -> list[SimpleNamespace]:
        asked.extend(names)
        return [SimpleNamespace(ok=present)]

    monkeypatch.setattr(series, "diagnose", diagnose)
    reason = "this machine has no netem, which the fault delay needs"
    delays = [] if present else [case.name for case in CASES if case.kind == "delay"]
    assert series.unfit(CASES) == dict.fromkeys(delays, reason)
    assert asked == ["netem"]
    assert series.unfit([case for case in CASES if case.kind != "delay"]) == {}
