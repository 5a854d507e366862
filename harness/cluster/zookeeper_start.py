"""Starts a Kafka cluster that keeps its metadata in ZooKeeper, and forces its roles.

The start order forces ZooKeeper's leader: a bare majority of the nodes starts first, and among them the node
with the highest id leads. A single node is *standalone*. The start order also forces Kafka's controller: the
first broker to register takes `/controller`.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from harness.cluster.model import first_answer
from harness.cluster.processes import Processes
from harness.cluster.setup import Setup
from harness.cluster.timings import Timings
from harness.cluster.zookeeper_mode import ZooKeeperCluster
from harness.errors import InvalidRunError
from harness.kafka.config import ZooKeeperModeBroker, broker_properties, zookeeper_properties
from harness.kafka.java import BROKER, ZOOKEEPER, JavaProcess
from harness.kafka.model import Endpoint, broker_name
from harness.kafka.wire.connection import accepts
from harness.lab.model import DATA
from harness.zookeeper.four_letter import mode as zookeeper_mode

if TYPE_CHECKING:
    from harness.cluster.secured import ClusterSecurity

RESTART_S = 30.0
"""Deadlines in seconds, for the sessions and requests of the base configuration."""
_PLACING_ATTEMPTS = 5
_FEWEST_WITH_A_SPARE = 3
_END_S = 10.0


class StartedZooKeeperCluster(ZooKeeperCluster):
    """The ZooKeeper nodes of a lab and the brokers of a set-up."""

    def __init__(
        self,
        processes: Processes,
        setup: Setup,
        security: ClusterSecurity | None = None,
    ) -> None:
        """``security`` is None for listeners without."""
        self._security = security
        self._processes = processes
        self._lab = processes.lab
        self._setup = setup
        self._restart_s = RESTART_S + Timings.of(setup.broker_config, self.mode).recovery_s
        self._prepared: dict[str, JavaProcess] = {}
        self._extra: dict[str, Mapping[str, str]] = {}
        nodes = self._lab.topology.role("zookeeper")
        self._leader = self._lab.topology.host(setup.zookeeper_leader)
        others = [node for node in nodes if node != self._leader]
        # The wanted leader comes first: scenarios cut other nodes, so its clients keep their session.
        super().__init__([self._leader, *others])
        rising = [*others, self._leader]
        self._myids = {node.name: number for number, node in enumerate(rising, start=1)}
        self._start_order = tuple(node.name for node in reversed(rising))
        self._majority = len(nodes) // 2 + 1
        self._leads = "leader" if others else "standalone"

    @property
    def asked_config(self) -> Mapping[str, Mapping[str, str]]:
        """Properties of each broker as configured, for comparison with the effective ones."""
        return {host: self._broker_config(host) for host in self._broker_names()}

    def boot(self) -> None:
        """ZooKeeper, then the wanted controller, then the other brokers."""
        for name in self._start_order:
            self._prepare_zookeeper(name)
        for name in self._broker_names():
            self._prepare_broker(name)
        first_broker = self._setup.controller
        for name in (*self._start_order[: self._majority], first_broker):
            self._processes.start(name, self._prepared[name])
        self._wait(
            lambda: zookeeper_mode(self._leader.zookeeper_endpoint) == self._leads,
            f"{self._leader.name} to lead the ZooKeeper ensemble",
        )
        for name in self._start_order[self._majority :]:
            self._processes.start(name, self._prepared[name])
        self.connect()
        self._wait(lambda: self.controller() is not None, f"{first_broker} to become controller")
        for name in self._broker_names():
            if name != first_broker:
                self._processes.start(name, self._prepared[name])
        node_ids = frozenset(self._setup.brokers)
        self._wait(lambda: self.registered() == node_ids, f"brokers {sorted(node_ids)} to register")
        for name in self._broker_names():
            self._wait(partial(self._serves, name), f"{name} to open its listener")
            self._processes.ready(name)
        self._assert_roles()
        if self._security is not None:
            brokers = [self._lab.topology.host(name) for name in self._broker_names()]
            self._security.grant(self._operator, brokers, self.check_alive)

    def _operator(self) -> Endpoint:
        return self._lab.topology.host(self.operator_host()).broker_endpoint

    def place_roles(self) -> None:
        """Restart ZooKeeper's leader until the wanted node leads, and let the wanted broker be controller.

        Of the nodes that are left, the one with the highest id leads if it has seen as much as the others.
        """
        node_ids = frozenset(self._setup.brokers)
        for _ in range(_PLACING_ATTEMPTS):
            leading = self._zookeepers_that("leader")
            if zookeeper_mode(self._leader.zookeeper_endpoint) == self._leads or not leading:
                break
            if len(self._start_order) < _FEWEST_WITH_A_SPARE:
                raise InvalidRunError(
                    f"{leading[0]} leads ZooKeeper, and two nodes cannot elect another one."
                )
            for name in leading:
                self._processes.expect_end(name)
                self._lab.signal(name, signal.SIGKILL)
                self._lab.wait_exit(name, _END_S)
            self._wait(lambda: self._zookeepers_that("leader"), "ZooKeeper to elect another leader")
            for name in leading:
                self._processes.start(name, self._prepared[name])
            self._wait(lambda: not self._zookeepers_that(None), "every ZooKeeper node to serve")
        self._wait(lambda: self.registered() == node_ids, f"brokers {sorted(node_ids)} to be registered")
        self._wait(lambda: self.controller() is not None, "a controller")
        if self.controller() != self._lab.topology.host(self._setup.controller).node_id:
            self._replace_controller()
        self._assert_roles()

    def _replace_controller(self) -> None:
        """Delete `/controller` while only the wanted broker can notice: the others are paused meanwhile."""
        others = [name for name in self._broker_names() if name != self._setup.controller]
        node_id = self._lab.topology.host(self._setup.controller).node_id
        for name in others:
            self._lab.signal(name, signal.SIGSTOP)
        try:
            self._session.delete_controller()
            self._wait(
                lambda: self.controller() == node_id, f"{self._setup.controller} to be controller", _END_S
            )
        finally:
            for name in others:
                self._lab.signal(name, signal.SIGCONT)

    def configure(self, broker: str, extra: Mapping[str, str]) -> None:
        """Write a broker's configuration for its next start, with properties that it alone gets."""
        self._extra[broker] = extra
        self._prepare_broker(broker)

    def upgrade(self, host: str, version: str, properties: Mapping[str, str]) -> None:
        """From its next start on a broker runs this version, with properties that it alone gets."""
        self._processes.choose_version(host, version)
        self.configure(host, properties)

    def start(self, host: str) -> None:
        """Start a process again; a broker only after its old registration has gone, since it would exit."""
        if self._lab.topology.host(host).role != "broker":
            self._processes.start(host, self._prepared[host])
            return
        node_id = self._lab.topology.host(host).node_id
        self._wait(
            lambda: not self._is_registered(node_id),
            f"the old registration of {host} to vanish",
            within_s=self._restart_s,
        )
        if host not in self._prepared:
            self._prepare_broker(host)
        self._processes.start(host, self._prepared[host])
        wait = partial(self._processes.wait_started, host, within_s=self._restart_s)
        wait(lambda: self._is_registered(node_id), "register again")
        wait(lambda: self._serves(host), "open its listener")
        self._processes.ready(host)

    def check_alive(self) -> None:
        """Raise ProcessDiedError if a process has ended that no fault has ended."""
        self._processes.check_alive()

    def _serves(self, host: str) -> bool:
        """Whether its listener is open; newer brokers (seen with 3.5 and 3.9) open it once registered."""
        return accepts(self._lab.topology.host(host).broker_endpoint)

    def _broker_names(self) -> tuple[str, ...]:
        return tuple(broker_name(number) for number in self._setup.brokers)

    def _prepare_zookeeper(self, name: str) -> None:
        self._lab.files(name).write(f"{DATA}/myid", str(self._myids[name]).encode())
        servers = {self._myids[node.name]: node.address for node in self._lab.topology.role("zookeeper")}
        properties = zookeeper_properties(self._lab.inside(name, DATA), servers)
        self._prepared[name] = self._processes.prepare(name, ZOOKEEPER, properties, heap_mb=128)

    def _prepare_broker(self, name: str) -> None:
        host = self._lab.topology.host(name)
        own = {} if self._security is None else self._security.properties(host, kraft=False)
        properties = {**self._broker_config(name), **own}
        self._prepared[name] = self._processes.prepare(name, BROKER, properties, heap_mb=384)

    def _broker_config(self, name: str) -> dict[str, str]:
        host = self._lab.topology.host(name)
        nodes = self._setup.zookeeper_pins.get(name) or tuple(
            node.name for node in self._lab.topology.role("zookeeper")
        )
        broker = ZooKeeperModeBroker(
            node_id=host.node_id,
            az=self._lab.topology.az_name(host.az),
            address=host.address,
            data_dir=",".join(self._lab.inside(name, folder) for folder in self._setup.log_dirs(name)),
            zookeepers=tuple(self._lab.topology.host(node).zookeeper_endpoint for node in nodes),
            protocol=host.security.protocol,
            name=name if name in self._setup.named else "",
        )
        overrides = {**self._extra.get(name, {}), **self._setup.broker_config}
        unsupported = self._processes.version_of(name).unsupported_keys
        return broker_properties(broker, overrides, unsupported)

    def _assert_roles(self) -> None:
        controller_id = self._lab.topology.host(self._setup.controller).node_id
        active = first_answer(self.controller, "a controller")
        if active != controller_id:
            raise InvalidRunError(
                f"The scenario needs {self._setup.controller} as controller, but broker {active} "
                f"took the role; the run would judge another situation."
            )
        if zookeeper_mode(self._leader.zookeeper_endpoint) != self._leads:
            raise InvalidRunError(
                f"The scenario needs {self._leader.name} to lead ZooKeeper, but it does not; the run would "
                f"judge another situation."
            )
