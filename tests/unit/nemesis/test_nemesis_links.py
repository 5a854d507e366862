"""Cuts in text form, and the shapes of partitions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nemesis_fakes import TOPOLOGY, crowded

from harness.errors import UsageError
from harness.lab.model import Topology
from nemesis.network import links
from nemesis.network.links import Link


def _text(parsed: tuple[Link, ...]) -> set[str]:
    return {str(link) for link in parsed}


def test_one_direction() -> None:
    assert links.parse(TOPOLOGY, "broker1 -> broker2") == (Link("broker1", "broker2"),)
    assert links.parse(TOPOLOGY, "broker1 <- broker2") == (Link("broker2", "broker1"),)


def test_both_directions_and_several_cuts() -> None:
    parsed = links.parse(TOPOLOGY, "broker1 <-> broker2, client1->broker3")
    assert _text(parsed) == {"broker1 -> broker2", "broker2 -> broker1", "client1 -> broker3"}


def test_az_means_all_of_its_hosts() -> None:
    parsed = links.parse(TOPOLOGY, "az1 -> az2")
    assert len(parsed) == 9
    assert {link.source for link in parsed} == {"zookeeper1", "broker1", "client1"}


@pytest.mark.parametrize("text", ["broker1 -> zookeeper*:2181", "broker1 -> zookeepers:zookeeper"])
def test_service_by_port_or_name(text: str) -> None:
    """That includes the node in the broker's own AZ."""
    assert _text(links.parse(TOPOLOGY, text)) == {f"broker1 -> zookeeper{n}:2181" for n in (1, 2, 3)}


def test_service_of_two_ports() -> None:
    parsed = links.parse(TOPOLOGY, "zookeeper1 -> zookeeper2:zookeeper-peer")
    assert [link.port for link in parsed] == [2888, 3888]


def test_role_in_az() -> None:
    assert _text(links.parse(TOPOLOGY, "clients@az1 -> broker2")) == {"client1 -> broker2"}


def test_service_concerns_only_hosts_that_offer_it() -> None:
    assert _text(links.parse(TOPOLOGY, "client1 -> az2:kafka")) == {"client1 -> broker2:9092"}


def test_a_service_is_cut_where_each_host_offers_it() -> None:
    hosts = [
        replace(host, services={"kafka": (9192,), "controller": (9092,)}) if host.name == "broker2" else host
        for host in TOPOLOGY.hosts
    ]
    parsed = links.parse(Topology(tuple(hosts), TOPOLOGY.observer_address), "client1 -> brokers:kafka")
    assert _text(parsed) == {f"client1 -> broker{n}:{port}" for n, port in ((1, 9092), (2, 9192), (3, 9092))}


def test_same_link_named_twice_counts_once() -> None:
    assert links.parse(TOPOLOGY, "broker1 -> broker2, broker1 -> az2:kafka, broker1 -> broker2") == (
        Link("broker1", "broker2"),
        Link("broker1", "broker2", 9092),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("broker1 - broker2", "is not a cut"),
        ("", "is not a cut"),
        ("broker1 -> broker2,", "is not a cut"),
        ("broker4 -> broker2", "names no host"),
        ("broker1 -> broker2:kafak", "neither a service nor a port"),
        ("broker1 -> broker2:99999", "neither a service nor a port"),
        ("broker1 -> broker2:2181", "names no link"),
        ("broker1 -> client1:kafka", "names no link"),
        ("broker1 -> broker1", "names no link"),
    ],
)
def test_a_cut_that_would_cut_nothing_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        links.parse(TOPOLOGY, text)


def test_isolated_az_is_cut_from_all_others_both_ways() -> None:
    parsed = links.isolate(TOPOLOGY, "az1")
    assert len(parsed) == 3 * 6 * 2
    azs = {frozenset((TOPOLOGY.host(x.source).az, TOPOLOGY.host(x.destination).az)) for x in parsed}
    assert azs == {frozenset(("az1", "az2")), frozenset(("az1", "az3"))}


def test_isolating_everything_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to isolate"):
        links.isolate(TOPOLOGY, "*")


def test_bridge_is_spared() -> None:
    parsed = links.bridge(TOPOLOGY, "broker2", "az1, az2", "az3")
    assert not any("broker2" in (link.source, link.destination) for link in parsed)
    assert Link("client2", "broker3") in parsed


def test_ring_of_three_lets_each_call_the_next() -> None:
    parsed = links.ring(TOPOLOGY, "broker1", "broker2", "broker3")
    assert _text(parsed) == {f"broker{a} -> broker{b}:9092" for a, b in ((2, 1), (3, 2), (1, 3))}


def test_ring_of_three_both_ways_would_cut_nothing() -> None:
    with pytest.raises(UsageError, match="cuts nothing"):
        links.ring(TOPOLOGY, "az1", "az2", "az3", calls_only=False)


def test_ring_of_four_both_ways_leaves_neighbours() -> None:
    parsed = links.ring(crowded(), "broker1", "broker2", "broker10", "broker11", calls_only=False)
    assert {frozenset((x.source, x.destination)) for x in parsed} == {
        frozenset(("broker1", "broker10")),
        frozenset(("broker2", "broker11")),
    }


def test_halves_that_are_the_same_are_refused() -> None:
    with pytest.raises(UsageError, match="at least two groups"):
        links.halves(TOPOLOGY, "broker1", "broker1")


def test_a_service_cut_blocks_calls_of_that_port_one_way_only() -> None:
    link = Link("broker1", "broker2", 9092)
    assert link.blocks("broker1", "broker2", 9092)
    assert not link.blocks("broker1", "broker2", 9093)
    assert not link.blocks("broker2", "broker1", 9092)


def test_a_packet_cut_one_way_blocks_calls_both_ways() -> None:
    link = Link("broker1", "broker2")
    assert link.blocks("broker1", "broker2", 9092)
    assert link.blocks("broker2", "broker1", 9092)
    assert not link.blocks("broker1", "broker3", 9092)
