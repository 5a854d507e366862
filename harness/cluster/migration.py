"""A Kafka cluster that moves its metadata from ZooKeeper to KRaft (KIP-866).

It starts in ZooKeeper mode, with idle hosts for the controllers. Each further step is a change of some nodes'
configuration, which takes effect when a scenario stops and starts them. No node goes back to ZooKeeper mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from harness.cluster.kraft_start import StartedKRaftCluster
from harness.cluster.model import StartedCluster
from harness.cluster.processes import Processes
from harness.cluster.setup import Setup
from harness.cluster.zookeeper_start import StartedZooKeeperCluster
from harness.errors import InvalidRunError, UsageError
from harness.kafka.config import MIGRATION_ENABLED, ZOOKEEPER_SESSION, connect_string, quorum_properties
from harness.kafka.model import PartitionState, Topic, TopicPartition
from harness.lab.model import Host
from harness.waiting import wait_until
from harness.zookeeper.session import ZooKeeperSession

if TYPE_CHECKING:
    from harness.cluster.secured import ClusterSecurity

Phase = Literal["zookeeper", "migrating", "kraft"]
"""How a node runs: a broker in ZooKeeper mode; a broker in ZooKeeper mode, or a controller, with migration
enabled; or a node in KRaft mode."""

MIGRATION_S = 60.0
"""How long the controllers may take to copy the metadata once every broker has registered with them."""


class MigratingCluster:
    """ZooKeeper, brokers, and controllers that are started later.

    While all brokers run in ZooKeeper mode, ZooKeeper is asked for the metadata: the active controller writes
    each change to it as well. Otherwise the quorum and the brokers in KRaft mode are asked.
    """

    def __init__(
        self,
        processes: Processes,
        setup: Setup,
        security: ClusterSecurity | None = None,
    ) -> None:
        """``setup.controller`` is the controller in ZooKeeper mode; on KRaft it is the one in its AZ."""
        self._processes = processes
        self._lab = processes.lab
        self._given = setup.broker_config
        self._zookeeper = StartedZooKeeperCluster(processes, setup, security)
        self._kraft = StartedKRaftCluster(processes, setup, security=security)
        self._controllers = self._lab.topology.role("controller")
        self._next: dict[str, Phase] = {}
        self._follow(self._zookeeper)

    def _follow(self, store: StartedZooKeeperCluster | StartedKRaftCluster) -> None:
        self._store: StartedCluster = store
        self.mode = store.mode
        self.poll_s = store.poll_s

    @property
    def asked_config(self) -> Mapping[str, Mapping[str, str]]:
        """Properties of each broker in ZooKeeper mode, in which the cluster starts."""
        return self._zookeeper.asked_config

    @property
    def registry(self) -> ZooKeeperSession:
        """The harness's session with ZooKeeper, for operator actions on znodes."""
        return self._zookeeper.registry

    def boot(self) -> None:
        """Start ZooKeeper and the brokers."""
        self._zookeeper.boot()

    def place_roles(self) -> None:
        """Refuse: a cluster that has migrated cannot be used again. Raises InvalidRunError."""
        raise InvalidRunError("A cluster that migrates serves one run only; start a new one.")

    def start_controllers(self) -> None:
        """Start the KRaft controllers with migration enabled and the cluster id that ZooKeeper holds."""
        for host in self._controllers:
            self.configure(host.name, "migrating")
        cluster_id = self.registry.read_json("/cluster/id")
        if cluster_id is None:
            raise InvalidRunError("ZooKeeper has no znode /cluster/id, which controllers need.")
        self._kraft.boot_controllers(str(cluster_id["id"]))

    def configure(self, host: str, phase: Phase) -> None:
        """Choose how a broker or controller runs from its next start on."""
        node = self._lab.topology.host(host)
        if node.role not in ("broker", "controller") or (node.role == "controller" and phase == "zookeeper"):
            raise UsageError(f"{host} has no configuration for the phase {phase!r}.")
        enabled = MIGRATION_ENABLED if phase == "migrating" else {}
        if node.role == "controller":
            self._kraft.configure(host, {**self._to_brokers(node), **enabled} if enabled else {})
        elif phase == "kraft":
            self._kraft.configure(host, {})
        else:
            voters = {controller.node_id: controller.address for controller in self._controllers}
            self._zookeeper.configure(
                host, {**quorum_properties(voters, node.security.protocol), **enabled} if enabled else {}
            )
        self._next[host] = phase

    def _to_brokers(self, controller: Host) -> dict[str, str]:
        """What a controller needs to write to ZooKeeper, and to let brokers in ZooKeeper mode register.

        It refuses those that do not have the listener that it has itself for requests between brokers.
        """
        nodes = [host.zookeeper_endpoint for host in self._lab.topology.role("zookeeper")]
        given = {key: self._given.get(key, value) for key, value in ZOOKEEPER_SESSION.items()}
        return {
            "zookeeper.connect": connect_string(nodes),
            "inter.broker.listener.name": controller.security.protocol,
            **given,
        }

    def upgrade(self, host: str, version: str, properties: Mapping[str, str]) -> None:
        """Refuse: Kafka migrates within one version."""
        raise UsageError(
            f"{host} cannot be upgraded to {version} in a migration; upgrade before or after it."
        )

    def start(self, host: str) -> None:
        """Start a node as configured, and wait until the cluster knows it."""
        role, phase = self._lab.topology.host(host).role, self._next.get(host, "zookeeper")
        if role == "broker" and phase == "kraft":
            self._kraft.start(host)
            self._follow(self._kraft)
        elif role == "controller":
            self._kraft.start(host)
        else:
            self._zookeeper.start(host)

    def wait_migrated(self) -> int:
        """Wait until ZooKeeper names a KRaft controller as the cluster's controller; returns its node id."""
        ids = {host.node_id for host in self._controllers}
        migrated = wait_until(
            self._zookeeper.controller,
            accept=lambda number: number in ids,
            within_s=MIGRATION_S,
            awaiting="a KRaft controller to take over from ZooKeeper's",
            abort=self.check_alive,
        )
        assert migrated is not None
        return migrated

    def create_topics(self, topics: tuple[Topic, ...]) -> None:
        """Create topics with explicit assignments, by znodes while ZooKeeper holds the metadata."""
        self._store.create_topics(topics)

    def registered(self) -> frozenset[int] | None:
        """Node ids of the registered brokers; None if the metadata store does not answer."""
        return self._store.registered()

    def controller(self) -> int | None:
        """Node id of the active controller: a broker, or a KRaft controller once it has taken over."""
        return self._store.controller()

    def operator_host(self) -> str:
        """A broker that accepts operator requests now."""
        return self._store.operator_host()

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """A partition's state in the metadata store; None if unknown, or if it does not answer."""
        return self._store.partition(topic, partition)

    def partitions(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """The states of several partitions in the metadata store, as far as they are known."""
        return self._store.partitions(keys)

    def roles(self) -> Mapping[str, str]:
        """Current holder of each role, for the manifest."""
        return self._store.roles()

    def check_alive(self) -> None:
        """Raise ProcessDiedError if a process has ended that no fault has ended."""
        self._processes.check_alive()

    def close(self) -> None:
        """Close connections; the lab ends the processes."""
        self._zookeeper.close()
