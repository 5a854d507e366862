"""Operator actions on a running cluster: elections, reassignments, deletions, a new controller.

Each acts now, and is recorded as injected when the metadata store shows its effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeVar

from harness.cluster.model import Cluster, first_answer
from harness.errors import InvalidRunError, UsageError, WaitTimeoutError
from harness.kafka.model import (
    ELECTION_NOT_NEEDED,
    REQUEST_TIMED_OUT,
    Address,
    PartitionState,
    Topic,
    TopicPartition,
    broker_name,
)
from harness.kafka.wire.admin import (
    Reassignment,
    RequestResult,
    alter_partition_reassignments,
    alter_topic_config,
    create_topics,
    delete_records,
    delete_topic,
    describe_configs,
    elect_leaders,
    list_partition_reassignments,
)
from harness.kafka.wire.dialect import MODERN, Dialect
from harness.kafka.wire.metadata import metadata
from harness.kafka.wire.offsets import EARLIEST, end_offsets
from harness.lab.model import Host
from harness.waiting import wait_until
from harness.zookeeper.four_letter import watchers
from harness.zookeeper.session import ZooKeeperSession
from nemesis.fault import Action, Evidence, Injection, Targets
from nemesis.registry import FaultRegistry

T = TypeVar("T")
_EFFECT_WITHIN_S = 30.0
_CONTROLLER_TRIES = 25


class Operator:
    """Operator actions on one cluster."""

    def __init__(self, registry: FaultRegistry, cluster: Cluster, dialect: Dialect = MODERN) -> None:
        """Reached as `Nemesis.operator(cluster, dialect)`."""
        self._registry, self._cluster, self._dialect = registry, cluster, dialect

    def act(
        self,
        name: str,
        *,
        targets: Targets,
        action: Callable[[], object],
        observe: Callable[[], T],
        accept: Callable[[T], bool],
        mechanism: str = "other",
        within_s: float = _EFFECT_WITHIN_S,
        in_force: Literal["done", "effective"] = "done",
    ) -> Injection:
        """Do ``action``, and wait until ``observe`` shows its effect. Raises InvalidRunError without one.

        The history has it in force once it is done, or once its effect was observed (``effective``).
        """

        def see() -> Evidence:
            try:
                seen = wait_until(
                    observe, within_s=within_s, awaiting=f"the effect of {name!r}", accept=accept
                )
            except WaitTimeoutError as error:
                raise InvalidRunError(f"The action {name!r} had no effect: {error.message}") from error
            return {"seen": str(seen)}

        evidence: dict[str, object] = {}

        def act() -> None:
            action()
            if in_force == "effective":
                evidence.update(see())

        fault = Action(
            name,
            kind="operator",
            mechanism=mechanism,
            targets=targets,
            act=act,
            verify=lambda: evidence or see(),
        )
        return self._registry.add(fault).inject()

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
        wanted = self._registry.topology.host(leader).node_id if leader else None
        observe = self._observe(topic, partition)

        def ask() -> None:
            key = TopicPartition(topic, partition)
            shows = wanted is not None or not led(observe())
            answers = elect_leaders(self._controller(), [key], kind, dialect=self._dialect)
            self._check(f"{kind} election of {topic}/{partition}", answers.values(), effect_shows=shows)

        def led(state: PartitionState | None) -> bool:
            return state is not None and state.leader >= 0 and wanted in (None, state.leader)

        name = f"elect {kind} leader of {topic}/{partition}"
        return self.act(
            name,
            mechanism=f"elect_{kind}",
            targets={"partitions": [f"{topic}/{partition}"]},
            action=ask,
            observe=observe,
            accept=led,
        )

    def reassign(
        self, topic: str, replicas: Sequence[int], partition: int = 0, *, within_s: float = 30.0
    ) -> Injection:
        """Assign other replicas, or the same in another order; either raises the leader epoch.

        It has taken effect once the controller lists it as under way, or has finished it. It stays under way
        while a new replica is out of sync, for instance because its broker is down: `Stage.wait_converged`
        waits for its end, `reassignments` lists it, and `cancel_reassignment` ends it.
        """
        key, target = TopicPartition(topic, partition), tuple(replicas)
        before = self._cluster.partition(*key)

        def effective(seen: tuple[PartitionState | None, Reassignment | None]) -> bool:
            state, under_way = seen
            if under_way is not None:
                return under_way.target == target
            if state is None or state.replicas != target or not state.isr_is_full:
                return False
            return before is None or (before.replicas, before.leader_epoch) != (target, state.leader_epoch)

        return self._reassign(
            f"reassign {key} to {list(target)}",
            key,
            target,
            targets={"partitions": [str(key)], "replicas": list(target)},
            accept=effective,
            effect_shows=before is not None,
            within_s=within_s,
        )

    def cancel_reassignment(self, topic: str, partition: int = 0, *, within_s: float = 30.0) -> Injection:
        """Cancel a reassignment that is under way: the partition keeps the replicas that it had before.

        Raises InvalidRunError if none is under way.
        """
        key = TopicPartition(topic, partition)
        return self._reassign(
            f"cancel the reassignment of {key}",
            key,
            None,
            targets={"partitions": [str(key)]},
            accept=lambda seen: seen[0] is not None and not seen[0].moving and seen[1] is None,
            effect_shows=False,
            within_s=within_s,
        )

    def reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The reassignments under way, as the controller lists them."""
        return list_partition_reassignments(self._controller(), dialect=self._dialect)

    def _reassign(
        self,
        name: str,
        key: TopicPartition,
        replicas: tuple[int, ...] | None,
        *,
        targets: Targets,
        accept: Callable[[tuple[PartitionState | None, Reassignment | None]], bool],
        effect_shows: bool,
        within_s: float,
    ) -> Injection:
        """Ask for a reassignment, or with None for its end; ``accept`` gets the state and what is listed."""

        def ask() -> None:
            answers = alter_partition_reassignments(
                self._controller(), {key: replicas}, dialect=self._dialect
            )
            self._check(f"request to {name}", answers.values(), effect_shows=effect_shows)

        return self.act(
            name,
            mechanism="reassign",
            targets=targets,
            action=ask,
            observe=lambda: (self._cluster.partition(*key), self.reassignments().get(key)),
            accept=accept,
            within_s=within_s,
        )

    def configure(
        self, topic: str, name: str, value: str, *, partitions: int = 1, within_s: float = 30.0
    ) -> Injection:
        """Set a property of a topic, which has so many ``partitions``. Raises UnfitError before Kafka 2.3."""

        def ask() -> None:
            outcome = alter_topic_config(
                self._controller(), topic, {name: value}, dialect=self._dialect, timeout_s=within_s
            )
            self._check(f"change of {topic} to {name}={value}", [outcome], effect_shows=False)

        def effective() -> str | None:
            try:
                answer = describe_configs(
                    self._controller(), "topic", topic, dialect=self._dialect, timeout_s=within_s
                )
            except (OSError, LookupError):
                return None
            return answer.get(name)

        return self.act(
            f"configure {topic} with {name}={value}",
            mechanism="configure",
            targets={
                "partitions": [f"{topic}/{number}" for number in range(partitions)],
                "properties": {name: value},
            },
            action=ask,
            observe=effective,
            accept=lambda seen: seen == value,
            within_s=within_s,
        )

    def delete_records(
        self, topic: str, before: int, partition: int = 0, *, within_s: float = 30.0
    ) -> Injection:
        """Delete the records before an offset (DeleteRecords). Raises UnfitError before Kafka 0.11."""
        key = TopicPartition(topic, partition)

        def ask() -> None:
            answer = delete_records(self._leader(key), key, before, dialect=self._dialect)
            self._check(f"deletion of {topic}/{partition} before {before}", [answer], effect_shows=True)

        def log_start() -> int:
            try:
                answer = end_offsets(
                    self._leader(key), [key], at=EARLIEST, dialect=self._dialect, timeout_s=2.0
                )
            except OSError:
                return -1
            return answer[key].offset

        return self.act(
            f"delete records of {topic}/{partition} before {before}",
            mechanism="delete_records",
            targets={"partitions": [f"{topic}/{partition}"], "before_offset": before},
            action=ask,
            observe=log_start,
            accept=lambda start: start >= before,
            within_s=within_s,
        )

    def delete_topic(self, topic: str, *, partitions: int = 1, within_s: float = 30.0) -> Injection:
        """Delete a topic, which has so many ``partitions``, and wait until no running broker leads any.

        It is in force only then: until a leader learns of the deletion, it acknowledges messages.
        `create_topic` may create it again. In ZooKeeper mode that must wait until all of its brokers run.
        """

        def ask() -> None:
            answer = delete_topic(self._controller(), topic, dialect=self._dialect)
            self._check(f"deletion of {topic}", [answer], effect_shows=True)
            self._registry.deleted_topics.add(topic)

        def led_by() -> dict[str, list[TopicPartition]]:
            return {
                broker.name: [key for key, state in self._stated(broker, topic).items() if state.leader >= 0]
                for broker in self._registry.topology.role("broker")
                if self._registry.lab.alive(broker.name)
            }

        return self.act(
            f"delete {topic}",
            mechanism="delete_topic",
            targets={"partitions": [f"{topic}/{number}" for number in range(partitions)]},
            action=ask,
            observe=led_by,
            accept=lambda leaders: not any(leaders.values()),
            within_s=within_s,
            in_force="effective",
        )

    def create_topic(self, topic: Topic, *, within_s: float = 30.0) -> Injection:
        """Create a topic again that `delete_topic` has deleted, and wait until each partition has a leader.

        Raises UsageError for another topic: the history follows the topics of the set-up.
        """
        if topic.name not in self._registry.deleted_topics:
            raise UsageError(f"The topic {topic.name!r} was not deleted; `create_topic` creates it again.")

        def ask() -> None:
            answers = create_topics(self._controller(), [topic], dialect=self._dialect)
            self._check(f"creation of {topic.name}", answers.values(), effect_shows=True)
            self._registry.deleted_topics.discard(topic.name)

        def states() -> list[PartitionState | None]:
            return [self._cluster.partition(*key) for key in topic.topic_partitions]

        return self.act(
            f"create {topic.name}",
            mechanism="create_topic",
            targets={"partitions": [f"{key.topic}/{key.partition}" for key in topic.topic_partitions]},
            action=ask,
            observe=states,
            accept=lambda seen: all(state is not None and state.leader >= 0 for state in seen),
            within_s=within_s,
        )

    def delete_controller(self, session: ZooKeeperSession, *, becomes: str = "") -> Injection:
        """Delete `/controller` so that the brokers race for it; with ``becomes``, until that host wins."""
        wanted = self._registry.topology.host(becomes).node_id if becomes else None
        first = session.controller_epoch()

        def race() -> None:
            for _ in range(_CONTROLLER_TRIES):
                epoch = session.controller_epoch()
                self._wait_for_watches(session, "/controller")
                session.delete_controller()
                wait_until(
                    lambda epoch=epoch: session.controller_epoch() > epoch,  # type: ignore[misc]
                    within_s=_EFFECT_WITHIN_S,
                    awaiting="another controller epoch",
                    poll_s=0.01,
                )
                if wanted in (None, self._cluster.controller()):
                    return
            raise InvalidRunError(f"{becomes} did not become controller in {_CONTROLLER_TRIES} races.")

        name = f"make {becomes} controller" if becomes else "delete /controller"
        return self.act(
            name,
            mechanism="move_controller",
            targets={"hosts": [becomes] if becomes else [], "znodes": ["/controller"]},
            action=race,
            observe=lambda: (session.controller_epoch(), self._cluster.controller()),
            accept=lambda seen: seen[0] > first and seen[1] is not None and wanted in (None, seen[1]),
        )

    def _wait_for_watches(self, session: ZooKeeperSession, path: str) -> None:
        """Wait until every registered broker watches a znode: a broker misses a deletion without a watch.

        A broker watches a znode again only after it has handled the znode's creation, and the new controller
        only after it has taken over. The harness's own sessions have watches too.
        """
        nodes = [node.zookeeper_address for node in self._registry.topology.role("zookeeper")]
        wait_until(
            lambda: frozenset().union(*(watchers(node, path) for node in nodes)),
            accept=lambda watching: session.broker_sessions() <= watching,
            within_s=_EFFECT_WITHIN_S,
            awaiting=f"every registered broker to watch {path}",
            poll_s=0.05,
        )

    def _controller(self) -> Address:
        """Address for operator requests: the controller, or on KRaft any broker that runs."""
        number = first_answer(self._cluster.controller, "a controller")
        if number is None:
            raise InvalidRunError("There is no controller that could take an operator request.")
        brokers = [b for b in self._registry.topology.role("broker") if self._registry.lab.alive(b.name)]
        chosen = [b for b in brokers if b.node_id == number] or brokers
        if not chosen or (self._cluster.mode == "zookeeper" and chosen[0].node_id != number):
            raise InvalidRunError(
                f"The controller, broker {number}, does not run, so it cannot take a request."
            )
        return chosen[0].broker_address

    def _leader(self, key: TopicPartition) -> Address:
        """Address of a partition's leader."""
        state = first_answer(lambda: self._cluster.partition(*key), f"the leader of {key}")
        if state is None or state.leader < 0:
            raise InvalidRunError(f"{key} has no leader that could take an operator request.")
        return self._registry.topology.host(broker_name(state.leader)).broker_address

    def _stated(self, broker: Host, topic: str) -> Mapping[TopicPartition, PartitionState]:
        """The partitions of a topic, as a broker states them; none if it does not know the topic."""
        stated = metadata(broker.broker_address, [topic], dialect=self._dialect, timeout_s=5.0)
        return stated.partitions

    def _observe(self, topic: str, partition: int) -> Callable[[], PartitionState | None]:
        return lambda: self._cluster.partition(topic, partition)

    def _check(self, what: str, outcomes: Iterable[RequestResult], *, effect_shows: bool) -> None:
        """Raise InvalidRunError for a refusal.

        A time-out is none if the effect shows whether the controller acted: then the effect decides.
        """
        accepted = (0, ELECTION_NOT_NEEDED, *((REQUEST_TIMED_OUT,) if effect_shows else ()))
        for outcome in outcomes:
            if outcome.error not in accepted:
                refusal = f"The {what} was refused with Kafka's error {outcome.error} {outcome.message}"
                raise InvalidRunError(f"{refusal.rstrip(' .')}.")
