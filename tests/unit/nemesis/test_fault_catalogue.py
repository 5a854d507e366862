"""What each kind of fault states about itself is complete, and whoever uses faults takes it from there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from harness.history.mechanisms import MECHANISMS
from harness.kafka.versions import kafka_version
from harness.lab.layout import THREE_AZS
from nemesis.catalogue import FAULTS, random_faults
from nemesis.scheduled import ScheduledFault
from studies.assess.battery import battery

DOCS = Path(__file__).parents[3] / "docs"
MODES = ("zookeeper", "kraft", "kraft-combined")


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.mechanism)
def test_a_kind_of_fault_is_complete(fault: type[ScheduledFault]) -> None:
    assert fault.mechanism in MECHANISMS
    assert f"`{fault.mechanism}`" in (DOCS / "search.md").read_text()
    assert fault.takes in ("hosts", "links", "partition", "cluster")
    assert list(fault.values) == sorted(fault.values)
    assert bool(fault.values) == bool(fault.unit)
    assert not fault.others or fault.others in FAULTS
    assert set(fault.random_roles) <= set(fault.roles)
    assert set(fault.modes) <= set(MODES)


def test_random_schedules_have_the_faults_of_their_mode_that_have_a_weight() -> None:
    version = kafka_version("3.9.1")
    names = {mode: {fault.mechanism for fault in random_faults(version, mode)} for mode in MODES}
    assert "move_controller" in names["zookeeper"]
    assert names["zookeeper"] - names["kraft"] == {"move_controller"}
    assert names["kraft"] == names["kraft-combined"]
    assert set(FAULTS) - names["zookeeper"] == {
        *("delay", "disk_full", "disk_stalled", "disk_slow"),
        *("clock_shift", "reassign_to_others", "move_replica", "remove_voter"),
    }


@pytest.mark.parametrize(
    ("kafka", "asked", "on_request"),
    [
        ("4.4.0", "remove_voter", {"remove_voter"}),
        ("4.4.0", "clock*,kill", {"clock_shift"}),
        ("4.4.0", "reassign*", set()),
        ("4.4.0", "reassign_*", {"reassign_to_others"}),
        ("4.4.0", "*", set()),
        ("3.9.1", "remove_voter", set()),
    ],
)
def test_faults_on_request_are_asked_for_by_a_glob_that_matches_no_others(
    kafka: str, asked: str, on_request: set[str]
) -> None:
    """Without `dynamic_quorum`, a version has no voters to remove."""
    kinds = random_faults(kafka_version(kafka), "kraft", asked)
    assert {kind.mechanism for kind in kinds if kind.on_request} == on_request


def test_no_two_placements_have_the_same_name_or_rank() -> None:
    placed = [(fault, placement) for fault in FAULTS.values() for placement in fault.placements]
    assert Counter(placement.rank for _, placement in placed).most_common(1)[0][1] == 1
    assert len({placement.name or fault.mechanism for fault, placement in placed}) == len(placed)


def test_an_assessment_has_every_placement_and_says_so() -> None:
    page = (DOCS / "assess.md").read_text()
    names = {placement.name or fault.mechanism for fault in FAULTS.values() for placement in fault.placements}
    cases = battery(THREE_AZS.topology("zookeeper"), "zookeeper")
    assert {case.kind for case in cases} == names
    assert not [name for name in names if f"`{name}`" not in page and f"`{name}-" not in page]


def test_a_placement_of_a_fault_with_strengths_has_one() -> None:
    placed = {
        fault.mechanism for fault in FAULTS.values() for placement in fault.placements if placement.value
    }
    assert placed == {name for name, fault in FAULTS.items() if fault.values and fault.placements}
