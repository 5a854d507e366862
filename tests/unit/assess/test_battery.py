"""Which faults an assessment injects: every fault of the list, equivalent placements once, a budget."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.assess.battery import ORDER, Case, battery, select, within_budget
from harness.errors import UsageError
from harness.lab.layout import THREE_AZS, AvailabilityZone, Layout

TWO_DATA_CENTRES = Layout(
    (
        AvailabilityZone(name="north", brokers=3, zookeepers=2),
        AvailabilityZone(name="south", brokers=3, zookeepers=2),
        AvailabilityZone(name="tie-breaker", brokers=0, zookeepers=1, clients=0),
    )
)
ONE_AZ = Layout((AvailabilityZone(name="only", brokers=3, zookeepers=3),))


def cases(layout: Layout = THREE_AZS, mode: str = "zookeeper") -> tuple[Case, ...]:
    return battery(layout.topology(mode), mode)


def names(layout: Layout = THREE_AZS, mode: str = "zookeeper") -> list[str]:
    return [case.name for case in cases(layout, mode)]


def test_three_equal_azs_are_isolated_twice() -> None:
    """Once with the controller inside and once outside: which AZ it is makes no difference."""
    assert [name for name in names() if name.startswith("isolate")] == [
        "isolate-az1.roles-az1",
        "isolate-az1.roles-az2",
    ]


def test_equivalent_placements_are_named() -> None:
    found = {case.name: case.stands_for for case in cases()}
    assert found["isolate-az1.roles-az1"] == ("isolate-az2.roles-az2", "isolate-az3.roles-az3")
    assert len(found["isolate-az1.roles-az2"]) == 5
    assert found["power-all.roles-az1"] == ()
    with pytest.raises(
        UsageError, match=r"'isolate-az2' matches only .*: isolate-az1.roles-az1, isolate-az1"
    ):
        select(cases(), ["isolate-az2"])


def test_azs_of_different_shape_are_isolated_separately() -> None:
    """The tie-breaker has no broker; its ZooKeeper node may lead, with the controller on either side."""
    assert sorted(name for name in names(TWO_DATA_CENTRES) if name.startswith("isolate")) == [
        "isolate-north.roles-north",
        "isolate-north.roles-south",
        "isolate-north.roles-tie-breaker",
        "isolate-south.roles-tie-breaker",
        "isolate-tie-breaker.roles-north",
        "isolate-tie-breaker.roles-tie-breaker",
    ]


def test_a_one_way_cut_has_three_placements() -> None:
    """The controller at the source, at the destination, and beside the cut."""
    assert sorted(name for name in names() if name.startswith("one-way")) == [
        "one-way-az1-az2.roles-az1",
        "one-way-az1-az2.roles-az2",
        "one-way-az1-az2.roles-az3",
    ]


@pytest.mark.parametrize("mode", ["zookeeper", "kraft", "kraft-combined"])
def test_every_fault_is_there(mode: str) -> None:
    """In KRaft the leader of the quorum is the controller, so that both cannot be killed separately."""
    found = {case.mechanism for case in cases(mode=mode)}
    assert found == set(ORDER) - ({"kill-roles"} if mode != "zookeeper" else set())


def test_one_az_has_no_faults_between_azs() -> None:
    found = {case.mechanism for case in cases(ONE_AZ)}
    assert not found & {"isolate", "cut", "one-way", "flap", "kill-az", "power-az"}
    assert {"power-all", "kill", "no-quorum", "rolling-restart"} <= found


@pytest.mark.parametrize("layout", [THREE_AZS, TWO_DATA_CENTRES, ONE_AZ])
@pytest.mark.parametrize("mode", ["zookeeper", "kraft", "kraft-combined"])
def test_names_are_unique_and_the_order_starts_with_one_case_of_each_fault(layout: Layout, mode: str) -> None:
    found = cases(layout, mode)
    assert len({case.name for case in found}) == len(found)
    kinds = {case.mechanism for case in found}
    first: list[str] = []
    for case in found:
        if case.mechanism not in first:
            first.append(case.mechanism)
        elif len(first) < len(kinds):
            node = case.mechanism in ("kill", "pause", "rate", "delay") and case.targets[0] != "broker1"
            assert case.mechanism == "isolate" or node, f"{case.name} is too early"


def test_roles_and_leaders_are_inside_or_outside() -> None:
    found = {case.name: case for case in cases()}
    inside, outside = found["isolate-az1.roles-az1"], found["isolate-az1.roles-az2"]
    assert (inside.controller, inside.quorum_leader, inside.roles) == ("broker1", "zookeeper1", "inside")
    assert (outside.controller, outside.quorum_leader, outside.roles) == ("broker2", "zookeeper2", "outside")
    assert inside.inside == outside.inside == ("broker1",)
    killed = found["kill-zookeeper1.roles-here"]
    assert (killed.roles, killed.inside) == ("outside, quorum leader inside", ())


def test_a_lost_quorum_is_a_majority_with_the_leader() -> None:
    for layout, majority in ((THREE_AZS, 2), (TWO_DATA_CENTRES, 3)):
        (lost,) = (case for case in cases(layout) if case.mechanism == "no-quorum")
        assert len(lost.targets) == majority
        assert lost.quorum_leader in lost.targets


def test_selection_by_glob() -> None:
    found = select(cases(), ["isolate-*", "power-all*"])
    assert Counter(case.mechanism for case in found) == {"isolate": 2, "power-all": 1}
    assert {case.mechanism for case in select(cases(), ["isolate-az1"])} == {"isolate"}, "without .roles-..."
    with pytest.raises(UsageError, match="'nonsense' matches no fault"):
        select(cases(), ["isolate-*", "nonsense"])


def test_a_budget_keeps_the_most_telling() -> None:
    """Two side by side: ten minutes hold twenty runs of a minute; the first case is always kept."""
    found = cases()
    assert within_budget(found, lambda case: 60.0, 600.0, 2) == found[:20]
    assert within_budget(found, lambda case: 60.0, 1.0, 2) == found[:1]
    assert within_budget(found, lambda case: 60.0, 1e6, 2) == found
