"""Hosts are selected by their complete names, never by a part of one."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.lab.topology import three_azs


def test_three_azs_have_a_host_of_each_role() -> None:
    """Nine hosts with ZooKeeper, nine with dedicated controllers, six with combined nodes."""
    assert len(three_azs("zookeeper").hosts) == 9
    assert {host.role for host in three_azs("kraft").hosts} == {"controller", "broker", "client"}
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
