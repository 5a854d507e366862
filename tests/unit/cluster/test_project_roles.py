"""What runs where in a Compose project, from what the engine and the brokers say; and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.cluster import compose_project
from harness.cluster.attached import AttachedCluster, topology_of
from harness.cluster.compose_project import Container, Project, roles_of
from harness.errors import UnfitError, UsageError
from harness.kafka.model import Endpoint
from harness.kafka.wire.dialect import MODERN
from harness.kafka.wire.metadata import AdvertisedBroker, AdvertisedCluster


def inspected(number: int, **network: Any) -> dict[str, Any]:
    """A container as the engine describes it."""
    return {
        "Id": f"{number}" * 64,
        "Name": f"/shop_kafka-{number}_1",
        "Config": {
            "Hostname": f"kafka-{number}",
            "Labels": {"com.docker.compose.service": f"kafka-{number}"},
            "Env": ["KAFKA_PASSWORD=secret", "KAFKA_NODE_ID=4"],
            "ExposedPorts": {"9092/tcp": {}, "53/udp": {}},
        },
        "NetworkSettings": {
            "Ports": {"9094/tcp": [{"HostIp": "127.0.0.1", "HostPort": f"3909{number}"}], "9092/tcp": None},
            "Networks": {"backbone": {"IPAddress": f"198.18.200.{number}", "Aliases": ["bus"], **network}},
        },
    }


def container(number: int) -> Container:
    """The container of node ``number``."""
    return compose_project._container(inspected(number))


PROJECT = Project(name="shop", containers=tuple(container(number) for number in (1, 2, 3)))
VOTERS = "1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093"


def config(number: int, **changed: str) -> dict[str, str]:
    """What a combined node says about itself."""
    return {
        "listeners": "INSIDE://:9092,OUTSIDE://:9094,QUORUM://:9093",
        "advertised.listeners": f"INSIDE://kafka-{number}:9092,OUTSIDE://localhost:3909{number}",
        "controller.listener.names": "QUORUM",
        "controller.quorum.voters": VOTERS,
        "inter.broker.listener.name": "INSIDE",
        **{key.replace("_", "."): value for key, value in changed.items()},
    }


@pytest.fixture
def configs(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """By node id, what a broker answers; tests may change it."""
    answers = {str(number): config(number) for number in (1, 2, 3)}
    monkeypatch.setattr(AttachedCluster, "broker_config", lambda _, host: answers[str(host.node_id)])
    return answers


def cluster(*racks: str, host: str = "localhost") -> AttachedCluster:
    """Brokers that advertise published ports."""
    brokers = tuple(
        AdvertisedBroker(node_id=number, host=host, port=39090 + number, rack=rack)
        for number, rack in enumerate(racks or ("a", "b", "c"), start=1)
    )
    described = AdvertisedCluster(cluster_id="c", controller=1, brokers=brokers)
    topology = topology_of(described, Endpoint("localhost", 39091))
    return AttachedCluster(topology=topology, dialect=MODERN, mode="kraft", cluster_id="c")


def with_container(number: int, **changes: Any) -> Project:
    """The project, with one container that is changed."""
    return replace(
        PROJECT,
        containers=tuple(
            replace(one, **changes) if one.service == f"kafka-{number}" else one for one in PROJECT.containers
        ),
    )


def test_nodes_ports_and_azs_are_those_that_brokers_and_engine_state(
    configs: dict[str, dict[str, str]],
) -> None:
    """The address is that of the shared network; clients come by the published port."""
    topology, which = roles_of(PROJECT, cluster(), {})
    assert [(one.name, one.address, topology.az_name(one.az)) for one in topology.hosts] == [
        ("broker1", "198.18.200.1", "a"),
        ("broker2", "198.18.200.2", "b"),
        ("broker3", "198.18.200.3", "c"),
    ]
    assert topology.hosts[0].services == {"kafka": (9092, 9094), "controller": (9093,)}
    assert which["broker2"].name == "shop_kafka-2_1" and configs
    topology, _ = roles_of(PROJECT, cluster("", "", ""), {"kafka-3": "paris"})
    assert [topology.az_name(one.az) for one in topology.hosts] == ["kafka-1", "kafka-2", "paris"]
    assert "secret" not in repr(which)


def test_controllers_and_zookeeper_nodes_of_their_own(configs: dict[str, dict[str, str]]) -> None:
    """By the voter's id, or by that of the container's environment."""
    extra = replace(
        container(3), service="controller", name="shop_controller_1", names=frozenset({"controller"})
    )
    project = replace(PROJECT, containers=(*PROJECT.containers[:2], extra))
    for number in ("1", "2"):
        configs[number]["controller.quorum.voters"] = "9@controller:9093"
    topology, which = roles_of(project, cluster("a", "b"), {"controller": "b"})
    node = topology.host("controller9")
    assert (node.role, node.services, topology.az_name(node.az)) == (
        "controller",
        {"controller": (9093,)},
        "b",
    )
    assert which["controller9"] is extra
    for number in ("1", "2"):
        configs[number].pop("controller.quorum.voters")
        configs[number]["controller.quorum.bootstrap.servers"] = "controller:9093"
    assert roles_of(project, cluster("a", "b"), {})[0].host("controller4").services == {"controller": (9093,)}
    for number in ("1", "2"):
        configs[number].pop("controller.quorum.bootstrap.servers")
        configs[number]["zookeeper.connect"] = "controller:2181/kafka"
    node = roles_of(project, cluster("a", "b"), {})[0].host("zookeeper4")
    assert node.services == {"zookeeper": (2181,), "zookeeper-peer": (2888, 3888)}


@pytest.mark.parametrize(
    ("number", "changes", "said"),
    [
        (2, {"addresses": {"other": "198.18.201.2"}}, "share no network"),
        (2, {"ipv6": frozenset({"backbone"})}, "also have IPv6 addresses"),
        (2, {"published": {}}, "which is a port of 0 running containers"),
        (2, {"published": {("127.0.0.1", 39091): 9094}}, "which is a port of 2 running containers"),
        (2, {"names": frozenset({"else"})}, "is no running container"),
    ],
)
def test_containers_where_a_cut_would_not_bite_are_refused(
    configs: dict[str, dict[str, str]], number: int, changes: dict[str, Any], said: str
) -> None:
    """In one sentence."""
    with pytest.raises(UnfitError, match=said) as error:
        roles_of(with_container(number, **changes), cluster(), {})
    assert len(error.value.message) <= 300 and configs


def test_a_published_port_counts_only_at_an_address_of_this_machine(
    configs: dict[str, dict[str, str]],
) -> None:
    """Another machine may have a cluster on the same ports."""
    with pytest.raises(UnfitError, match="'192.0.2.7:39091', which is a port of 0 running") as error:
        roles_of(PROJECT, cluster(host="192.0.2.7"), {})
    assert "another one" in error.value.message and configs


def test_brokers_that_reach_each_other_around_the_network_are_refused(
    configs: dict[str, dict[str, str]],
) -> None:
    """Over a published port, or over a second network."""
    configs["3"] = config(3, inter_broker_listener_name="OUTSIDE")
    with pytest.raises(UnfitError, match="advertises 'localhost:39093' to other brokers"):
        roles_of(PROJECT, cluster(), {})
    configs["3"] = config(3)
    project = replace(
        PROJECT,
        containers=tuple(
            replace(one, addresses={**one.addresses, "front": f"198.18.201.{number}"}) if number != 1 else one
            for number, one in enumerate(PROJECT.containers, start=1)
        ),
    )
    with pytest.raises(UnfitError, match="share the networks backbone and front"):
        roles_of(project, cluster(), {})


def test_projects_are_named_by_name_or_file() -> None:
    """Whatever else runs there is named in the sentence."""
    labels = [
        {
            "com.docker.compose.project": "shop",
            "com.docker.compose.project.working_dir": "/srv/shop",
            "com.docker.compose.project.config_files": "docker-compose.yml,/srv/over.yml",
        }
    ]
    for name in ("shop", "/srv/shop/docker-compose.yml", "/srv/over.yml"):
        assert compose_project._named(name, labels) == "shop"
    with pytest.raises(UsageError, match="it has shop"):
        compose_project._named("shoq", labels)
    with pytest.raises(UsageError, match="it has none"):
        compose_project._named("shop", [])
