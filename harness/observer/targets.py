"""The nodes to observe, by role, with their endpoints."""

from __future__ import annotations

from dataclasses import dataclass

from harness.host_files import FilesOf, HostFiles
from harness.kafka.model import Endpoint
from harness.lab.model import DATA, Topology


@dataclass(frozen=True)
class Node:
    """One node: host name, node id, listener, and the files of its `log.dirs` where they can be read."""

    name: str
    node_id: int
    endpoint: Endpoint
    data: HostFiles | None = None


@dataclass(frozen=True)
class Targets:
    """All nodes to observe. A cluster with controllers runs on KRaft."""

    brokers: tuple[Node, ...]
    zookeepers: tuple[Node, ...] = ()
    controllers: tuple[Node, ...] = ()

    @classmethod
    def of(
        cls,
        topology: Topology,
        brokers: tuple[int, ...] | None = None,
        files: FilesOf | None = None,
    ) -> Targets:
        """The nodes of a topology; ``brokers`` limits the brokers to these ids (None: all).

        ``files`` are those of the hosts.
        """
        chosen = tuple(
            Node(
                host.name,
                host.node_id,
                host.broker_endpoint,
                files(host.name).below(DATA) if files else None,
            )
            for host in topology.role("broker")
            if brokers is None or host.node_id in brokers
        )
        zookeepers = tuple(
            Node(host.name, host.node_id, host.zookeeper_endpoint) for host in topology.role("zookeeper")
        )
        # A combined node is observed twice: as a broker, and as a controller with the same id.
        controllers = tuple(
            Node(
                f"controller{host.name.removeprefix(host.role)}",
                host.node_id,
                host.controller_endpoint,
            )
            for host in topology.hosts
            if "controller" in host.services
        )
        return cls(chosen, zookeepers, controllers)
