"""A Kafka cluster that keeps its metadata in a KRaft quorum, with controllers of their own or combined.

The quorum's leader is forced by a vote cast in advance: every voter's folder says that it voted for the
wanted one, and that one starts first. Which controller wins later, after a fault, is Kafka's own race.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from harness.cluster.kraft_quorum import QuorumProbe
from harness.cluster.kraft_storage import cast_vote, clone, formatted
from harness.cluster.model import PartitionState, told
from harness.cluster.processes import Processes
from harness.errors import InvalidRunError
from harness.kafka.config import KRaftNode, kraft_properties
from harness.kafka.java import BROKER, JavaProcess
from harness.kafka.versions import KafkaVersion
from harness.kafka.wire.admin import NewTopic, create_topics
from harness.lab.model import Host
from harness.scenario import Setup, Topic
from harness.waiting import wait_until

BOOT_S = 60.0
RESTART_S = 40.0
ALREADY_EXISTS = 36
_COMBINED_HEAP_MB = 384
_STEER_ATTEMPTS = 6
_APPENDS_AHEAD = 3


class KRaftCluster:
    """Three controllers and three brokers (`kraft`), or three nodes that are both (`kraft-combined`)."""

    look_s = 0.2

    def __init__(
        self,
        processes: Processes,
        setup: Setup,
        version: KafkaVersion,
        mode: str = "kraft",
    ) -> None:
        """``mode`` is `kraft` or `kraft-combined`."""
        self.mode = mode
        self._version = version
        self._processes = processes
        self._lab = processes.lab
        self._setup = setup
        self._prepared: dict[str, JavaProcess] = {}
        topology = self._lab.topology
        self._brokers = tuple(host for host in topology.role("broker") if host.node_id in setup.brokers)
        self._voters = topology.role("controller") if mode == "kraft" else self._brokers
        # The set-up names a broker's number; where controllers are hosts of their own, it is that AZ's.
        wanted_az = topology.host(setup.controller).az
        self._wanted = next(host for host in self._voters if host.az == wanted_az)
        self.quorum = QuorumProbe(self._voters, self._brokers)

    @property
    def asked_config(self) -> Mapping[str, Mapping[str, str]]:
        """What was asked of each broker, for comparison with what took effect."""
        return {host.name: self._config(host) for host in self._brokers}

    def boot(self) -> None:
        """Clone formatted folders, start the wanted controller, then all others; wait until brokers serve."""
        template = formatted(
            self._processes.distribution,
            self._setup.format_features,
            self._processes.log_syntax,
            self._processes.java,
        )
        voters = [host.node_id for host in self._voters]
        for host in self._nodes():
            data = self._lab.data_dir(host.name) / "data"
            clone(template, data, host.node_id)
            if host in self._voters:
                cast_vote(data, self._wanted.node_id, voters)
            self._prepare(host)
        rivals = [host for host in self._voters if host != self._wanted]
        for host in self._nodes():
            if host not in rivals:
                self._processes.start(host.name, self._prepared[host.name])
        for host in rivals:
            self._processes.start(host.name, self._prepared[host.name])
        self._wait(lambda: self.quorum.describe() is not None, "the controllers to elect a leader")
        wanted = frozenset(host.node_id for host in self._brokers)
        for _ in range(_STEER_ATTEMPTS):
            self._steer()
            self._wait(lambda: self.registered() == wanted, f"brokers {sorted(wanted)} to register")
            for broker in self._brokers:
                self._wait(partial(self.quorum.knows_itself, broker), f"{broker.name} to serve")
            if told(self.controller, "a controller") == self._wanted.node_id:
                break
        for host in self._nodes():
            self._processes.ready(host.name)
        self._assert_role()

    def create_topics(self, topics: tuple[Topic, ...]) -> None:
        """Create topics with explicit assignments and wait until every broker knows their leaders."""
        wanted = [NewTopic(topic.name, topic.assignment, topic.config) for topic in topics]
        answers = create_topics((self._lab.topology.host(self.operator_host()).address, 9092), wanted)
        for name, answer in answers.items():
            if answer.error not in (0, ALREADY_EXISTS):
                raise InvalidRunError(
                    f"Topic {name!r} was refused with error {answer.error}: {answer.message}"
                )
        leaders = {
            (topic.name, number): replicas[0]
            for topic in topics
            for number, replicas in enumerate(topic.assignment)
        }
        names = [topic.name for topic in topics]
        for broker in self._brokers:
            self._wait(
                partial(_knows, QuorumProbe((), (broker,)), names, leaders),
                f"{broker.name} to know the leaders of {', '.join(names)}",
            )

    def start(self, host: str) -> None:
        """Start a process again; a broker is back once it has caught up and is no longer fenced."""
        node = self._lab.topology.host(host)
        if host not in self._prepared:
            self._prepare(node)
        self._processes.start(host, self._prepared[host])
        if node in self._voters:
            self._wait(
                lambda: self.quorum.follows(node) is not None, f"{host} to open its listener", RESTART_S
            )
        if node in self._brokers:
            self._wait(lambda: self.quorum.knows_itself(node), f"{host} to register again", RESTART_S)
        self._processes.ready(host)

    def registered(self) -> frozenset[int]:
        """Node ids of the brokers that are not fenced, as the best informed broker says."""
        view = self.quorum.view([])
        return frozenset() if view is None else frozenset(view.brokers)

    def controller(self) -> int | None:
        """Node id of the quorum's leader; of several that claim to be it, the one of the last epoch."""
        view = self.quorum.describe()
        return None if view is None else view.leader

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """What the best informed broker says about a partition; None while the quorum has no leader."""
        return self.quorum.partition(topic, partition)

    def operator_host(self) -> str:
        """A broker that passes operator requests on to the quorum's leader of now."""
        informed = told(lambda: self.quorum.informed() or None, "its best informed broker")
        if informed is None:
            raise InvalidRunError("The controllers have no leader, so no broker can take a request.")
        return informed[0].name

    def roles(self) -> Mapping[str, str]:
        """The active controller, and what each controller is."""
        active = self.controller()
        modes = {host.name: self._role_of(host, active) for host in self._voters}
        leading = next((name for name, role in modes.items() if role == "leader"), "nobody")
        return {"controller": leading, **modes}

    def check_alive(self) -> None:
        """Raise ProcessDiedError when a process ended that no fault ended."""
        self._processes.check_alive()

    def server_log(self, host: str) -> Path:
        """The host's log file."""
        return self._lab.data_dir(host) / "server.log"

    def close(self) -> None:
        """Nothing stays open: every probe uses a connection of its own."""

    def _nodes(self) -> tuple[Host, ...]:
        return (*self._voters, *(host for host in self._brokers if host not in self._voters))

    def _config(self, host: Host) -> dict[str, str]:
        roles = ("broker",) if host in self._brokers else ()
        node = KRaftNode(
            host.node_id,
            (*roles, "controller") if host in self._voters else roles,
            host.az,
            host.address,
            self._lab.inside(host.name, self._lab.data_dir(host.name) / "data"),
            {voter.node_id: voter.address for voter in self._voters},
        )
        return kraft_properties(node, self._setup.broker_config, self._version.unsupported_keys)

    def _prepare(self, host: Host) -> None:
        heap_mb = self._version.broker_heap_mb if host in self._brokers else self._version.controller_heap_mb
        if self.mode == "kraft-combined":
            heap_mb = max(heap_mb, _COMBINED_HEAP_MB)
        self._prepared[host.name] = self._processes.prepare(
            host.name, BROKER, self._config(host), heap_mb=heap_mb
        )

    def _steer(self) -> None:
        """Where another controller won all the same, make the wanted one the only one that can be elected.

        The third is held still until it lacks records that the wanted one has; then the winner is held
        still instead. Nobody votes for a candidate with a shorter log.
        """
        for _ in range(_STEER_ATTEMPTS):
            active = told(self.controller, "a controller")
            if active == self._wanted.node_id:
                return
            winner = next((host for host in self._voters if host.node_id == active), None)
            if winner is None:
                continue
            third = next(host for host in self._voters if host not in (winner, self._wanted))
            with self._held(third):
                self._wait(
                    partial(self._ahead, QuorumProbe((winner,), ()), third), "a difference in their logs"
                )
                self._lab.signal(winner.name, signal.SIGSTOP)
            with self._held(winner):
                rest = QuorumProbe((self._wanted, third), ())
                self._wait(rest.describe, f"{self._wanted.name} to be elected")

    @contextmanager
    def _held(self, host: Host) -> Iterator[None]:
        self._lab.signal(host.name, signal.SIGSTOP)
        try:
            yield
        finally:
            self._lab.signal(host.name, signal.SIGCONT)

    def _ahead(self, told: QuorumProbe, late: Host) -> bool:
        view = told.describe()
        ends = dict(view.voters) if view is not None else {}
        # An answer to its last fetch may be on its way to the one held still: that is one append.
        return ends.get(self._wanted.node_id, -1) > ends.get(late.node_id, -1) + _APPENDS_AHEAD

    def _assert_role(self) -> None:
        active = told(self.controller, "a controller")
        if active != self._wanted.node_id:
            raise InvalidRunError(
                f"The scenario needs {self._wanted.name} as active controller, but node "
                f"{active} took the role; the run would judge another situation."
            )

    def _role_of(self, host: Host, active: int | None) -> str:
        if host.node_id == active:
            return "leader"
        follows = self.quorum.follows(host)
        return "down" if follows is None else f"follows node {follows}" if follows >= 0 else "no leader"

    def _wait(self, observe: Callable[[], object], awaiting: str, within_s: float = BOOT_S) -> None:
        wait_until(observe, within_s=within_s, awaiting=awaiting, poll_s=self.look_s, abort=self.check_alive)


def _knows(probe: QuorumProbe, topics: list[str], leaders: Mapping[tuple[str, int], int]) -> bool:
    return probe.leaders(topics) == leaders
