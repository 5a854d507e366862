"""Broker and ZooKeeper configuration: the base that makes failures show within seconds.

Why each value: `docs/configuration.md`. The two that cost the most to find out: `request.timeout.ms`
bounds the wait of replica fetchers and of the controller's channels for a response (30 s by default, and
the socket time-outs do not bound it), and healthy brokers are pinned to ZooKeeper nodes outside the AZ that
will be cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    # The controller reads it: how long a broker may be silent before it is fenced.
    "broker.session.timeout.ms": "4000",
}
"""What every KRaft node gets; a quorum leader that nobody fetches from resigns after 3 s (from 3.7 on).

Half of these, and a busy machine elects leaders that nobody asked for.
"""

BROKER_HEARTBEAT: Mapping[str, str] = {"broker.heartbeat.interval.ms": "500"}

BASE_ZOOKEEPER: Mapping[str, str] = {
    "tickTime": "500",
    "initLimit": "20",
    "syncLimit": "4",
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
    "4lw.commands.whitelist": "*",
    "clientPort": "2181",
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


def broker_properties(
    node_id: int,
    az: str,
    address: str,
    data_dir: str,
    zookeepers: tuple[str, ...],
    overrides: Mapping[str, str],
    unsupported: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """Properties of a broker that keeps its metadata in ZooKeeper.

    ``zookeepers`` are `address:port`; ``unsupported`` names keys that this Kafka version does not know.
    """
    properties = {
        "broker.id": str(node_id),
        "broker.rack": az,
        "zookeeper.connect": ",".join(zookeepers),
        "listeners": f"PLAINTEXT://{address}:9092",
        "advertised.listeners": f"PLAINTEXT://{address}:9092",
        "log.dirs": data_dir,
        **ZOOKEEPER_SESSION,
        **BASE_BROKER,
        **overrides,
    }
    return {key: value for key, value in properties.items() if key not in unsupported}


def zookeeper_properties(data_dir: str, servers: Mapping[int, str]) -> dict[str, str]:
    """Properties of a ZooKeeper node; ``servers`` maps myid to address."""
    return {
        **BASE_ZOOKEEPER,
        "dataDir": data_dir,
        **{f"server.{myid}": f"{address}:2888:3888" for myid, address in sorted(servers.items())},
    }


@dataclass(frozen=True)
class KRaftNode:
    """What one KRaft node is: ``roles`` are `broker`, `controller` or both; ``voters`` maps id to address."""

    node_id: int
    roles: tuple[str, ...]
    az: str
    address: str
    data_dir: str
    voters: Mapping[int, str]


def kraft_properties(
    node: KRaftNode, overrides: Mapping[str, str], unsupported: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Properties of a node that keeps its metadata in a KRaft quorum with fixed voters."""
    broker, controller = "broker" in node.roles, "controller" in node.roles
    listeners = [f"PLAINTEXT://{node.address}:9092"] if broker else []
    listeners += [f"CONTROLLER://{node.address}:9093"] if controller else []
    voters = ",".join(f"{number}@{address}:9093" for number, address in sorted(node.voters.items()))
    properties = {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.node_id),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listeners": ",".join(listeners),
        "log.dirs": node.data_dir,
        **BASE_RAFT,
    }
    if broker:
        properties |= {
            "broker.rack": node.az,
            "advertised.listeners": f"PLAINTEXT://{node.address}:9092",
            "inter.broker.listener.name": "PLAINTEXT",
            **BROKER_HEARTBEAT,
            **BASE_BROKER,
        }
    else:
        # The controller elects, so it must know what the brokers' configuration says about elections.
        properties |= {key: BASE_BROKER[key] for key in _CONTROLLER_KEYS}
    properties |= overrides if broker else {k: v for k, v in overrides.items() if k in _CONTROLLER_READS}
    return {key: value for key, value in properties.items() if key not in unsupported}
