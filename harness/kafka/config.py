"""Broker and ZooKeeper configuration: a base with which the effects of a fault show within seconds.

`docs/configuration.md` gives the reason for each value. The least obvious one is `request.timeout.ms`: it,
and not the socket time-outs, bounds how long replica fetchers and the controller's channels wait for a
response (30 s by default).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from harness.kafka.model import BROKER_PORT, CONTROLLER_PORT, ZOOKEEPER_PEER_PORTS, ZOOKEEPER_PORT, Endpoint
from harness.kafka.security import SecurityProtocol

BASE_BROKER: Mapping[str, str] = {
    "replica.lag.time.max.ms": "6000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "3000",
    "controller.socket.timeout.ms": "3000",
    "request.timeout.ms": "3000",
    "socket.connection.setup.timeout.ms": "1000",
    "socket.connection.setup.timeout.max.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "1",
    "log.cleaner.enable": "false",
    "num.io.threads": "4",
    "num.network.threads": "2",
}

ZOOKEEPER_SESSION: Mapping[str, str] = {
    "zookeeper.session.timeout.ms": "4000",
    "zookeeper.connection.timeout.ms": "30000",
}

BASE_RAFT: Mapping[str, str] = {
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "1000",
    "controller.quorum.request.timeout.ms": "2000",
    # Read by the controller: how long a broker may be silent before it is fenced.
    "broker.session.timeout.ms": "4000",
}
"""Properties of every KRaft node. A quorum leader without fetches resigns after 3 s (since Kafka 3.7).

With half of these values, a busy machine elects leaders without any fault.
"""

CALM_OBSERVER: Mapping[str, str] = {"controller.quorum.fetch.timeout.ms": "3600000"}
"""For nodes that are only brokers, from Kafka 4.2.0 on: docs/findings/broker-spins-without-controller.md.

Once this time-out has passed without a controller, the Raft client of such a broker no longer waits between
its polls. It uses the time-out for nothing else.
"""

BROKER_HEARTBEAT: Mapping[str, str] = {"broker.heartbeat.interval.ms": "500"}

OF_MODE: Mapping[str, Mapping[str, str]] = {
    "zookeeper": ZOOKEEPER_SESSION,
    "kraft": {**BASE_RAFT, **BROKER_HEARTBEAT},
    "kraft-combined": {**BASE_RAFT, **BROKER_HEARTBEAT},
    "migration": {**ZOOKEEPER_SESSION, **BASE_RAFT, **BROKER_HEARTBEAT},
}
"""Properties of brokers by metadata mode, in addition to `BASE_BROKER`."""

BASE_ZOOKEEPER: Mapping[str, str] = {
    "tickTime": "500",
    "initLimit": "20",
    "syncLimit": "4",
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
    "4lw.commands.whitelist": "*",
    "clientPort": str(ZOOKEEPER_PORT),
}


_CONTROLLER_KEYS = (
    "auto.leader.rebalance.enable",
    "unclean.leader.election.enable",
    "min.insync.replicas",
    "num.io.threads",
    "num.network.threads",
)
"""Keys of the broker's base that a KRaft controller reads as well."""

_CONTROLLER_READS = frozenset(_CONTROLLER_KEYS) | frozenset(BASE_RAFT)


def connect_string(nodes: Iterable[Endpoint]) -> str:
    """Endpoints as ZooKeeper clients take them: `host:port,host:port`."""
    return ",".join(map(str, nodes))


_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 -- inside the lab's network, which nothing outside it reaches


@dataclass(frozen=True, kw_only=True)
class ZooKeeperModeBroker:
    """A broker that keeps its metadata in ZooKeeper; ``zookeepers`` are the nodes that it may connect to."""

    node_id: int
    az: str
    address: str
    data_dir: str
    zookeepers: tuple[Endpoint, ...]
    protocol: SecurityProtocol = "PLAINTEXT"
    """What its listener speaks."""
    name: str = ""
    """What it advertises; empty: its address."""


def broker_properties(
    broker: ZooKeeperModeBroker, overrides: Mapping[str, str], unsupported: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Properties of a broker that keeps its metadata in ZooKeeper.

    ``unsupported`` names keys that this Kafka version does not know; they are left out.
    """
    properties = {
        "broker.id": str(broker.node_id),
        "broker.rack": broker.az,
        "zookeeper.connect": connect_string(broker.zookeepers),
        "listeners": _broker_listener(broker),
        "advertised.listeners": _advertised_listener(broker),
        **({} if broker.protocol == "PLAINTEXT" else {"inter.broker.listener.name": broker.protocol}),
        "log.dirs": broker.data_dir,
        **ZOOKEEPER_SESSION,
        **BASE_BROKER,
        **overrides,
    }
    return {key: value for key, value in properties.items() if key not in unsupported}


def zookeeper_properties(data_dir: str, servers: Mapping[int, str]) -> dict[str, str]:
    """Properties of a ZooKeeper node; ``servers`` maps myid to address.

    A single node gets no `server` line, which ZooKeeper would ignore and log as an error.
    """
    peers = ":".join(map(str, ZOOKEEPER_PEER_PORTS))
    ensemble = {f"server.{myid}": f"{address}:{peers}" for myid, address in sorted(servers.items())}
    return {**BASE_ZOOKEEPER, "dataDir": data_dir, **(ensemble if len(servers) > 1 else {})}


MIGRATION_ENABLED: Mapping[str, str] = {"zookeeper.metadata.migration.enable": "true"}


def quorum_properties(voters: Mapping[int, str], protocol: SecurityProtocol = "PLAINTEXT") -> dict[str, str]:
    """How a node reaches the KRaft quorum; ``voters`` maps the controllers' node ids to IP addresses."""
    return {
        "controller.quorum.voters": ",".join(
            f"{number}@{ip}:{CONTROLLER_PORT}" for number, ip in sorted(voters.items())
        ),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": f"CONTROLLER:{protocol},{protocol}:{protocol}",
    }


@dataclass(frozen=True, kw_only=True)
class KRaftNode:
    """A KRaft node: ``roles`` are `broker`, `controller` or both; ``voters`` maps node id to IP address."""

    node_id: int
    roles: tuple[str, ...]
    az: str
    address: str
    data_dir: str
    voters: Mapping[int, str]
    protocol: SecurityProtocol = "PLAINTEXT"
    """What its listeners speak, and those of the controllers."""
    name: str = ""
    """What it advertises as a broker; empty: its address."""


def kraft_properties(
    node: KRaftNode,
    overrides: Mapping[str, str],
    unsupported: frozenset[str] = frozenset(),
    controller_overrides: Mapping[str, str] | None = None,
    observer: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Properties of a node that keeps its metadata in a KRaft quorum with fixed voters.

    A dedicated controller gets those of ``overrides`` that it reads, and all ``controller_overrides``. A node
    that is only a broker gets those of ``observer`` that ``overrides`` does not set.
    """
    broker, controller = "broker" in node.roles, "controller" in node.roles
    listeners = [_broker_listener(node)] if broker else []
    listeners += [f"CONTROLLER://{node.address}:{CONTROLLER_PORT}"] if controller else []
    properties = {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.node_id),
        **quorum_properties(node.voters, node.protocol),
        "listeners": ",".join(listeners),
        "log.dirs": node.data_dir,
        **BASE_RAFT,
    }
    if broker:
        properties |= {
            "broker.rack": node.az,
            "advertised.listeners": _advertised_listener(node),
            "inter.broker.listener.name": node.protocol,
            **BROKER_HEARTBEAT,
            **BASE_BROKER,
        }
    else:
        # The controller elects leaders, so it needs the settings of the brokers that concern elections.
        properties |= {key: BASE_BROKER[key] for key in _CONTROLLER_KEYS}
    if broker:
        properties |= {} if controller else observer
        properties |= overrides
    else:
        properties |= {key: value for key, value in overrides.items() if key in _CONTROLLER_READS}
        properties |= controller_overrides or {}
    return {key: value for key, value in properties.items() if key not in unsupported}


def _broker_listener(node: ZooKeeperModeBroker | KRaftNode) -> str:
    """What a broker listens on: its address or, if it has a name, every address that the name may mean."""
    return f"{node.protocol}://{_ANY_ADDRESS if node.name else node.address}:{BROKER_PORT}"


def _advertised_listener(node: ZooKeeperModeBroker | KRaftNode) -> str:
    return f"{node.protocol}://{node.name or node.address}:{BROKER_PORT}"
