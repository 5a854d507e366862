"""Names, ids and addresses of nodes, and the assignment of a topic."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.kafka.model import (
    Endpoint,
    Topic,
    TopicPartition,
    broker_id,
    broker_name,
    controller_id,
    node_host,
)
from harness.kafka.security import ClientSecurity
from harness.lab.layout import ROLES_BY_MODE, three_azs
from harness.lab.model import Host


@pytest.mark.parametrize("mode", ROLES_BY_MODE)
def test_node_ids_follow_the_rule(mode: str) -> None:
    """Brokers and controllers convert by name and number; a node id leads to its host."""
    hosts = {host.name for host in three_azs(mode).hosts}
    for host in three_azs(mode).hosts:
        number = int(host.az.removeprefix("az"))
        if host.role in ("broker", "controller"):
            assert node_host(host.node_id, hosts) == host.name
        if host.role == "broker":
            assert (broker_id(host.name), broker_name(host.node_id)) == (host.node_id, host.name)
        if host.role == "controller":
            assert host.node_id == controller_id(number)


def test_the_host_of_a_node_id_depends_on_the_hosts() -> None:
    many = {f"broker{number}" for number in range(1, 13)} | {"controller1", "controller2", "controller3"}
    assert [node_host(node, many) for node in (12, 101, 103)] == ["broker12", "controller1", "controller3"]
    assert [node_host(node, {"broker0", "broker1001"}) for node in (0, 1001)] == ["broker0", "broker1001"]


@pytest.mark.parametrize("name", ["broker", "brokerx", "client1", "mybroker1", "1", ""])
def test_a_name_of_no_broker_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not the host name of a broker"):
        broker_id(name)


def test_ports_of_a_combined_node() -> None:
    node = three_azs("kraft-combined").host("broker2")
    assert (str(node.broker_endpoint), str(node.controller_endpoint)) == (
        "198.18.0.22:9092",
        "198.18.0.22:9093",
    )
    assert set(node.ports) == {9092, 9093}


def test_a_spread_topic_gives_every_broker_a_partition_to_lead() -> None:
    topic = Topic("t", (1, 2, 3), partitions=3, spread=True)
    assert topic.assignment == ((1, 2, 3), (2, 3, 1), (3, 1, 2))
    assert topic.topic_partitions == (("t", 0), ("t", 1), ("t", 2))


def test_a_topic_is_created_without_the_partitions_that_are_added_later() -> None:
    grown = Topic("t", (1, 2, 3), partitions=3, spread=True, later=1, config={"retention.ms": "1"})
    first = grown.at_creation
    assert first.assignment == ((1, 2, 3), (2, 3, 1)) == grown.assignment[:2]
    assert (first.partitions, first.later, first.config) == (2, 0, {"retention.ms": "1"})
    assert first.at_creation is first


@pytest.mark.parametrize("later", [-1, 2, 3])
def test_a_topic_is_created_with_at_least_one_partition(later: int) -> None:
    with pytest.raises(UsageError, match=f"has 2 partition.s., {later} of them added later"):
        Topic("t", (1, 2), partitions=2, later=later)


def test_a_topic_partition_is_the_plain_pair() -> None:
    key = TopicPartition("a-b", 10)
    assert (key, hash(key)) == (("a-b", 10), hash(("a-b", 10)))
    assert (str(key), key.folder) == ("a-b/10", "a-b-10")


@pytest.mark.parametrize(
    ("text", "address"),
    [("b1:9092", ("b1", 9092)), ("198.18.0.2:1", ("198.18.0.2", 1)), ("[fd00::1]:9092", ("fd00::1", 9092))],
)
def test_an_endpoint_is_written_as_in_bootstrap_servers(text: str, address: tuple[str, int]) -> None:
    endpoint = Endpoint.parse(text)
    assert (endpoint.address, str(endpoint), endpoint.label) == (address, text, text)


@pytest.mark.parametrize("text", ["b1", "b1:", ":9092x", ""])
def test_what_names_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        Endpoint.parse(text)


def test_a_host_of_another_cluster_says_where_it_listens() -> None:
    secured = ClientSecurity(protocol="SASL_SSL", mechanism="PLAIN", username="u")
    node = Host(
        name="broker1001",
        role="broker",
        az="az1",
        address="kafka-1.example",
        node_id=1001,
        services={"kafka": (19092, 19094)},
        security=secured,
    )
    assert node.broker_endpoint == Endpoint(
        "kafka-1.example",
        19092,
        listener="SASL_SSL",
        security=secured,
        node_id=1001,
        node="broker1001",
    )
    assert broker_id(broker_name(node.node_id)) == 1001
