"""Operator actions on a running cluster: elections, reassignments, deletions, a new controller, other voters.

Each acts now, and is recorded as injected when the metadata store shows its effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Literal, TypeVar

from harness.cluster.model import Cluster, first_answer
from harness.cluster.possible import MIN_INSYNC
from harness.cluster.zookeeper_mode import ZooKeeperCluster
from harness.errors import InvalidRunError, UnfitError, UsageError, WaitTimeoutError
from harness.kafka.model import (
    ELECTION_NOT_NEEDED,
    NO_LEADER,
    REQUEST_TIMED_OUT,
    TOPIC_ALREADY_EXISTS,
    Endpoint,
    PartitionState,
    Topic,
    TopicPartition,
    broker_name,
)
from harness.kafka.versions import KRAFT
from harness.kafka.wire.admin import (
    Reassignment,
    RequestResult,
    alter_partition_reassignments,
    alter_replica_log_dir,
    alter_topic_config,
    create_partitions,
    create_topics,
    delete_records,
    delete_topic,
    describe_configs,
    describe_log_dirs,
    elect_leaders,
    list_partition_reassignments,
    update_feature,
)
from harness.kafka.wire.dialect import MODERN, Dialect
from harness.kafka.wire.metadata import finalized_features, metadata
from harness.kafka.wire.offsets import EARLIEST, end_offsets
from harness.kafka.wire.quorum import QuorumInfo, add_raft_voter, describe_voters, remove_raft_voter
from harness.lab.model import DATA, SECOND_DATA, Host, Topology
from harness.waiting import wait_until
from harness.zookeeper.four_letter import watchers
from harness.zookeeper.session import ZooKeeperSession
from nemesis.fault import Action, Evidence, Fault, Injection, Targets
from nemesis.registry import FaultRegistry
from nemesis.scheduled import Aim, ScheduledFault

T = TypeVar("T")
EFFECT_WITHIN_S = 30.0
_SCHEDULED_S = 4.0
"""How long a schedule waits for the effect of a request before its next step."""
_CONTROLLER_TRIES = 25


class Requests:
    """How operator actions reach one cluster."""

    def __init__(self, registry: FaultRegistry, cluster: Cluster, dialect: Dialect = MODERN) -> None:
        """``dialect`` is that of the cluster's version."""
        self.registry, self.cluster, self.dialect = registry, cluster, dialect

    def reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The reassignments under way, as the controller lists them."""
        return list_partition_reassignments(self.controller(), dialect=self.dialect)

    def controller(self) -> Endpoint:
        """Where operator requests go: the controller, or on KRaft any broker that runs."""
        number = first_answer(self.cluster.controller, "a controller")
        if number is None:
            raise InvalidRunError("There is no controller that could take an operator request.")
        brokers = [b for b in self.registry.topology.role("broker") if self.registry.lab.alive(b.name)]
        chosen = [b for b in brokers if b.node_id == number] or brokers
        if not chosen or (self.cluster.mode == "zookeeper" and chosen[0].node_id != number):
            raise InvalidRunError(
                f"The controller, broker {number}, does not run, so it cannot take a request."
            )
        return chosen[0].broker_endpoint

    def forwarding(self) -> Endpoint:
        """A broker that reaches the controller, and forwards to it."""
        return self.registry.topology.host(self.cluster.operator_host()).broker_endpoint

    def quorum(self) -> QuorumInfo:
        """The KRaft quorum as its leader describes it, with directory ids.

        Raises UnfitError before Kafka 3.9 and in ZooKeeper mode, and InvalidRunError without a leader.
        """
        if self.cluster.mode not in KRAFT:
            raise UnfitError(
                f"A cluster in mode {self.cluster.mode} has no KRaft quorum whose voters could change; use "
                f"mode {' or '.join(KRAFT)}."
            )

        def described() -> QuorumInfo | None:
            quorum = describe_voters(self.forwarding(), dialect=self.dialect, timeout_s=2.0)
            return None if quorum.error or quorum.leader == NO_LEADER else quorum

        known = first_answer(described, "the voters of the quorum")
        if known is None:
            raise InvalidRunError("The KRaft quorum has no leader that names its voters.")
        return known

    def changeable_quorum(self, controller: str) -> QuorumInfo:
        """As `quorum`, before a change of its voters. Raises UsageError if that is not possible."""
        if "controller" not in self.registry.topology.host(controller).services:
            raise UsageError(f"{controller} is no controller, so it cannot be a voter of the KRaft quorum.")
        quorum = self.quorum()
        if not quorum.voter_directories:
            raise UsageError(
                "The voters of the KRaft quorum are fixed (kraft.version 0); set dynamic_quorum=True in the "
                "set-up."
            )
        return quorum

    def voters(self) -> tuple[int, ...]:
        """Node ids of the voters of the KRaft quorum."""
        return tuple(sorted(node_id for node_id, _ in self.quorum().voters))

    def voters_if_known(self) -> tuple[int, ...]:
        """As `voters`; none while no leader names them."""
        try:
            return self.voters()
        except InvalidRunError:
            return ()

    def leader(self, key: TopicPartition) -> Endpoint:
        """Where a partition's leader listens."""
        state = first_answer(lambda: self.cluster.partition(*key), f"the leader of {key}")
        if state is None or state.leader < 0:
            raise InvalidRunError(f"{key} has no leader that could take an operator request.")
        return self.registry.topology.host(broker_name(state.leader)).broker_endpoint

    def stated(self, broker: Host, topic: str) -> Mapping[TopicPartition, PartitionState]:
        """The partitions of a topic, as a broker states them; none if it does not know the topic."""
        stated = metadata(broker.broker_endpoint, [topic], dialect=self.dialect, timeout_s=5.0)
        return stated.partitions

    def feature_level(self, broker: Host, feature: str) -> int | None:
        """The finalized level that a broker states; None if it does not answer."""
        try:
            return finalized_features(broker.broker_endpoint, timeout_s=2.0).get(feature, 0)
        except OSError:
            return None

    def check(self, what: str, outcomes: Iterable[RequestResult], *, effect_shows: bool) -> None:
        """Raise InvalidRunError for a refusal.

        A time-out is none if the effect shows whether the controller acted: then the effect decides.
        """
        accepted = (0, ELECTION_NOT_NEEDED, *((REQUEST_TIMED_OUT,) if effect_shows else ()))
        for outcome in outcomes:
            if outcome.error not in accepted:
                refusal = f"The {what} was refused with Kafka's error {outcome.error} {outcome.message}"
                raise InvalidRunError(f"{refusal.rstrip(' .')}.")


class Operator:
    """Operator actions on one cluster."""

    def __init__(self, registry: FaultRegistry, cluster: Cluster, dialect: Dialect = MODERN) -> None:
        """Reached as `Nemesis.operator(cluster, dialect)`."""
        self._requests = Requests(registry, cluster, dialect)

    def act(
        self,
        name: str,
        *,
        targets: Targets,
        action: Callable[[], object],
        observe: Callable[[], T],
        accept: Callable[[T], bool],
        mechanism: str = "other",
        within_s: float = EFFECT_WITHIN_S,
        in_force: Literal["done", "effective"] = "done",
    ) -> Injection:
        """Do ``action``, and wait until ``observe`` shows its effect. Raises InvalidRunError without one.

        The history has it in force once it is done, or once its effect was observed (``effective``).
        """

        return self._add(
            OperatorAction(
                name,
                mechanism=mechanism,
                targets=targets,
                action=action,
                observe=observe,
                accept=accept,
                within_s=within_s,
                in_force=in_force,
            )
        )

    def elect(
        self,
        topic: str,
        partition: int = 0,
        *,
        kind: Literal["preferred", "unclean"] = "preferred",
        leader: str = "",
    ) -> Injection:
        """Elect the preferred leader, or any live replica, in sync or not.

        ``leader`` is the host that must lead afterwards; by default, any.
        """
        election = ElectPreferred if kind == "preferred" else ElectUnclean
        return self._add(election(self._requests, TopicPartition(topic, partition), leader))

    def reassign(
        self, topic: str, replicas: Sequence[int], partition: int = 0, *, within_s: float = 30.0
    ) -> Injection:
        """Assign other replicas, or the same in another order; either raises the leader epoch.

        It has taken effect once the controller lists it as under way, or has finished it. It stays under way
        while a new replica is out of sync, for instance because its broker is down: `Stage.wait_converged`
        waits for its end, `reassignments` lists it, and `cancel_reassignment` ends it.
        """
        return self._add(Reassign(self._requests, TopicPartition(topic, partition), replicas, within_s))

    def cancel_reassignment(self, topic: str, partition: int = 0, *, within_s: float = 30.0) -> Injection:
        """Cancel a reassignment that is under way: the partition keeps the replicas that it had before.

        Raises InvalidRunError if none is under way.
        """
        return self._add(Reassign(self._requests, TopicPartition(topic, partition), None, within_s))

    def reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The reassignments under way, as the controller lists them."""
        return self._requests.reassignments()

    def configure(
        self, topic: str, name: str, value: str, *, partitions: int = 1, within_s: float = 30.0
    ) -> Injection:
        """Set a property of a topic, which has so many ``partitions``. Raises UnfitError before Kafka 2.3."""

        return self._add(Configure(self._requests, topic, {name: value}, partitions, within_s))

    def delete_records(
        self, topic: str, before: int, partition: int = 0, *, within_s: float = 30.0
    ) -> Injection:
        """Delete the records before an offset (DeleteRecords). Raises UnfitError before Kafka 0.11."""
        key = TopicPartition(topic, partition)
        return self._add(DeleteRecords(self._requests, key, before, within_s))

    def set_feature(self, feature: str, level: int, *, lower: bool = False) -> Injection:
        """Finalize a feature such as `metadata.version` at a level; ``lower`` allows a lower one (KRaft)."""
        return self._add(SetFeature(self._requests, feature, level, lower=lower))

    def delete_topic(self, topic: str, *, partitions: int = 1, within_s: float = 30.0) -> Injection:
        """Delete a topic, which has so many ``partitions``, and wait until no running broker leads any.

        It is in force only then: until a leader learns of the deletion, it acknowledges messages.
        `create_topic` may create it again. In ZooKeeper mode that must wait until all of its brokers run.
        """
        return self._add(DeleteTopic(self._requests, topic, partitions, within_s))

    def create_topic(self, topic: Topic, *, within_s: float = 30.0) -> Injection:
        """Create a topic again that `delete_topic` has deleted, and wait until each partition has a leader.

        So it does with a new one without replicas (`Topic("placed", (), partitions=10)`): Kafka chooses them,
        and the history does not follow it. Raises UsageError for another topic that is not of the set-up.
        """
        return self._add(CreateTopic(self._requests, topic, within_s))

    def add_partitions(self, topic: Topic, *, within_s: float = 30.0) -> Injection:
        """Add the partitions that a topic of the set-up was created without (`Topic.later`).

        It waits until every broker that runs states their leaders. Raises UnfitError before Kafka 1.0.
        """
        return self._add(AddPartitions(self._requests, topic, within_s))

    def move_replica(
        self,
        topic: str,
        broker: str,
        folder: str,
        partition: int = 0,
        *,
        finished: bool = True,
        within_s: float = 30.0,
    ) -> Injection:
        """Move a broker's replica to another of its `log.dirs`, `data` or `data2` (KIP-113).

        It waits until the broker has the replica there alone; if not ``finished``, until it copies it there.
        Raises UnfitError before Kafka 2.0.
        """
        key = TopicPartition(topic, partition)
        return self._add(MoveReplica(self._requests, key, broker, folder, within_s, finished=finished))

    def replica_folders(self, topic: str, broker: str, partition: int = 0) -> dict[str, bool]:
        """The `log.dirs` in which a broker has a replica, `data` or `data2`; true: it is being copied there.

        Raises UnfitError before Kafka 2.0.
        """
        return _replica_folders(self._requests, TopicPartition(topic, partition), broker)

    def add_voter(self, controller: str, *, within_s: float = 30.0) -> Injection:
        """Add a controller to the voters of the KRaft quorum, once it has caught up (AddRaftVoter, KIP-853).

        The quorum must be dynamic (`Setup.dynamic_quorum`). It waits until the quorum's leader describes the
        controller as a voter. Raises UnfitError before Kafka 3.9 and in ZooKeeper mode, and InvalidRunError
        for one that is a voter already.
        """
        return self._add(AddVoter(self._requests, controller, within_s))

    def remove_voter(self, controller: str, *, within_s: float = 30.0) -> Injection:
        """Remove a controller, dead or alive, from the voters of the KRaft quorum (RemoveRaftVoter, KIP-853).

        Errors are as for `add_voter`; InvalidRunError is for one that is no voter.
        """
        return self._add(RemoveVoter(self._requests, controller, within_s))

    def voters(self) -> tuple[int, ...]:
        """Node ids of the voters of a dynamic KRaft quorum, as its leader describes it to a broker."""
        return self._requests.voters()

    def delete_controller(self, session: ZooKeeperSession, *, becomes: str = "") -> Injection:
        """Delete `/controller` so that the brokers race for it; with ``becomes``, until that host wins."""
        return self._add(MoveController(self._requests, session, becomes))

    def _add(self, fault: Fault) -> Injection:
        """Number a fault, and inject it."""
        return self._requests.registry.add(fault).inject()


class OperatorAction(Action):
    """A request to the cluster, and the wait until its effect is observed."""

    def __init__(
        self,
        name: str,
        *,
        mechanism: str,
        targets: Targets,
        action: Callable[[], object],
        observe: Callable[[], T],
        accept: Callable[[T], bool],
        within_s: float = EFFECT_WITHIN_S,
        in_force: Literal["done", "effective"] = "done",
    ) -> None:
        """Arguments as for `Operator.act`."""

        def see() -> Evidence:
            try:
                seen = wait_until(
                    observe, within_s=within_s, awaiting=f"the effect of {name!r}", accept=accept
                )
            except WaitTimeoutError as error:
                raise InvalidRunError(f"The action {name!r} had no effect: {error.message}") from error
            return {"seen": _as_data(seen)}

        evidence: dict[str, object] = {}

        def act() -> None:
            action()
            if in_force == "effective":
                evidence.update(see())

        super().__init__(
            name,
            kind="operator",
            mechanism=mechanism,
            targets=targets,
            act=act,
            verify=lambda: evidence or see(),
        )


class _Election(OperatorAction, ScheduledFault):
    """An election of a partition's leader."""

    takes = "partition"
    election: Literal["preferred", "unclean"]

    def __init__(self, requests: Requests, key: TopicPartition, leader: str = "") -> None:
        """``leader`` is the host that must lead afterwards; by default, any."""
        leader_id = requests.registry.topology.host(leader).node_id if leader else None

        def observe() -> PartitionState | None:
            return requests.cluster.partition(*key)

        def ask() -> None:
            shows = leader_id is not None or not led(observe())
            answers = elect_leaders(requests.controller(), [key], self.election, dialect=requests.dialect)
            requests.check(f"{self.election} election of {key}", answers.values(), effect_shows=shows)

        def led(state: PartitionState | None) -> bool:
            return state is not None and state.leader >= 0 and leader_id in (None, state.leader)

        super().__init__(
            f"elect {self.election} leader of {key}",
            mechanism=self.mechanism,
            targets={"partitions": [str(key)]},
            action=ask,
            observe=observe,
            accept=led,
        )

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the partition."""
        return cls(Requests(registry, aim.cluster, aim.dialect), aim.partition)


class ElectPreferred(_Election):
    """The election of the preferred leader."""

    mechanism = "elect_preferred"
    election = "preferred"
    weight = 3


class ElectUnclean(_Election):
    """The election of any live replica, in sync or not."""

    mechanism = "elect_unclean"
    election = "unclean"
    safe = False
    weight = 1


class Reassign(OperatorAction, ScheduledFault):
    """A reassignment of a partition's replicas, or the end of one that is under way."""

    mechanism = "reassign"
    takes = "partition"
    weight = 3

    def __init__(
        self, requests: Requests, key: TopicPartition, replicas: Sequence[int] | None, within_s: float
    ) -> None:
        """``replicas`` are the new ones, or the same in another order; None cancels."""
        target = None if replicas is None else tuple(replicas)
        before = requests.cluster.partition(*key)
        name = f"cancel the reassignment of {key}" if target is None else f"reassign {key} to {list(target)}"

        def ask() -> None:
            answers = alter_partition_reassignments(
                requests.controller(), {key: target}, dialect=requests.dialect
            )
            shows = target is not None and before is not None
            requests.check(f"request to {name}", answers.values(), effect_shows=shows)

        def effective(seen: tuple[PartitionState | None, Reassignment | None]) -> bool:
            state, under_way = seen
            if target is None:
                return state is not None and not state.moving and under_way is None
            if under_way is not None:
                return under_way.target == target
            if state is None or state.replicas != target or not state.isr_is_full:
                return False
            return before is None or (before.replicas, before.leader_epoch) != (target, state.leader_epoch)

        super().__init__(
            name,
            mechanism=self.mechanism,
            targets={"partitions": [str(key)], **({"replicas": list(target)} if target else {})},
            action=ask,
            observe=lambda: (requests.cluster.partition(*key), requests.reassignments().get(key)),
            accept=effective,
            within_s=within_s,
        )

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the partition: the first replica becomes the last."""
        first, *others = _replicas(aim)
        requests = Requests(registry, aim.cluster, aim.dialect)
        return cls(requests, aim.partition, (*others, first), _SCHEDULED_S)


class ReassignToOthers(Reassign):
    """A reassignment that takes a partition from the broker of its last replica."""

    mechanism = "reassign_to_others"
    lasts = True
    reverses = True
    on_request = True

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the partition: to the first broker without a replica or, if every broker has one, to nobody."""
        requests = Requests(registry, aim.cluster, aim.dialect)
        replicas = _replicas(aim)
        brokers = (broker.node_id for broker in registry.topology.role("broker"))
        target = (*replicas[:-1], *[broker for broker in brokers if broker not in replicas][:1])
        if not target:
            raise InvalidRunError(f"{aim.partition} has one replica, and no other broker could take it")
        return cls(requests, aim.partition, target, _SCHEDULED_S)

    @classmethod
    def reverse(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """The replicas that the topic was created with."""
        requests = Requests(registry, aim.cluster, aim.dialect)
        replicas = aim.topic.assignment[aim.partition.partition]
        return cls(requests, aim.partition, replicas, _SCHEDULED_S)


def _replicas(aim: Aim) -> tuple[int, ...]:
    """The replicas that a partition has now. Raises InvalidRunError if they are not known."""
    state = first_answer(lambda: aim.cluster.partition(*aim.partition), str(aim.partition))
    if state is None or not state.replicas:
        raise InvalidRunError(f"the replicas of {aim.partition} are not known")
    return tuple(state.replicas)


class Configure(OperatorAction, ScheduledFault):
    """Other properties of a topic."""

    mechanism = "configure"
    takes = "partition"
    lasts = True
    reverses = True
    weight = 2

    def __init__(
        self,
        requests: Requests,
        topic: str,
        properties: Mapping[str, str],
        partitions: int,
        within_s: float,
    ) -> None:
        """The topic has so many ``partitions``."""
        texts = ", ".join(f"{name}={value}" for name, value in properties.items())

        def ask() -> None:
            outcome = alter_topic_config(
                requests.controller(),
                topic,
                dict(properties),
                dialect=requests.dialect,
                timeout_s=within_s,
            )
            requests.check(f"change of {topic} to {texts}", [outcome], effect_shows=False)

        def effective() -> dict[str, str | None] | None:
            try:
                answer = describe_configs(
                    requests.controller(),
                    "topic",
                    topic,
                    dialect=requests.dialect,
                    timeout_s=within_s,
                )
            except (OSError, LookupError):
                return None
            return {name: answer.get(name) for name in properties}

        super().__init__(
            f"configure {topic} with {texts}",
            mechanism=self.mechanism,
            targets={
                "partitions": [f"{topic}/{number}" for number in range(partitions)],
                "properties": dict(properties),
            },
            action=ask,
            observe=effective,
            accept=lambda seen: seen == properties,
            within_s=within_s,
        )

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the topic: acks=all needs every replica. It never promises less than it did before."""
        return cls._with(registry, aim, str(len(aim.topic.replicas)))

    @classmethod
    def reverse(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """The topic's own value."""
        return cls._with(registry, aim, aim.topic.config[MIN_INSYNC])

    @classmethod
    def _with(cls, registry: FaultRegistry, aim: Aim, least: str) -> Fault:
        requests = Requests(registry, aim.cluster, aim.dialect)
        return cls(requests, aim.topic.name, {MIN_INSYNC: least}, aim.topic.partitions, _SCHEDULED_S)


class DeleteRecords(OperatorAction):
    """A deletion of a partition's records before an offset."""

    def __init__(self, requests: Requests, key: TopicPartition, before: int, within_s: float) -> None:
        """``before`` is the first offset that stays."""

        def ask() -> None:
            answer = delete_records(requests.leader(key), key, before, dialect=requests.dialect)
            requests.check(f"deletion of {key} before {before}", [answer], effect_shows=True)

        def log_start() -> int:
            try:
                answer = end_offsets(
                    requests.leader(key), [key], at=EARLIEST, dialect=requests.dialect, timeout_s=2.0
                )
            except OSError:
                return -1
            return answer[key].offset

        super().__init__(
            f"delete records of {key} before {before}",
            mechanism="delete_records",
            targets={"partitions": [str(key)], "before_offset": before},
            action=ask,
            observe=log_start,
            accept=lambda start: start >= before,
            within_s=within_s,
        )


class SetFeature(OperatorAction):
    """Another finalized level of a feature; in force when every broker that runs states it."""

    def __init__(self, requests: Requests, feature: str, level: int, *, lower: bool) -> None:
        """``lower`` allows a lower level."""
        registry = requests.registry

        def ask() -> None:
            answer = update_feature(requests.controller(), feature, level, lower=lower)
            requests.check(f"level {level} of {feature}", [answer], effect_shows=True)

        def levels() -> dict[str, int | None]:
            return {
                broker.name: requests.feature_level(broker, feature)
                for broker in registry.topology.role("broker")
                if registry.lab.alive(broker.name)
            }

        super().__init__(
            f"finalize {feature} at level {level}",
            mechanism="set_feature",
            targets={
                "hosts": [broker.name for broker in registry.topology.role("broker")],
                "features": {feature: level},
            },
            action=ask,
            observe=levels,
            accept=lambda stated: set(stated.values()) == {level},
            in_force="effective",
        )


class DeleteTopic(OperatorAction):
    """A deletion of a topic; in force when no running broker leads any of its partitions."""

    def __init__(self, requests: Requests, topic: str, partitions: int, within_s: float) -> None:
        """The topic has so many ``partitions``."""
        registry = requests.registry

        def ask() -> None:
            answer = delete_topic(requests.controller(), topic, dialect=requests.dialect)
            requests.check(f"deletion of {topic}", [answer], effect_shows=True)
            registry.deleted_topics.add(topic)

        def led_by() -> dict[str, list[TopicPartition]]:
            return {
                broker.name: [
                    key for key, state in requests.stated(broker, topic).items() if state.leader >= 0
                ]
                for broker in registry.topology.role("broker")
                if registry.lab.alive(broker.name)
            }

        super().__init__(
            f"delete {topic}",
            mechanism="delete_topic",
            targets={"partitions": [f"{topic}/{number}" for number in range(partitions)]},
            action=ask,
            observe=led_by,
            accept=lambda leaders: not any(leaders.values()),
            within_s=within_s,
            in_force="effective",
        )


class CreateTopic(OperatorAction):
    """A topic that was deleted, created again, or a new one whose replicas Kafka chooses."""

    def __init__(self, requests: Requests, topic: Topic, within_s: float) -> None:
        """Raises UsageError for another topic: the history follows the topics of the set-up."""
        deleted = requests.registry.deleted_topics
        if topic.name not in deleted and topic.replicas:
            raise UsageError(f"The topic {topic.name!r} was not deleted; `create_topic` creates it again.")

        def ask() -> None:
            try:
                # ZooKeeper mode: the brokers let go of a deleted topic before its znode is gone.
                answers = wait_until(
                    lambda: create_topics(requests.controller(), [topic], dialect=requests.dialect),
                    within_s=within_s,
                    awaiting=f"the end of the deletion of {topic.name}",
                    accept=lambda answers: answers[topic.name].error != TOPIC_ALREADY_EXISTS,
                    poll_s=0.1,
                )
            except WaitTimeoutError as error:
                raise InvalidRunError(f"{topic.name} could not be created again: {error.message}") from error
            requests.check(f"creation of {topic.name}", answers.values(), effect_shows=True)
            deleted.discard(topic.name)

        def states() -> list[PartitionState | None]:
            return [requests.cluster.partition(*key) for key in topic.topic_partitions]

        super().__init__(
            f"create {topic.name}",
            mechanism="create_topic",
            targets={"partitions": [str(key) for key in topic.topic_partitions]},
            action=ask,
            observe=states,
            accept=lambda seen: all(state is not None and state.leader >= 0 for state in seen),
            within_s=within_s,
        )


class AddPartitions(OperatorAction):
    """More partitions of a topic; in force when every running broker states the leaders of all of them."""

    def __init__(self, requests: Requests, topic: Topic, within_s: float) -> None:
        """Raises UsageError for a topic without later ones: the history follows those of the set-up."""
        registry = requests.registry
        added = topic.topic_partitions[topic.partitions - topic.later :]
        if not added:
            raise UsageError(f"The topic {topic.name!r} was created with all its partitions; set `later`.")

        def ask() -> None:
            answer = create_partitions(requests.controller(), topic, dialect=requests.dialect)
            requests.check(f"request to add partitions to {topic.name}", [answer], effect_shows=True)

        def led_by() -> dict[str, list[int]]:
            return {
                broker.name: [state.leader if (state := stated.get(key)) is not None else -1 for key in added]
                for broker in registry.topology.role("broker")
                if registry.lab.alive(broker.name)
                for stated in [requests.stated(broker, topic.name)]
            }

        super().__init__(
            f"add partitions to {topic.name}",
            mechanism="add_partitions",
            targets={"partitions": [str(key) for key in added]},
            action=ask,
            observe=led_by,
            accept=lambda leaders: all(min(numbers) >= 0 for numbers in leaders.values()),
            within_s=within_s,
            in_force="effective",
        )


class MoveReplica(OperatorAction, ScheduledFault):
    """A replica that moves to another of its broker's log directories; in force when it is only there."""

    mechanism = "move_replica"
    takes = "hosts"
    roles = ("broker",)
    processes = "running"
    one_host = True
    about_partition = True
    preparation = "log directories"
    on_request = True
    weight = 3

    def __init__(
        self,
        requests: Requests,
        key: TopicPartition,
        broker: str,
        folder: str,
        within_s: float,
        *,
        finished: bool = True,
    ) -> None:
        """``folder`` is that of the host; if not ``finished``, a copy that has begun is enough."""
        endpoint = requests.registry.topology.host(broker).broker_endpoint

        def ask() -> None:
            path = requests.registry.lab.inside(broker, folder)
            answer = alter_replica_log_dir(endpoint, key, path, dialect=requests.dialect)
            requests.check(f"move of {key} on {broker} to {folder}", [answer], effect_shows=False)

        super().__init__(
            f"move {key} on {broker} to {folder}",
            mechanism=self.mechanism,
            targets={"hosts": [broker], "partitions": [str(key)], "folder": folder},
            action=ask,
            observe=lambda: _replica_folders(requests, key, broker),
            accept=lambda seen: seen == {folder: False} if finished else folder in seen,
            within_s=within_s,
            in_force="effective",
        )

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the partition's replica on the host: to the directory that it is not in."""
        (host,) = aim.hosts
        requests = Requests(registry, aim.cluster, aim.dialect)
        used = _replica_folders(requests, aim.partition, host.name)
        unused = [folder for folder in (DATA, SECOND_DATA) if folder not in used]
        if len(unused) != 1:
            raise InvalidRunError(f"{host.name} has no replica of {aim.partition}, or one that is moving")
        return cls(requests, aim.partition, host.name, unused[0], _SCHEDULED_S)


def _replica_folders(requests: Requests, key: TopicPartition, broker: str) -> dict[str, bool]:
    """Folders of a broker's host that have a replica; true: it is being copied there."""
    registry = requests.registry
    endpoint = registry.topology.host(broker).broker_endpoint
    moving = describe_log_dirs(endpoint, key, dialect=requests.dialect)
    folders = {registry.lab.inside(broker, folder): folder for folder in (DATA, SECOND_DATA)}
    return {folders[path]: copied for path, copied in moving.items()}


class AddVoter(OperatorAction):
    """Another voter of the KRaft quorum; in force when the quorum's leader describes it as one."""

    def __init__(self, requests: Requests, controller: str, within_s: float) -> None:
        """``controller`` is the host of one that follows the quorum, or soon will."""
        host = requests.registry.topology.host(controller)
        if host.node_id in requests.changeable_quorum(controller).voter_directories:
            raise InvalidRunError(f"{controller} is a voter of the KRaft quorum already.")

        def added() -> RequestResult:
            quorum = requests.quorum()
            if host.node_id in quorum.voter_directories:  # by a request whose answer said that it timed out
                return RequestResult(0)
            directory = quorum.observer_directories.get(host.node_id)
            if directory is None:
                return RequestResult(REQUEST_TIMED_OUT, "It does not follow the quorum.")
            return add_raft_voter(
                requests.forwarding(),
                host.node_id,
                directory,
                [host.controller_endpoint],
                dialect=requests.dialect,
            )

        def ask() -> None:
            try:
                answer = wait_until(
                    added,
                    within_s=within_s,
                    awaiting=f"{controller} to catch up with the quorum",
                    accept=lambda answer: answer.error != REQUEST_TIMED_OUT,
                    ignoring=(InvalidRunError,),
                )
            except WaitTimeoutError as error:
                raise InvalidRunError(f"{controller} could not be added: {error.message}") from error
            requests.check(f"addition of {controller} to the voters", [answer], effect_shows=True)

        super().__init__(
            f"add {controller} to the voters",
            mechanism="add_voter",
            targets={"hosts": [controller]},
            action=ask,
            observe=requests.voters_if_known,
            accept=lambda voters: host.node_id in voters,
            within_s=within_s,
            in_force="effective",
        )


class RemoveVoter(OperatorAction, ScheduledFault):
    """A voter less in the KRaft quorum; in force when the quorum's leader does not describe it as one."""

    mechanism = "remove_voter"
    takes = "hosts"
    lasts = True
    reverses = True
    roles = ("controller",)
    one_host = True
    modes = ("kraft",)
    capability = "dynamic_quorum"
    preparation = "dynamic quorum"
    on_request = True
    weight = 3

    def __init__(self, requests: Requests, controller: str, within_s: float) -> None:
        """``controller`` is the host of the voter."""
        node_id = requests.registry.topology.host(controller).node_id
        quorum = requests.changeable_quorum(controller)
        directory = quorum.voter_directories.get(node_id)
        if directory is None:
            nodes = ", ".join(map(str, sorted(quorum.voter_directories)))
            raise InvalidRunError(f"{controller} is no voter of the KRaft quorum; its voters are {nodes}.")

        def ask() -> None:
            try:
                answer = remove_raft_voter(
                    requests.forwarding(), node_id, directory, dialect=requests.dialect
                )
            except OSError:  # the quorum may have carried it out all the same
                answer = RequestResult(REQUEST_TIMED_OUT)
            requests.check(f"removal of {controller} from the voters", [answer], effect_shows=True)

        super().__init__(
            f"remove {controller} from the voters",
            mechanism=self.mechanism,
            targets={"hosts": [controller]},
            action=ask,
            observe=requests.voters_if_known,
            accept=lambda voters: bool(voters) and node_id not in voters,
            within_s=within_s,
            in_force="effective",
        )

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the host."""
        return cls(Requests(registry, aim.cluster, aim.dialect), aim.hosts[0].name, _SCHEDULED_S)

    @classmethod
    def reverse(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """The host becomes a voter again."""
        return AddVoter(Requests(registry, aim.cluster, aim.dialect), aim.hosts[0].name, _SCHEDULED_S)


class MoveController(OperatorAction, ScheduledFault):
    """A deletion of the controller's znode, so that the brokers race for it."""

    mechanism = "move_controller"
    takes = "cluster"
    modes = ("zookeeper",)
    weight = 3

    def __init__(self, requests: Requests, session: ZooKeeperSession, becomes: str = "") -> None:
        """With ``becomes``, it is deleted until that host wins."""
        winner_id = requests.registry.topology.host(becomes).node_id if becomes else None
        first = session.controller_epoch()

        def race() -> None:
            for _ in range(_CONTROLLER_TRIES):
                epoch = session.controller_epoch()
                _wait_for_watches(requests.registry.topology, session, "/controller")
                session.delete_controller()
                wait_until(
                    lambda epoch=epoch: session.controller_epoch() > epoch,  # type: ignore[misc]
                    within_s=EFFECT_WITHIN_S,
                    awaiting="another controller epoch",
                    poll_s=0.01,
                )
                if winner_id in (None, requests.cluster.controller()):
                    return
            raise InvalidRunError(f"{becomes} did not become controller in {_CONTROLLER_TRIES} races.")

        super().__init__(
            f"make {becomes} controller" if becomes else "delete /controller",
            mechanism=self.mechanism,
            targets={"hosts": [becomes] if becomes else [], "znodes": ["/controller"]},
            action=race,
            observe=lambda: (session.controller_epoch(), requests.cluster.controller()),
            accept=lambda seen: seen[0] > first and seen[1] is not None and winner_id in (None, seen[1]),
        )

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the cluster: any broker may win."""
        assert isinstance(aim.cluster, ZooKeeperCluster)
        return cls(Requests(registry, aim.cluster, aim.dialect), aim.cluster.registry)


def _wait_for_watches(topology: Topology, session: ZooKeeperSession, path: str) -> None:
    """Wait until every registered broker watches a znode: a broker misses a deletion without a watch.

    A broker watches a znode again only after it has handled the znode's creation, and the new controller
    only after it has taken over. The harness's own sessions have watches too.
    """
    nodes = [node.zookeeper_endpoint for node in topology.role("zookeeper")]
    wait_until(
        lambda: frozenset().union(*(watchers(node, path) for node in nodes)),
        accept=lambda watching: session.broker_sessions() <= watching,
        within_s=EFFECT_WITHIN_S,
        awaiting=f"every registered broker to watch {path}",
        poll_s=0.05,
    )


def _as_data(seen: object) -> object:
    """What was observed, as it goes into the history: states as objects."""
    if isinstance(seen, list | tuple):
        return [_as_data(one) for one in seen]
    if isinstance(seen, Mapping):
        return {str(key): _as_data(value) for key, value in seen.items()}
    return asdict(seen) if is_dataclass(seen) and not isinstance(seen, type) else seen
