"""Hosts are selected by their complete names, never by a part of one."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.lab.layout import ROLES_BY_MODE, AvailabilityZone, Layout, three_azs


def test_three_azs_have_a_host_of_each_role() -> None:
    """Nine hosts with ZooKeeper or with dedicated controllers, six with combined nodes, twelve to migrate."""
    assert len(three_azs("zookeeper").hosts) == 9
    assert {host.role for host in three_azs("kraft").hosts} == {"controller", "broker", "client"}
    assert len(three_azs("migration").hosts) == 12
    assert all(9093 in host.ports for host in three_azs("kraft-combined").role("broker"))


def test_every_address_is_from_the_benchmarking_range_and_the_hosts_own() -> None:
    """All are in 198.18.0.0/15 and distinct, and no host has the observer's."""
    topology = three_azs("zookeeper")
    addresses = [host.address for host in topology.hosts] + [topology.observer_address]
    assert len(set(addresses)) == len(addresses)
    assert all(address.startswith("198.18.") for address in addresses)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("broker1", {"broker1"}),
        ("az1", {"zookeeper1", "broker1", "client1"}),
        ("brokers", {"broker1", "broker2", "broker3"}),
        ("clients@az2", {"client2"}),
        ("zookeeper*", {"zookeeper1", "zookeeper2", "zookeeper3"}),
    ],
)
def test_patterns(pattern: str, names: set[str]) -> None:
    """A pattern is a name, an AZ, a role in the plural, a role in an AZ, or a glob."""
    assert {host.name for host in three_azs("zookeeper").select(pattern)} == names


@pytest.mark.parametrize("pattern", ["broker", "roker1", "az", "az4", "clients@az9", ""])
def test_a_part_of_a_name_means_nothing(pattern: str) -> None:
    """Another harness selected its target by a substring; here that is an error, with the known names."""
    with pytest.raises(UsageError, match="broker1"):
        three_azs("zookeeper").select(pattern)


def _az(name: str, **counts: int) -> AvailabilityZone:
    return AvailabilityZone(name=name, **counts)


def test_hosts_are_numbered_across_the_azs() -> None:
    layout = Layout((_az("a", brokers=3, zookeepers=2), _az("b", brokers=2), _az("c")))
    topology = layout.topology("zookeeper")
    assert [host.az for host in topology.role("broker")] == ["az1", "az2", "az3", "az1", "az2", "az1"]
    assert [host.node_id for host in topology.role("broker")] == [1, 2, 3, 4, 5, 6]
    assert [host.az for host in topology.role("zookeeper")] == ["az1", "az2", "az3", "az1"]


def test_an_az_without_brokers_comes_last() -> None:
    layout = Layout((_az("witness", brokers=0, clients=0), _az("a"), _az("b")))
    topology = layout.topology("zookeeper")
    assert topology.az_names == {"az1": "a", "az2": "b", "az3": "witness"}
    assert [host.az for host in topology.role("broker")] == ["az1", "az2"]
    assert {host.name for host in topology.select("witness")} == {"zookeeper3"}
    assert topology.select("b") == topology.select("az2")
    assert [host.name for host in topology.select("clients@b")] == ["client2"]


def test_azs_with_every_role_come_first() -> None:
    """In each mode, those that have a host of each of its roles; otherwise the file's order holds."""
    layout = Layout(
        (
            _az("no-client", clients=0),
            _az("no-node", zookeepers=0),
            _az("bare", brokers=0),
            *(_az(name) for name in "ab"),
        )
    )
    names = {mode: list(layout.topology(mode).az_names.values()) for mode in ("zookeeper", "kraft")}
    assert names == {
        "zookeeper": ["a", "b", "no-client", "no-node", "bare"],
        "kraft": ["no-node", "a", "b", "no-client", "bare"],
    }


@pytest.mark.parametrize("mode", ROLES_BY_MODE)
@pytest.mark.parametrize("brokers", [1, 3, 4, 5, 8])
def test_names_addresses_and_node_ids_are_distinct(mode: str, brokers: int) -> None:
    layout = Layout(tuple(_az(name, brokers=brokers, clients=2) for name in "abcde"))
    topology = layout.topology(mode, "198.18.7")
    addresses = [host.address for host in topology.hosts] + [topology.observer_address]
    assert len(set(addresses)) == len(addresses)
    assert all(0 < int(address.removeprefix("198.18.7.")) < 255 for address in addresses)
    nodes = [host.node_id for host in topology.hosts if host.role in ("broker", "controller")]
    assert len(set(nodes)) == len(nodes)


@pytest.mark.parametrize(
    ("azs", "mode", "sentence"),
    [
        ((), "zookeeper", "has 0 AZs"),
        (tuple(_az(name) for name in "abcdef"), "zookeeper", "has 6 AZs; describe 1 to 5"),
        ((_az("a", brokers=0),), "kraft", "no broker in any AZ"),
        ((_az("a", zookeepers=0),), "zookeeper", "no zookeeper in any AZ"),
        ((_az("a", zookeepers=10),), "zookeeper", "10 zookeepers; use at most 9"),
        ((_az("a"),), "raft", "no mode 'raft'"),
    ],
)
def test_layouts_that_no_cluster_can_have(
    azs: tuple[AvailabilityZone, ...], mode: str, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        Layout(azs).topology(mode)
