"""What runs in the containers of somebody's Compose project: asked of the engine and of Kafka itself.

The engine tells the containers, their names, addresses and published ports. A broker says on which ports it
listens and where the controllers or ZooKeeper nodes are (DescribeConfigs). What cannot be matched to a
container is refused, because a cut would leave it out.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound

from harness.cluster.attached import AttachedCluster, attach
from harness.errors import AckedError, UnfitError, UsageError, quoted
from harness.kafka.addresses import for_brokers, members, own_listeners
from harness.kafka.model import Endpoint
from harness.kafka.security import ClientSecurity
from harness.kafka.wire.metadata import api_versions
from harness.lab.docker import engine as docker_engine
from harness.lab.model import SERVICES, Host, Topology

_PROJECT = "com.docker.compose.project"
_SERVICE = "com.docker.compose.service"
_FOLDER = "com.docker.compose.project.working_dir"
_FILES = "com.docker.compose.project.config_files"
_METADATA = 3
"""API key of Metadata, which brokers answer and KRaft controllers do not."""
_ASK_S = 2.0
_NODE_ID = ("KAFKA_NODE_ID", "KAFKA_CFG_NODE_ID", "KAFKA_BROKER_ID", "KAFKA_CFG_BROKER_ID")
"""With which images set the id of a node; asked if no voter is named with its id."""
_MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Container:
    """A running container of the project."""

    id: str
    name: str
    service: str
    addresses: Mapping[str, str]
    """IPv4 address by network."""
    ipv6: frozenset[str]
    """Networks on which it has an IPv6 address, too."""
    names: frozenset[str]
    """What other containers call it, its addresses included."""
    published: Mapping[tuple[str, int], int]
    """Address and port on the engine's machine, and the port inside."""
    exposed: tuple[int, ...]
    """TCP ports that its image declares."""
    node_id: str = ""
    """As its environment says; empty if it does not."""


@dataclass(frozen=True, kw_only=True)
class Project:
    """The containers of one project."""

    name: str
    containers: tuple[Container, ...]

    def by_service(self) -> tuple[Topology, Mapping[str, Container]]:
        """Every container with a network of its own as a host; nothing is known of roles."""
        own = [one for one in self.containers if one.addresses]  # others have the network of their machine
        hosts = tuple(
            Host(
                name=one.name,
                role="broker",
                az=f"az{number}",
                address=next(iter(one.addresses.values())),
                node_id=number,
            )
            for number, one in enumerate(own, start=1)
        )
        names = {host.az: one.service for host, one in zip(hosts, own, strict=True)}
        return Topology(hosts, "", names), {one.name: one for one in own}


def find_project(name: str) -> Project:
    """The project of this name, or of this Compose file. Raises UsageError, UnfitError."""
    client = docker_engine.connect()
    try:
        running = client.api.containers(filters={"label": _PROJECT})
        project = _named(name, [entry["Labels"] for entry in running])
        ids = [entry["Id"] for entry in running if entry["Labels"][_PROJECT] == project]
        inspected = []
        for one in ids:
            with suppress(NotFound):  # it has ended meanwhile
                inspected.append(client.api.inspect_container(one))
    except APIError as error:
        raise UnfitError(f"The engine does not list containers: {docker_engine.explain(error)}") from error
    finally:
        client.close()
    containers = sorted((_container(one) for one in inspected), key=lambda one: one.name)
    return Project(name=project, containers=tuple(containers))


def _named(name: str, labels: Sequence[Mapping[str, str]]) -> str:
    known = sorted({one[_PROJECT] for one in labels})
    if name in known:
        return name
    file = Path(name).absolute()
    for one in labels:
        for part in one.get(_FILES, "").split(","):
            if part and Path(one.get(_FOLDER, "/"), part).absolute() == file:
                return one[_PROJECT]
    there = f"it has {', '.join(known[:_MOST_NAMED])}" if known else "it has none"
    raise UsageError(
        f"No container of a Compose project {quoted(name, 80)} runs on this engine ({there}); name a "
        "project or its Compose file, and set DOCKER_HOST if another engine runs it."
    )


def _container(inspected: Mapping[str, Any]) -> Container:
    settings, config = inspected["NetworkSettings"], inspected["Config"]
    networks: Mapping[str, Mapping[str, Any]] = settings["Networks"] or {}
    addresses = {name: str(one["IPAddress"]) for name, one in networks.items() if one.get("IPAddress")}
    name = str(inspected["Name"]).lstrip("/")
    labels = config["Labels"]
    aliases = [
        alias for one in networks.values() for key in ("Aliases", "DNSNames") for alias in one.get(key) or ()
    ]
    published = {
        (str(one["HostIp"] or "0.0.0.0"), int(one["HostPort"])): int(inside.partition("/")[0])
        for inside, bindings in (settings["Ports"] or {}).items()
        for one in bindings or ()
        if inside.endswith("/tcp")
    }
    variables = dict(one.partition("=")[::2] for one in config.get("Env") or ())
    return Container(
        id=str(inspected["Id"]),
        name=name,
        service=str(labels[_SERVICE]),
        addresses=addresses,
        ipv6=frozenset(name for name, one in networks.items() if one.get("GlobalIPv6Address")),
        names=frozenset({name, str(config["Hostname"]), labels[_SERVICE], *aliases, *addresses.values()}),
        published=published,
        exposed=tuple(
            int(port.partition("/")[0]) for port in config.get("ExposedPorts") or () if port.endswith("/tcp")
        ),
        node_id=next((variables[key] for key in _NODE_ID if variables.get(key, "").isdigit()), ""),
    )


def bootstrap_of(project: Project, security: ClientSecurity) -> tuple[AttachedCluster, str]:
    """The cluster behind a listener that this machine reaches, and that listener. Raises UsageError."""
    why = ""
    for endpoint in _candidates(project, security):
        try:
            if _METADATA not in api_versions(endpoint, _ASK_S):
                continue
        except (OSError, ValueError, LookupError, AckedError):
            continue  # no Kafka, or another kind of listener
        try:
            return attach([endpoint]), f"{endpoint.host}:{endpoint.port}"
        except UsageError as error:
            why = error.message
    raise UsageError(
        why
        or f"This machine reaches no Kafka listener of the Compose project {project.name}; publish one on "
        "127.0.0.1 and advertise it there, or name it as kafka.bootstrap of a hosts file (docs/attach.md)."
    )


def _candidates(project: Project, security: ClientSecurity) -> Iterator[Endpoint]:
    for one in project.containers:
        for address, port in one.published:
            here = "127.0.0.1" if ipaddress.ip_address(address).is_unspecified else address
            if ":" not in here:
                yield replace(Endpoint(here, port), security=security)
    for one in project.containers:
        for address in one.addresses.values():
            for port in one.exposed or SERVICES["kafka"]:
                yield replace(Endpoint(address, port), security=security)


def roles_of(
    project: Project, cluster: AttachedCluster, azs: Mapping[str, str]
) -> tuple[Topology, Mapping[str, Container]]:
    """The project's nodes as hosts, and the container of each.

    ``azs``: AZs by service, where `broker.rack` does not say them; a service without one is an AZ of its own.
    Raises UnfitError for a node in no container of the project, and for networks where a cut would not bite.
    """
    configs = {host.name: _config(cluster, host) for host in cluster.brokers}
    which = {host.name: _advertised_by(project, host) for host in cluster.brokers}
    nodes = [_broker(host, configs[host.name]) for host in cluster.brokers]
    for service, role, place in _others(configs.values()):
        container = _called(project, place, service)
        same = [node for node in nodes if which[node.name] is container and node.role != role]
        port = int(place.rpartition(":")[2])
        if same:
            nodes[nodes.index(same[0])] = replace(same[0], services={**same[0].services, service: (port,)})
            continue
        number = _id_of(container, place, len(nodes))
        services: dict[str, tuple[int, ...]] = {service: (port,)}
        if service == "zookeeper":
            services["zookeeper-peer"] = SERVICES["zookeeper-peer"]
        name = f"{role}{number}"
        nodes.append(Host(name=name, role=role, az="", address="", node_id=number, services=services))
        which[name] = container
    network = _network([which[node.name] for node in nodes])
    for host in cluster.brokers:
        _require_direct(host, configs[host.name], which[host.name])
    racks = {host.name: cluster.topology.az_name(host.az) for host in cluster.brokers}
    with_racks = all(one.rack for one in cluster.listeners)
    named = {
        node.name: azs.get(which[node.name].service)
        or (racks[node.name] if with_racks and node.name in racks else which[node.name].service)
        for node in nodes
    }
    keys = {name: f"az{number}" for number, name in enumerate(dict.fromkeys(named.values()), start=1)}
    hosts = tuple(
        replace(node, az=keys[named[node.name]], address=which[node.name].addresses[network])
        for node in nodes
    )
    return Topology(hosts, "", {az: name for name, az in keys.items()}), which


def _config(cluster: AttachedCluster, host: Host) -> Mapping[str, str]:
    try:
        return cluster.broker_config(host)
    except (LookupError, OSError) as error:
        raise UnfitError(
            f"{host.name} does not tell its listeners ({quoted(str(error), 120)}), so nobody knows what a "
            "cut would leave; grant DESCRIBE_CONFIGS on the cluster."
        ) from error


def _advertised_by(project: Project, host: Host) -> Container:
    """The container in which a broker runs, by the listener that it advertises to this machine."""
    place = f"{host.address}:{host.broker_endpoint.port}"
    found = [one for one in project.containers if host.address in one.names]
    if not found:
        found = [
            one
            for one in project.containers
            if any(port == host.broker_endpoint.port for _, port in one.published) and _is_here(host.address)
        ]
    if len(found) != 1:
        raise UnfitError(
            f"{host.name} advertises {quoted(place, 80)}, which is a port of {len(found)} running containers "
            f"of the Compose project {project.name}; does it belong to another one?"
        )
    return found[0]


def _is_here(name: str) -> bool:
    """Whether a name, as this machine resolves it, is an address of this machine."""
    try:
        address = socket.gethostbyname(name)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except (OSError, UnicodeError):
        return False
    return True


def _broker(host: Host, config: Mapping[str, str]) -> Host:
    """A broker with the ports of its listeners inside its container."""
    ports = own_listeners(config)
    services = {service: tuple(ports[service]) for service in ("kafka", "controller") if service in ports}
    return replace(host, services={"kafka": host.services["kafka"]} | services)


def _others(configs: Iterable[Mapping[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Service, role and address of each controller and ZooKeeper node that brokers name."""
    for key, service in (
        ("controller.quorum.voters", "controller"),
        ("controller.quorum.bootstrap.servers", "controller"),
        ("zookeeper.connect", "zookeeper"),
    ):
        places = dict.fromkeys(place for config in configs for place in members(config.get(key, "")))
        for place in places:
            yield service, service, place
        if places and service == "controller":
            return


def _called(project: Project, place: str, service: str) -> Container:
    host = place.rpartition("@")[2].rpartition(":")[0]
    found = [one for one in project.containers if host in one.names]
    if len(found) != 1:
        raise UnfitError(
            f"The brokers name the {service} node {quoted(place, 80)}, which is no running container of the "
            f"Compose project {project.name}, so a cut would leave it out."
        )
    return found[0]


def _id_of(container: Container, place: str, number: int) -> int:
    voter, at, _ = place.rpartition("@")
    if at and voter.isdigit():
        return int(voter)
    return int(container.node_id) if container.node_id else number


def _network(containers: Sequence[Container]) -> str:
    """The only network that all of them share. Raises UnfitError."""
    common = set.intersection(*(set(one.addresses) for one in containers))
    for one in containers:
        for other in containers:
            shared = set(one.addresses) & set(other.addresses)
            if one is not other and len(shared) > 1:
                raise UnfitError(
                    f"{one.name} and {other.name} share the networks {' and '.join(sorted(shared))}, and "
                    "rules are about one address of each; put the nodes on one network."
                )
    if len(common) != 1:
        names = ", ".join(one.name for one in containers[:_MOST_NAMED])
        raise UnfitError(f"{names} share no network of the engine, so acked cannot tell their links.")
    (network,) = common
    with_ipv6 = [one.name for one in containers if network in one.ipv6]
    if with_ipv6:
        raise UnfitError(
            f"{', '.join(with_ipv6[:_MOST_NAMED])} also have IPv6 addresses, over which a cut would not "
            f"bite; set enable_ipv6: false for the network {network}."
        )
    return network


def _require_direct(host: Host, config: Mapping[str, str], container: Container) -> None:
    """Raise UnfitError if other brokers reach this one around the network, as over a published port."""
    place = for_brokers(config)
    if place is not None and place[0] not in container.names:
        raise UnfitError(
            f"{host.name} advertises {quoted(':'.join(map(str, place)), 80)} to other brokers, which is no "
            f"name of {container.name}, so a cut might not bite; advertise the name of the service."
        )
