"""Starts a Kafka cluster on KRaft, with dedicated controllers or combined nodes, and forces its roles.

The quorum's leader is forced by a vote cast in advance: every voter's data folder says that it has voted for
the wanted leader, and that one starts first. After a fault, Kafka alone decides which controller wins an
election.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from harness.cluster.kraft import KRaftCluster
from harness.cluster.kraft_quorum import QuorumProbe
from harness.cluster.kraft_storage import cast_vote, clone, formatted
from harness.cluster.model import first_answer
from harness.cluster.processes import Processes
from harness.cluster.setup import Setup
from harness.cluster.timings import Timings
from harness.errors import InvalidRunError
from harness.kafka.config import CALM_OBSERVER, KRaftNode, kraft_properties
from harness.kafka.java import BROKER, JavaProcess
from harness.kafka.model import Endpoint
from harness.kafka.wire.admin import update_feature
from harness.kafka.wire.metadata import finalized_features
from harness.lab.model import DATA, Host

if TYPE_CHECKING:
    from harness.cluster.secured import ClusterSecurity

RESTART_S = 40.0
"""Deadlines in seconds, for the sessions and requests of the base configuration."""
_COMBINED_HEAP_MB = 384
_ELECTION_ATTEMPTS = 6
_APPENDS_AHEAD = 3
KRAFT_VERSION = "kraft.version"
"""The feature that makes the voters of a quorum part of its log (KIP-853)."""


class StartedKRaftCluster(KRaftCluster):
    """A cluster on KRaft whose processes run in a lab."""

    def __init__(
        self,
        processes: Processes,
        setup: Setup,
        mode: str = "kraft",
        security: ClusterSecurity | None = None,
    ) -> None:
        """``mode`` is `kraft` or `kraft-combined`; ``security`` is None for listeners without."""
        self._security = security
        self._processes = processes
        self._lab = processes.lab
        self._setup = setup
        self._restart_s = RESTART_S + Timings.of(setup.broker_config, mode).recovery_s
        self._prepared: dict[str, JavaProcess] = {}
        self._extra: dict[str, Mapping[str, str]] = {}
        topology = self._lab.topology
        brokers = tuple(host for host in topology.role("broker") if host.node_id in setup.brokers)
        super().__init__(topology.role("controller") if mode == "kraft" else brokers, brokers, mode)
        wanted_az = topology.host(setup.controller).az
        self._wanted = next(host for host in self._controllers if host.az == wanted_az)

    @property
    def asked_config(self) -> Mapping[str, Mapping[str, str]]:
        """Properties of each broker as configured, for comparison with the effective ones."""
        return {host.name: self._config(host) for host in self._brokers}

    def boot(self) -> None:
        """Clone formatted folders, start the wanted controller, then all others; wait until brokers serve."""
        self._start_formatted(self._nodes())
        node_ids = frozenset(host.node_id for host in self._brokers)
        for _ in range(_ELECTION_ATTEMPTS):
            self._elect_wanted()
            self._wait(lambda: self.registered() == node_ids, f"brokers {sorted(node_ids)} to register")
            for broker in self._brokers:
                self._wait(partial(self.quorum.knows_itself, broker), f"{broker.name} to serve")
            if first_answer(self.controller, "a controller") == self._wanted.node_id:
                break
        for host in self._nodes():
            self._processes.ready(host.name)
        self._assert_role()
        if self._setup.dynamic_quorum:
            self._make_quorum_dynamic()
        if self._security is not None:
            self._security.grant(self._active, self._brokers, self.check_alive)

    def boot_controllers(self, cluster_id: str) -> None:
        """Start the controllers alone, for the brokers of a cluster that exists already."""
        self._start_formatted(self._controllers, cluster_id)
        self._elect_wanted()
        for host in self._controllers:
            self._processes.ready(host.name)
        self._assert_role()

    def configure(self, host: str, extra: Mapping[str, str]) -> None:
        """Write a node's configuration for its next start, with properties that it alone gets."""
        self._extra[host] = extra
        self._prepare(self._lab.topology.host(host))

    def upgrade(self, host: str, version: str, properties: Mapping[str, str]) -> None:
        """From its next start on a host runs this version, with properties that it alone gets."""
        self._processes.choose_version(host, version)
        self.configure(host, properties)

    def place_roles(self) -> None:
        """Have the wanted controller elected."""
        self._wait(lambda: self.quorum.describe() is not None, "the controllers to elect a leader")
        node_ids = frozenset(host.node_id for host in self._brokers)
        self._elect_wanted()
        self._wait(lambda: self.registered() == node_ids, f"brokers {sorted(node_ids)} to be registered")
        self._assert_role()

    def start(self, host: str) -> None:
        """Start a process again; a broker is back once it has caught up and is no longer fenced."""
        node = self._lab.topology.host(host)
        if host not in self._prepared:
            self._prepare(node)
        self._processes.start(host, self._prepared[host])
        wait = partial(self._processes.wait_started, host, within_s=self._restart_s, poll_s=self.poll_s)
        if node in self._controllers:
            wait(lambda: self.quorum.follows(node) is not None, "open its listener")
        if node in self._brokers:
            wait(lambda: self.quorum.knows_itself(node), "register again")
        self._processes.ready(host)

    def check_alive(self) -> None:
        """Raise ProcessDiedError if a process has ended that no fault has ended."""
        self._processes.check_alive()

    def _make_quorum_dynamic(self) -> None:
        """Upgrade the static quorum to `kraft.version` 1, which needs no restart (KAFKA-16538).

        The leader refuses until each voter has told it its directory id.
        """
        first = self._brokers[0].broker_endpoint
        self._wait(
            lambda: update_feature(first, KRAFT_VERSION, 1, timeout_s=2.0).error == 0,
            f"the quorum to accept {KRAFT_VERSION} 1",
        )
        for broker in self._brokers:
            self._wait(partial(_has_dynamic_quorum, broker), f"{broker.name} to know of {KRAFT_VERSION} 1")

    def _active(self) -> Endpoint:
        """The active controller: one that is deposed, to which a broker may forward, logs what it refuses."""
        self._assert_role()
        return self._wanted.controller_endpoint

    def _nodes(self) -> tuple[Host, ...]:
        return (*self._controllers, *(host for host in self._brokers if host not in self._controllers))

    def _start_formatted(self, nodes: Sequence[Host], cluster_id: str | None = None) -> None:
        """Clone the nodes' data folders, and start the wanted controller before the others."""
        template = formatted(
            self._processes.distribution,
            self._setup.format_features,
            self._processes.java,
        )
        voters = [host.node_id for host in self._controllers]
        for host in nodes:
            home = self._lab.data_dir(host.name)
            for folder in self._setup.log_dirs(host.name):
                clone(template, home / folder, host.node_id, cluster_id, metadata=folder == DATA)
            if host in self._controllers and len(voters) > 1:  # a node alone elects itself, and 3.9 only once
                cast_vote(home / DATA, self._wanted.node_id, voters)
            self._prepare(host)
        rivals = [host for host in self._controllers if host != self._wanted]
        for host in (*(host for host in nodes if host not in rivals), *rivals):
            self._processes.start(host.name, self._prepared[host.name])
        self._wait(lambda: self.quorum.describe() is not None, "the controllers to elect a leader")

    def _config(self, host: Host) -> dict[str, str]:
        roles = ("broker",) if host in self._brokers else ()
        node = KRaftNode(
            node_id=host.node_id,
            roles=(*roles, "controller") if host in self._controllers else roles,
            az=self._lab.topology.az_name(host.az),
            address=host.address,
            data_dir=",".join(
                self._lab.inside(host.name, folder) for folder in self._setup.log_dirs(host.name)
            ),
            voters={voter.node_id: voter.address for voter in self._controllers},
            protocol=host.security.protocol,
            name=host.name if host.name in self._setup.named else "",
        )
        extra, version = self._extra.get(host.name, {}), self._processes.version_of(host.name)
        properties = kraft_properties(
            node,
            self._setup.broker_config,
            version.unsupported_keys,
            self._setup.controller_config,
            CALM_OBSERVER if version.spins_without_controller else {},
        )
        return {**properties, **extra}

    def _prepare(self, host: Host) -> None:
        version = self._processes.version_of(host.name)
        heap_mb = version.broker_heap_mb if host in self._brokers else version.controller_heap_mb
        if self.mode == "kraft-combined":
            heap_mb = max(heap_mb, _COMBINED_HEAP_MB)
        own = {} if self._security is None else self._security.properties(host, kraft=True)
        self._prepared[host.name] = self._processes.prepare(
            host.name, BROKER, {**self._config(host), **own}, heap_mb=heap_mb
        )

    def _elect_wanted(self) -> None:
        """If another controller has won, make the wanted one the only one that can be elected.

        This pauses as many controllers as the quorum can do without, until they lack records that the wanted
        one has. Then it pauses the other controllers except the wanted one. Now only the wanted one can win,
        because no voter votes for a candidate with a shorter log.
        """
        for _ in range(_ELECTION_ATTEMPTS):
            active = first_answer(self.controller, "a controller")
            if active == self._wanted.node_id:
                return
            winner = next((host for host in self._controllers if host.node_id == active), None)
            if winner is None:
                continue
            rivals = [host for host in self._controllers if host not in (winner, self._wanted)]
            dispensable = (len(self._controllers) - 1) // 2
            late, current = rivals[:dispensable], [*rivals[dispensable:], winner]
            if not late:
                raise InvalidRunError(
                    f"{winner.name} leads the quorum instead of {self._wanted.name}, and a quorum of "
                    f"{len(self._controllers)} controllers cannot be made to elect another one; use three or "
                    "more."
                )
            with ExitStack() as paused:
                for host in late:
                    paused.enter_context(self._paused(host))
                probe = QuorumProbe((winner, self._wanted), ())
                for host in late:
                    self._wait(partial(self._ahead, probe, winner, host), "a difference in their logs")
                info = probe.describe()
                if info is None or info.leader != active:
                    continue  # A busy machine has elected another controller meanwhile.
                for host in current:
                    self._lab.signal(host.name, signal.SIGSTOP)
            with ExitStack() as paused:
                for host in current:
                    paused.enter_context(self._paused(host))
                rest = QuorumProbe((self._wanted, *late), ())
                self._wait(rest.describe, f"{self._wanted.name} to be elected")

    @contextmanager
    def _paused(self, host: Host) -> Iterator[None]:
        self._lab.signal(host.name, signal.SIGSTOP)
        try:
            yield
        finally:
            self._lab.signal(host.name, signal.SIGCONT)

    def _ahead(self, running: QuorumProbe, winner: Host, late: Host) -> bool:
        """Whether the paused controller lacks records of the wanted one, or the winner no longer leads."""
        info = running.describe()
        if info is None:
            return False
        ends = dict(info.voters)
        # A response to the last fetch of the paused node may be on its way: that is one append.
        ahead = ends.get(self._wanted.node_id, -1) > ends.get(late.node_id, -1) + _APPENDS_AHEAD
        return ahead or info.leader != winner.node_id

    def _assert_role(self) -> None:
        active = first_answer(self.controller, "a controller")
        if active != self._wanted.node_id:
            raise InvalidRunError(
                f"The scenario needs {self._wanted.name} as active controller, but node "
                f"{active} took the role; the run would judge another situation."
            )


def _has_dynamic_quorum(broker: Host) -> bool:
    return finalized_features(broker.broker_endpoint, timeout_s=1.0).get(KRAFT_VERSION) == 1
