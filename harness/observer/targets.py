"""What there is to observe: nodes with an address, in their roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.kafka.wire.connection import Address
from harness.lab.model import Topology

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
ZOOKEEPER_PORT = 2181


@dataclass(frozen=True)
class Node:
    """One node: its host's name, its number, where it listens, and its data where it can be read."""

    name: str
    node_id: int
    address: Address
    data_dir: Path | None = None


@dataclass(frozen=True)
class Targets:
    """Everything an observer looks at. With controllers, the cluster is a KRaft one."""

    brokers: tuple[Node, ...]
    zookeepers: tuple[Node, ...] = ()
    controllers: tuple[Node, ...] = ()

    @classmethod
    def of(
        cls,
        topology: Topology,
        brokers: tuple[int, ...] | None = None,
        data_dir: Callable[[str], Path] | None = None,
    ) -> Targets:
        """The nodes of a topology, with the brokers of these numbers (None: all).

        ``data_dir`` maps a broker host to the folder that holds its partitions (`log.dirs`).
        """
        chosen = tuple(
            Node(
                host.name,
                host.node_id,
                (host.address, BROKER_PORT),
                data_dir(host.name) if data_dir else None,
            )
            for host in topology.role("broker")
            if brokers is None or host.node_id in brokers
        )
        zookeepers = tuple(
            Node(host.name, host.node_id, (host.address, ZOOKEEPER_PORT))
            for host in topology.role("zookeeper")
        )
        # A combined node is observed twice: as the broker that it is, and as a controller of the same number.
        controllers = tuple(
            Node(
                f"controller{host.name.removeprefix(host.role)}",
                host.node_id,
                (host.address, CONTROLLER_PORT),
            )
            for host in topology.hosts
            if CONTROLLER_PORT in host.ports
        )
        return cls(chosen, zookeepers, controllers)
