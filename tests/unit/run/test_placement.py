"""Scenarios on layouts of other shapes: which fit, and which role is missing where one does not."""

from __future__ import annotations

import pytest

from harness.cluster.setup import Setup
from harness.errors import UnfitError, UsageError
from harness.kafka.model import Topic
from harness.lab.layout import THREE_AZS, AvailabilityZone, Layout
from run import placement
from run.placement import hosts_of, memory_gib, place, require_memory, start_s

SETUP = Setup(topics=(Topic("t", (1, 2, 3)),))


def _layout(**brokers: int) -> Layout:
    return Layout(tuple(AvailabilityZone(name=name, brokers=number) for name, number in brokers.items()))


def test_three_azs_change_nothing() -> None:
    assert place(SETUP, THREE_AZS, "zookeeper", "x") is SETUP


def test_a_set_up_that_was_made_for_the_layout_stays() -> None:
    """No AZ of this one needs a broker, as a tie-breaker has none."""
    setup = Setup(topics=(), brokers=(1, 2), for_layout=True)
    assert place(setup, _layout(a=1, b=1, c=0), "zookeeper", "x") is setup


def test_further_brokers_start_as_well() -> None:
    assert place(SETUP, _layout(a=2, b=2, c=2), "zookeeper", "x").brokers == (1, 2, 3, 4, 5, 6)
    assert place(SETUP, _layout(a=1, b=1, c=1, d=1, e=1), "kraft", "x").brokers == (1, 2, 3, 4, 5)


def test_a_broker_that_the_scenario_starts_itself_does_not_start() -> None:
    setup = Setup(topics=(), brokers=(1, 2))
    assert place(setup, _layout(a=2, b=1, c=1), "zookeeper", "x").brokers == (1, 2, 4)


@pytest.mark.parametrize(
    ("layout", "sentence"),
    [
        (
            _layout(a=3, b=3),
            r"x needs a ZooKeeper node, a broker and a client in a further AZ \(az3\), which",
        ),
        (_layout(a=3, b=3, c=0), r"x needs a broker in c, which the cluster of 3 AZs \(a, b, c\) does not"),
    ],
)
def test_a_missing_role_is_named(layout: Layout, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        place(SETUP, layout, "zookeeper", "x")


def test_a_scenario_may_reckon_with_the_size_of_the_quorum() -> None:
    """Two of three controllers are a majority; two of five are none."""
    setup = Setup(topics=(), exactly=("controller",))
    assert place(setup, _layout(a=2, b=2, c=2), "kraft", "x").brokers == (1, 2, 3, 4, 5, 6)
    five = _layout(a=1, b=1, c=1, d=1, e=1)
    with pytest.raises(UsageError, match=r"^x needs exactly 3 controllers, and the cluster has 5;"):
        place(setup, five, "kraft", "x")
    with pytest.raises(UsageError, match=r"exactly 3 brokers, and the cluster has 5;"):
        place(Setup(topics=(), exactly=("broker",)), five, "kraft", "x")


@pytest.mark.parametrize(
    ("mode", "kept"),
    [("zookeeper", {"zookeeper3"}), ("kraft", {"controller2"}), ("kraft-combined", set())],
)
def test_of_a_quorum_of_one_node_the_one_that_leads_starts(mode: str, kept: set[str]) -> None:
    setup = Setup(topics=(), controller="broker2", zookeeper_leader="zookeeper3", quorum="one node")
    whole = THREE_AZS.topology(mode)
    placed = hosts_of(setup, THREE_AZS, mode)
    assert {host.name for host in placed.hosts if host.role in ("zookeeper", "controller")} == kept
    assert [host for host in whole.hosts if host.role in ("broker", "client")] == [
        host for host in placed.hosts if host.role in ("broker", "client")
    ]
    assert hosts_of(SETUP, THREE_AZS, mode) == whole


def test_a_scenario_with_one_zookeeper_node_fits_a_layout_that_has_it() -> None:
    """Its node is in the second AZ; a scenario that needs one in each AZ does not fit."""
    layout = Layout(
        tuple(AvailabilityZone(name=name, zookeepers=number) for name, number in (("a", 1), ("b", 1)))
        + (AvailabilityZone(name="c", zookeepers=0),)
    )
    one = Setup(topics=(Topic("t", (1, 2, 3)),), quorum="one node")
    assert place(one, layout, "zookeeper", "x").brokers == (1, 2, 3)
    with pytest.raises(UsageError, match=r"x needs a ZooKeeper node in c"):
        place(SETUP, layout, "zookeeper", "x")


def test_a_cluster_that_the_memory_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = _layout(a=3, b=3).topology("zookeeper")
    need = memory_gib(topology)
    assert 2.5 < need < 2.7
    monkeypatch.setattr(placement, "available_gib", lambda: need)
    require_memory(topology)
    monkeypatch.setattr(placement, "available_gib", lambda: need - 0.5)
    with pytest.raises(UnfitError, match=r"10 hosts needs about 2.6 GiB of memory, and 2.1 GiB are"):
        require_memory(topology)


def test_a_larger_cluster_starts_later() -> None:
    """As measured: 4 to 7 s with three AZs, 6 to 13 s with six brokers and five ZooKeeper nodes."""
    six = Layout(tuple(AvailabilityZone(name=name, brokers=2, zookeepers=2) for name in "abc"))
    assert 4 <= start_s(THREE_AZS.topology("zookeeper")) <= 7 < start_s(six.topology("zookeeper")) <= 13
