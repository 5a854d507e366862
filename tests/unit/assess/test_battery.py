"""Which faults an assessment injects: every fault of the list, equivalent placements once, a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from harness.cluster.settings import NO_SETTINGS
from harness.errors import UsageError
from harness.lab.layout import THREE_AZS, AvailabilityZone, Layout
from nemesis.catalogue import FAULTS
from studies.assess.battery import Case, battery, select, within_budget
from studies.assess.described import setup

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
    stands_for = {case.name: case.stands_for for case in cases()}
    assert stands_for["isolate-az1.roles-az1"] == ("isolate-az2.roles-az2", "isolate-az3.roles-az3")
    assert len(stands_for["isolate-az1.roles-az2"]) == 5
    assert stands_for["power-all.roles-az1"] == ()
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
    assert sorted(name for name in names(mode="kraft") if name.startswith("one-way")) == [
        "one-way-az1-az2.roles-az1",
        "one-way-az1-az2.roles-az2",
        "one-way-az1-az2.roles-az3",
    ]


@pytest.mark.parametrize("mode", ["zookeeper", "kraft", "kraft-combined"])
def test_every_fault_is_there(mode: str) -> None:
    """In KRaft the leader of the quorum is the controller, so that both cannot be killed separately."""
    kinds = {case.kind for case in cases(mode=mode)}
    assert kinds == {
        placement.name or fault.mechanism for fault in FAULTS.values() for placement in fault.placements
    } - ({"kill-roles"} if mode != "zookeeper" else set())


def test_one_az_has_no_faults_between_azs() -> None:
    kinds = {case.kind for case in cases(ONE_AZ)}
    assert not kinds & {"isolate", "cut", "one-way", "flap", "kill-az", "power-az"}
    assert {"power-all", "kill", "no-quorum", "restart"} <= kinds


@pytest.mark.parametrize("layout", [THREE_AZS, TWO_DATA_CENTRES, ONE_AZ])
@pytest.mark.parametrize("mode", ["zookeeper", "kraft", "kraft-combined"])
def test_names_are_unique_and_the_order_starts_with_one_case_of_each_fault(layout: Layout, mode: str) -> None:
    ordered = cases(layout, mode)
    assert len({case.name for case in ordered}) == len(ordered)
    kinds = {case.kind for case in ordered}
    first: list[str] = []
    for case in ordered:
        if case.kind not in first:
            first.append(case.kind)
        elif len(first) < len(kinds):
            on_nodes = ("kill", "pause", "throttle", "delay", "disk_stalled", "disk_slow")
            node = case.kind in on_nodes and case.steps[0].targets[0] != "broker1"
            assert case.kind == "isolate" or node, f"{case.name} is too early"


def test_roles_and_leaders_are_inside_or_outside() -> None:
    by_name = {case.name: case for case in cases()}
    inside, outside = by_name["isolate-az1.roles-az1"], by_name["isolate-az1.roles-az2"]
    assert (inside.controller, inside.quorum_leader, inside.roles) == ("broker1", "zookeeper1", "inside")
    assert (outside.controller, outside.quorum_leader, outside.roles) == ("broker2", "zookeeper2", "outside")
    assert inside.inside == outside.inside == ("broker1",)
    killed = by_name["kill-zookeeper1.roles-here"]
    assert (killed.roles, killed.inside) == ("outside, quorum leader inside", ())


def test_sessions_are_in_the_brokers_own_az() -> None:
    by_name = {case.name: case for case in cases()}
    home = {"broker1": "zookeeper1", "broker2": "zookeeper2", "broker3": "zookeeper3"}
    for name in ("isolate-az1.roles-az1", "cut-az1-az2.roles-az3", "kill-zookeeper1.roles-here"):
        assert (by_name[name].sessions, by_name[name].pins) == (home, {}), name
        assert "sessions" not in by_name[name].roles
    shared = battery(TWO_DATA_CENTRES.topology("zookeeper"), "zookeeper")[0].sessions
    assert [shared[f"broker{number}"][-1] for number in range(1, 7)] == list("124512")


def test_the_session_that_a_fault_may_end() -> None:
    """The one that cannot be kept, the controller's if the fault hits it, or that of the first broker."""
    sessions_hit = {case.name: case.session_hit for case in cases()}
    assert sessions_hit["isolate-az1.roles-az1"] == sessions_hit["isolate-az1.roles-az2"] == "broker1"
    assert sessions_hit["one-way-az1-az2.roles-az2"] == "broker2", (
        "the controller, although broker1 is hit as well"
    )
    assert sessions_hit["cut-az1-az2.roles-az1.sessions-lost"] == "broker2"
    assert sessions_hit["cut-az1-az2.roles-az3"] == "broker1"
    assert sessions_hit["kill-zookeeper1.roles-here"] == sessions_hit["no-quorum.roles-az1"] == ""
    assert {case.session_hit for case in cases(mode="kraft")} == {""}


def test_an_az_without_zookeeper_uses_the_next_one_that_the_fault_leaves_it() -> None:
    layout = Layout(
        (
            AvailabilityZone(name="bare", zookeepers=0),
            AvailabilityZone(name="east", zookeepers=2),
            AvailabilityZone(name="west"),
        )
    )
    session_by_case = {case.name: case.sessions["broker3"] for case in cases(layout)}
    assert session_by_case["kill-broker1.roles-here"] == "zookeeper1"
    assert session_by_case["cut-east-bare.roles-west"] == "zookeeper2"


def test_a_cut_that_splits_the_quorum_has_two_placements_of_sessions() -> None:
    """Cut off from the leader in az1, zookeeper2 leaves the quorum; whether broker2 finds another node in
    time must not be left to chance."""
    by_name = {case.name: case for case in cases()}
    kept = by_name["cut-az1-az2.roles-az1"]
    assert (kept.sessions["broker2"], kept.pins) == ("zookeeper3", {})
    assert kept.roles == "inside, sessions of az2 kept"
    lost = by_name["cut-az1-az2.roles-az1.sessions-lost"]
    assert (lost.sessions["broker2"], lost.pins) == ("zookeeper2", {"broker2": ("zookeeper2",)})
    assert lost.roles == "inside, sessions of az2 lost"
    assert {name for name in by_name if name.endswith("-lost")} == {
        "cut-az1-az2.roles-az1.sessions-lost",
        "one-way-az1-az2.roles-az1.sessions-lost",
        "one-way-az1-az2.roles-az2.sessions-lost",
    }
    assert by_name["one-way-az1-az2.roles-az2"].sessions["broker1"] == "zookeeper3"
    assert by_name["restart-az1-az2.roles-az1"].sessions["broker2"] == "zookeeper3"
    order = list(by_name)
    assert order.index("cut-az1-az2.roles-az3") < order.index(lost.name)
    tie = {case.name: case for case in cases(TWO_DATA_CENTRES)}["cut-north-south.roles-north.sessions-lost"]
    assert tie.pins == dict.fromkeys(("broker2", "broker4", "broker6"), ("zookeeper2", "zookeeper5"))


def test_without_a_third_az_the_smaller_part_has_one_placement() -> None:
    """Its brokers reach no node of the quorum, so nothing is left to chance: also if the leader is there."""
    two = Layout((AvailabilityZone(name="one"), AvailabilityZone(name="two", zookeepers=2)))
    by_name = {case.name: case for case in cases(two) if case.kind == "cut"}
    assert list(by_name) == ["cut-one-two.roles-one"]
    assert by_name["cut-one-two.roles-one"].sessions == {"broker1": "zookeeper1", "broker2": "zookeeper2"}
    assert by_name["cut-one-two.roles-one"].roles == "inside"


def test_a_leader_in_the_minority_loses_the_quorum_itself() -> None:
    """az1 has the leader, but az2 and az3 have most nodes: it is az1 whose sessions are at risk."""
    layout = Layout(
        (
            AvailabilityZone(name="az1"),
            AvailabilityZone(name="az2", zookeepers=3),
            AvailabilityZone(name="az3"),
        )
    )
    by_name = {case.name: case for case in cases(layout)}
    case = by_name["cut-az1-az2.roles-az1"]
    assert case.roles == "inside, sessions of az1 kept"
    assert case.sessions["broker1"] == "zookeeper3"


@pytest.mark.parametrize("mode", ["kraft", "kraft-combined"])
def test_kraft_has_no_sessions(mode: str) -> None:
    assert not any(case.sessions or case.pins or "sessions" in case.roles for case in cases(mode=mode))


def test_a_lost_quorum_is_a_majority_with_the_leader() -> None:
    for layout, majority in ((THREE_AZS, 2), (TWO_DATA_CENTRES, 3)):
        (lost,) = (case for case in cases(layout) if case.kind == "no-quorum")
        assert len(lost.steps[0].targets) == majority
        assert lost.quorum_leader in lost.steps[0].targets


def test_selection_by_glob() -> None:
    selected = select(cases(), ["isolate-*", "power-all*"])
    assert Counter(case.kind for case in selected) == {"isolate": 2, "power-all": 1}
    assert {case.kind for case in select(cases(), ["isolate-az1"])} == {"isolate"}, "without .roles-..."
    with pytest.raises(UsageError, match="'nonsense' matches no fault"):
        select(cases(), ["isolate-*", "nonsense"])


def test_a_budget_keeps_the_most_telling() -> None:
    """Two side by side: ten minutes hold twenty runs of a minute; the first case is always kept."""
    all_cases = cases()

    def seconds(some: Sequence[Case]) -> float:
        return 60.0 * len(some) / 2

    assert within_budget(all_cases, seconds, 600.0) == all_cases[:20]
    assert within_budget(all_cases, seconds, 1.0) == all_cases[:1]
    assert within_budget(all_cases, seconds, 1e6) == all_cases


def test_every_fault_comes_at_every_third_of_an_upgrade() -> None:
    """Controllers first, the active one last of them; the brokers follow."""
    upgraded = battery(THREE_AZS.topology("kraft"), "kraft", "4.4.0")
    isolated = {case.name: case for case in upgraded if case.name.startswith("isolate-az1.roles-az1.")}
    assert list(isolated) == [f"isolate-az1.roles-az1.{count}-of-6" for count in (2, 4, 6)]
    hosts = [case.upgraded.hosts for case in isolated.values() if case.upgraded]
    assert hosts[0] == ("controller2", "controller3")
    assert hosts[1] == ("controller2", "controller3", "controller1", "broker1")
    assert set(hosts[2]) == {f"{role}{number}" for role in ("controller", "broker") for number in (1, 2, 3)}
    case = isolated["isolate-az1.roles-az1.4-of-6"]
    assert case.says == "az1 isolated, 4 of 6 nodes on 4.4.0"
    assert case.subject == "Isolating az1 with 4 of 6 nodes on 4.4.0"
    kinds = {case.name.partition(".roles-")[0] for case in battery(THREE_AZS.topology("kraft"), "kraft")}
    assert {case.name.partition(".roles-")[0] for case in upgraded} >= kinds


def test_azs_that_run_different_versions_are_not_equivalent() -> None:
    """Half-way az1's broker is new, and those of az2 and az3 are old."""
    stands_for = {
        case.name: case.stands_for for case in battery(THREE_AZS.topology("kraft"), "kraft", "4.4.0")
    }
    assert stands_for["isolate-az1.roles-az1.4-of-6"] == ()
    assert stands_for["isolate-az2.roles-az2.4-of-6"] == ("isolate-az3.roles-az3.4-of-6",)
    assert len(stands_for["isolate-az1.roles-az1.6-of-6"]) == 2


def test_zookeeper_is_not_upgraded_with_kafka() -> None:
    upgraded = battery(THREE_AZS.topology("zookeeper"), "zookeeper", "3.9.1")
    case = next(case for case in upgraded if case.name == "isolate-az1.roles-az1.2-of-3")
    assert case.upgraded is not None and case.upgraded.hosts == ("broker2", "broker3")


def test_a_wrong_clock_is_prepared_and_lasts_until_brokers_have_looked_at_retention() -> None:
    """That is 30 s after their start; other faults last as the time-outs ask."""
    by_name = {case.name: case for case in cases(mode="kraft")}
    topology = THREE_AZS.topology("kraft")
    ahead, back = (by_name[f"clock-{way}-broker1.roles-elsewhere"] for way in ("ahead", "back"))
    assert {step.value for step in ahead.steps} == {8 * 86_400.0}
    assert [step.until.after_s for step in ahead.lasting(9.0)] == [35.0]
    assert [step.until.after_s for step in back.lasting(9.0)] == [9.0]
    made = setup(ahead, topology, NO_SETTINGS)
    assert (made.own_clocks, made.volatile_disks) == (("broker1",), ())
    assert made.broker_config == {"log.retention.check.interval.ms": "1000"}
    stalled = setup(by_name["disk_stalled-broker1.roles-elsewhere"], topology, NO_SETTINGS)
    assert (stalled.own_clocks, stalled.volatile_disks, stalled.broker_config) == ((), ("broker1",), {})
