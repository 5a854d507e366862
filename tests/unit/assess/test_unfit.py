"""Cases whose faults need what the machine lacks are unfit; what they need, the fault's class states."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.lab.layout import THREE_AZS
from studies.assess import series
from studies.assess.battery import battery

CASES = battery(THREE_AZS.topology("kraft"), "kraft")


@pytest.mark.parametrize(
    ("absent", "faults"),
    [
        ("", ()),
        ("netem", ("delay",)),
        ("fuse", ("disk_stalled", "disk_slow")),
        ("libfaketime", ("clock-ahead", "clock-back")),
    ],
)
def test_only_what_needs_what_is_missing_is_unfit(
    absent: str, faults: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def diagnose(names: list[str]) -> list[SimpleNamespace]:
        asked.extend(names)
        return [SimpleNamespace(ok=absent not in names)]

    monkeypatch.setattr(series, "diagnose", diagnose)
    assert series.unfit(CASES) == {
        case.name: f"this machine has no {absent}, which the fault {case.steps[-1].fault} needs"
        for case in CASES
        if case.kind in faults
    }
    assert asked == ["fuse", "libfaketime", "netem"]
    assert series.unfit([case for case in CASES if case.kind not in faults]) == {}
