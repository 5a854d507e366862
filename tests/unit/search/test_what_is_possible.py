"""What a version or a machine does not have is refused before anything starts, in one sentence."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from cli.commands import app
from cli.search import require_version
from harness.errors import UnfitError, UsageError
from harness.kafka.versions import kafka_version
from studies.assess import series
from studies.search.schedule import Group, Member, Producer, Schedule, TopicPlan
from studies.steps.step import Step

SCHEDULE = Schedule(
    kafka="4.4.0",
    mode="kraft",
    controller="controller2",
    topics=(TopicPlan(name="t1"),),
    producers=(Producer(az="az1"),),
    groups=(Group(members=(Member(az="az1"),), answers=("accept",)),),
)


def target(version: str, mode: str = "kraft") -> Any:
    return SimpleNamespace(version=kafka_version(version), mode=mode)


def test_a_share_group_needs_a_version_that_has_them() -> None:
    require_version(SCHEDULE, target("4.4.0"))
    with pytest.raises(UsageError, match=r"share group, which Kafka 3.9.1 does not have; use 4.2.0 or newer"):
        require_version(SCHEDULE, target("3.9.1"))


def test_a_step_needs_its_mode() -> None:
    step = replace(SCHEDULE, groups=(), steps=(Step(fault="move_controller"),))
    require_version(step, target("3.9.1", "zookeeper"))
    with pytest.raises(
        UsageError, match=r"a step move_controller, which Kafka 3.9.1 does not have in mode kraft"
    ):
        require_version(step, target("3.9.1"))


def test_a_machine_that_cannot_slow_disks_down_says_so_before_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diagnose(names: list[str]) -> list[SimpleNamespace]:
        return [SimpleNamespace(ok="fuse" not in names)]

    monkeypatch.setattr(series, "diagnose", diagnose)
    command = ["search", "--faults", "disk_slow,kill", "--runs", str(tmp_path)]
    refused = CliRunner().invoke(app, command).exception
    assert isinstance(refused, UnfitError)
    assert refused.message == (
        "--faults 'disk_slow,kill': this machine has no fuse, which the fault disk_slow needs; name others."
    )
    assert list(tmp_path.iterdir()) == []
