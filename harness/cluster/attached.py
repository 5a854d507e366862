"""A cluster that somebody else runs: known by what its brokers tell clients, changed only in acked's topics.

Only requests of `ALLOWED` are sent to it, none of them with the id of a replica.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    ListGroupsRequest,
)
from kafka.protocol.admin.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.consumer import FetchRequest, HeartbeatRequest, ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest
from kafka.protocol.producer.transaction import AddPartitionsToTxnRequest, InitProducerIdRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from harness.errors import AckedError, UnfitError, UsageError, WaitTimeoutError, quoted
from harness.kafka.model import (
    INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR,
    POLICY_VIOLATION,
    Endpoint,
    PartitionState,
    Topic,
    TopicPartition,
    broker_name,
)
from harness.kafka.security import ClientSecurity
from harness.kafka.wire.admin import (
    RequestResult,
    create_topics,
    delete_topic,
    delete_topic_by_id,
    describe_configs,
)
from harness.kafka.wire.connection import NoAnswerError, NotSentError, RefusedError, only
from harness.kafka.wire.dialect import Dialect, common, spoken
from harness.kafka.wire.group_offsets import delete_group
from harness.kafka.wire.metadata import (
    AdvertisedBroker,
    AdvertisedCluster,
    advertised_cluster,
    api_versions,
    finalized_features,
    metadata,
    topic_ids,
)
from harness.kafka.wire.transactions import RETRIABLE, find_coordinator
from harness.lab.here import HERE
from harness.lab.model import Host, Topology
from harness.waiting import wait_until

ALLOWED = (
    *(SaslHandshakeRequest, SaslAuthenticateRequest),
    *(ApiVersionsRequest, MetadataRequest, FetchRequest, ListOffsetsRequest),
    *(DescribeConfigsRequest, DescribeQuorumRequest, CreateTopicsRequest, DeleteTopicsRequest),
    InitProducerIdRequest,
)
"""What acked's own requests to such a cluster may be; clients of the official libraries send theirs."""
CLEANING = (*ALLOWED, FindCoordinatorRequest, DeleteGroupsRequest)
"""What they may be while topics and groups of killed recordings are removed."""
TRANSACTIONAL = (
    *CLEANING,
    *(AddPartitionsToTxnRequest, HeartbeatRequest),
    *(DescribeProducersRequest, ListTransactionsRequest, DescribeTransactionsRequest),
)
"""What they may be for a recording with transactions, and to ask for the rights that it needs."""
_CHANGING = (CreateTopicsRequest, DeleteTopicsRequest, InitProducerIdRequest)
READING = (*(one for one in ALLOWED if one not in _CHANGING), ListGroupsRequest, OffsetFetchRequest)
"""What they may be while a topic of others is only watched."""
PREFIX = "acked-"
"""How the names of the topics begin that acked may create and delete there."""
_ANSWER_S = 3.0
"""How long a broker has for an answer, its connection included."""
_ATTEMPTS = 4
_NEWS_S = 30.0
"""How long the news of a new or deleted topic may take to reach every broker."""
_GROUP_S = 10.0
"""How long the last member of a group may take to leave it."""
_NO_RACK = "no rack"
"""The AZ of brokers without broker.rack."""
_NON_EMPTY_GROUP = 68
_DESCRIBE_QUORUM = 55
_NOT_CONTROLLER = 41
_UNKNOWN_TOPIC_ID = 100
_REFUSED: Mapping[int, str] = {
    29: "the user lacks the right; grant CREATE on topics that begin with acked-",
    INVALID_PARTITIONS: "the number of partitions is refused; choose another with --partitions",
    INVALID_REPLICATION_FACTOR: "the replication factor is refused; choose another with --replication-factor",
    POLICY_VIOLATION: "a policy of the cluster refuses it",
}
"""Answers to CreateTopics, by Kafka's error code, for a person."""

T = TypeVar("T")


class SilentClusterError(UsageError):
    """No broker can be reached, and none has refused: all of them may be down for a while."""


class AttachedCluster:
    """Satisfies `Cluster`."""

    poll_s = 0.2

    def __init__(self, *, topology: Topology, dialect: Dialect, mode: str, cluster_id: str) -> None:
        """Use `attach`."""
        self.topology = topology
        self.dialect = dialect
        self.mode = mode
        self.cluster_id = cluster_id

    @property
    def brokers(self) -> tuple[Host, ...]:
        """All brokers that the cluster had when acked came."""
        return self.topology.role("broker")

    @property
    def listeners(self) -> tuple[AdvertisedBroker, ...]:
        """Where clients reach them, and their racks."""
        racks = {az: "" if name == _NO_RACK else name for az, name in self.topology.az_names.items()}
        return tuple(
            AdvertisedBroker(
                node_id=host.node_id,
                host=host.address,
                port=host.broker_endpoint.port,
                rack=racks[host.az],
            )
            for host in self.brokers
        )

    def create_topics(self, topics: tuple[Topic, ...]) -> None:
        """Create topics of acked's own, and wait until every broker that answers knows their leaders.

        Raises UsageError with the cluster's reason if it refuses.
        """
        for topic in topics:
            if not topic.name.startswith(PREFIX):
                raise ValueError(f"{topic.name!r} does not begin with {PREFIX}")
        answers = self._as_operator(lambda target: create_topics(target, topics, dialect=self.dialect))
        for name, answer in answers.items():
            if answer.error:
                why = _REFUSED.get(answer.error) or "see Kafka's list of error codes"
                raise UsageError(
                    f"The cluster refuses to create the topic {name}: {answer.message or 'without a reason'} "
                    f"(Kafka error {answer.error}): {why}."
                )
        keys = [key for topic in topics for key in topic.topic_partitions]
        names = [topic.name for topic in topics]

        def all_know() -> bool:
            stated = list(self._each(lambda target: metadata(target, names, dialect=self.dialect)))
            return bool(stated) and all(
                (state := one.partitions.get(key)) is not None and state.leader >= 0
                for one in stated
                for key in keys
            )

        wait_until(
            all_know,
            within_s=_NEWS_S,
            poll_s=self.poll_s,
            awaiting=f"every broker to know the leaders of {', '.join(names)}",
        )

    def topic_ids(self, topics: Sequence[str] | None = None) -> dict[str, UUID | None]:
        """Those of these topics (None: of all) that exist; None for the id before Kafka 2.8.

        Raises UsageError if one may not be described.
        """
        try:
            return self._first(lambda target: topic_ids(target, topics))
        except LookupError as error:
            raise UsageError(
                f"The cluster does not describe {error}; grant DESCRIBE on topics that begin with {PREFIX}."
            ) from None

    def delete(self, topic: str, topic_id: UUID | None) -> None:
        """Delete a topic of acked's own, by its id where it has one; one that is gone is no error.

        Raises UsageError if the cluster refuses, WaitTimeoutError if it does not happen.
        """
        if not topic.startswith(PREFIX):
            raise ValueError(f"{topic!r} does not begin with {PREFIX}")

        def ask(target: Endpoint) -> RequestResult:
            if topic_id is not None:
                return delete_topic_by_id(target, topic_id)
            return delete_topic(target, topic, dialect=self.dialect)

        if topic in self.topic_ids([topic]):
            answer = self._as_operator(lambda target: {topic: ask(target)})[topic]
            if answer.error == _UNKNOWN_TOPIC_ID:
                return  # somebody has deleted it, and another topic has its name
            if answer.error not in (0, 3, 7):
                raise UsageError(
                    f"The cluster refuses to delete the topic {topic} (Kafka error {answer.error}); grant "
                    f"DELETE on topics that begin with {PREFIX}, or delete it yourself."
                )
        wait_until(
            lambda: topic not in self.topic_ids([topic]),
            within_s=_NEWS_S,
            poll_s=self.poll_s,
            awaiting=f"the topic {topic} to be gone",
        )

    def api_versions(self) -> dict[str, Mapping[int, tuple[int, int]]]:
        """By the name of each broker that answers, the versions of requests that it states."""
        answers = self._all(lambda target: api_versions(target, _ANSWER_S))
        return {host.name: ranges for host, ranges in answers}

    def delete_group(self, group: str) -> None:
        """Delete a group of acked's own; what may not be deleted stays, and expires without its topics."""
        if not group.startswith(PREFIX):
            raise ValueError(f"{group!r} does not begin with {PREFIX}")

        def gone() -> bool:
            error, broker = find_coordinator(self.any_endpoint(), group, group=True)
            if error:
                return error not in RETRIABLE
            coordinator = self.topology.host(broker_name(broker)).broker_endpoint
            return delete_group(coordinator, group) not in (*RETRIABLE, _NON_EMPTY_GROUP)

        with suppress(WaitTimeoutError):
            wait_until(gone, within_s=_GROUP_S, poll_s=self.poll_s, awaiting=f"the group {group} to be gone")

    def any_endpoint(self) -> Endpoint:
        """A broker that answers. Raises OSError if none does."""
        for name in self.api_versions():
            return self.topology.host(name).broker_endpoint
        raise ConnectionError("no broker answers")

    def broker_config(self, host: Host) -> dict[str, str]:
        """A broker's configuration, without values for what it keeps to itself.

        Raises LookupError if it is not told, OSError if the broker does not answer.
        """
        stated = describe_configs(host.broker_endpoint, "broker", str(host.node_id), dialect=self.dialect)
        return {key: value or "" for key, value in stated.items()}

    def registered(self) -> frozenset[int] | None:
        """Node ids of the live brokers, as the first broker that answers states them."""
        try:
            return frozenset(self._first(lambda target: metadata(target, (), dialect=self.dialect)).brokers)
        except OSError:
            return None

    def controller(self) -> int | None:
        """Node id of the controller in ZooKeeper mode; on KRaft clients are not told."""
        if self.mode != "zookeeper":
            return None
        try:
            return self._first(lambda target: metadata(target, (), dialect=self.dialect)).controller
        except OSError:
            return None

    def operator_host(self) -> str:
        """The controller; on KRaft, a broker that answers."""
        described = self._first(lambda target: advertised_cluster(target, dialect=self.dialect))
        return broker_name(described.controller)

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """A partition as the brokers state it: of the newest leader epoch, and in it as the leader does."""
        key = TopicPartition(topic, partition)
        return self.partitions([key]).get(key)

    def partitions(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """Partitions as the brokers state them, each as in `partition`, with one request to each broker."""
        wanted = set(keys)
        topics = sorted({key.topic for key in wanted})
        newest: dict[TopicPartition, tuple[tuple[int, bool], PartitionState]] = {}
        for one, answer in self._all(lambda target: metadata(target, topics, dialect=self.dialect)):
            for key, state in answer.partitions.items():
                rank = state.leader_epoch or 0, one.node_id == state.leader
                if key in wanted and (key not in newest or rank > newest[key][0]):
                    newest[key] = rank, state
        return {key: state for key, (_, state) in newest.items()}

    def roles(self) -> Mapping[str, str]:
        """The controller, where clients are told."""
        controller = self.controller()
        return {} if controller is None else {"controller": broker_name(controller)}

    def features(self) -> dict[str, int]:
        """Levels of its finalized features; none with ZooKeeper, or if no broker tells."""
        if self.mode == "zookeeper":
            return {}
        try:
            return self._first(lambda target: finalized_features(target, _ANSWER_S))
        except OSError:
            return {}

    def check_alive(self) -> None:
        """Do nothing: who has not started the processes cannot tell whether they should run."""

    def close(self) -> None:
        """Do nothing: every query closes its own connection."""

    def _as_operator(
        self, ask: Callable[[Endpoint], Mapping[str, RequestResult]]
    ) -> Mapping[str, RequestResult]:
        """Send a request to the controller; with KRaft, to any broker."""

        def answered() -> Mapping[str, RequestResult] | None:
            host = self.topology.host(self.operator_host())
            answers = ask(host.broker_endpoint)
            moved = any(one.error == _NOT_CONTROLLER for one in answers.values())
            return None if moved else answers

        answers = wait_until(
            answered,
            accept=lambda answers: answers is not None,
            within_s=_NEWS_S,
            poll_s=self.poll_s,
            awaiting="the controller to carry out a request",
        )
        assert answers is not None
        return answers

    def _first(self, ask: Callable[[Endpoint], T]) -> T:
        """The answer of the first broker that gives one. Raises OSError if none does."""
        for _, answer in self._all(ask):
            return answer
        raise ConnectionError("no broker answers")

    def _each(self, ask: Callable[[Endpoint], T]) -> Iterator[T]:
        return (answer for _, answer in self._all(ask))

    def _all(self, ask: Callable[[Endpoint], T]) -> list[tuple[Host, T]]:
        """What each broker answers, asked at the same time; silent ones are left out."""

        def one(host: Host) -> tuple[Host, T] | None:
            try:
                return host, ask(host.broker_endpoint)
            except OSError:
                return None

        with ThreadPoolExecutor(len(self.brokers)) as pool:
            return [answer for answer in pool.map(one, self.brokers) if answer is not None]


@contextmanager
def guarded(requests: Collection[type] = ALLOWED) -> Iterator[None]:
    """Meanwhile this process sends only these requests."""
    with only(requests):
        yield


def bootstrap_endpoints(bootstrap: str, security: ClientSecurity) -> list[Endpoint]:
    """The listeners of `--bootstrap host:port,host:port`. Raises UsageError."""
    endpoints = []
    for text in filter(None, (part.strip() for part in bootstrap.split(","))):
        try:
            endpoint = replace(Endpoint.parse(text), security=security)
        except ValueError:
            endpoint = Endpoint("", 0)
        if not endpoint.host or not 0 < endpoint.port < 65536:
            raise UsageError(f"bootstrap {quoted(text)}: give host:port, such as kafka1.example.org:9092.")
        endpoints.append(endpoint)
    if not endpoints:
        raise UsageError("Name the cluster with --bootstrap host:port,host:port.")
    return endpoints


def attach(bootstrap: Sequence[Endpoint], known: Iterable[AdvertisedBroker] = ()) -> AttachedCluster:
    """The cluster behind some of its listeners, with brokers that are ``known`` and may be down now.

    Raises UsageError, with the reason, if none answers; SilentClusterError if none can be reached.
    """
    described, dialect, ranges = _described(bootstrap)
    there = {broker.node_id for broker in described.brokers}
    brokers = (*described.brokers, *(one for one in known if one.node_id not in there))
    topology = topology_of(replace(described, brokers=brokers), bootstrap[0])
    cluster = AttachedCluster(
        topology=topology,
        dialect=dialect,
        mode="kraft" if _DESCRIBE_QUORUM in ranges else "zookeeper",
        cluster_id=described.cluster_id,
    )
    # More than once: on a busy machine, TLS and SASL with all brokers at the same time may take too long.
    attempts = (cluster.api_versions() for _ in range(_ATTEMPTS))
    stated = next(filter(None, attempts), None)
    if stated is None:
        named = ", ".join(f"{one.host}:{one.port}" for one in described.brokers[:3])
        raise UsageError(
            f"bootstrap {bootstrap[0]} answers, but names its brokers as {named}, and none of them answers "
            f"there; name a listener whose advertised.listeners this machine reaches."
        )
    cluster.dialect = spoken(common(stated.values()))
    return cluster


def _described(
    bootstrap: Sequence[Endpoint],
) -> tuple[AdvertisedCluster, Dialect, Mapping[int, tuple[int, int]]]:
    why = ""
    kind: type[UsageError] = SilentClusterError
    for endpoint in bootstrap:
        try:
            ranges = api_versions(endpoint, _ANSWER_S)
            dialect = spoken(ranges)
            return advertised_cluster(endpoint, dialect=dialect, timeout_s=_ANSWER_S), dialect, ranges
        except AckedError:
            raise
        except (OSError, ValueError, LookupError) as error:
            why = why or str(error) or type(error).__name__
            kind = kind if _is_silence(error) else UsageError
    raise kind(
        f"bootstrap {','.join(map(str, bootstrap))}: no broker answers ({why}); name host:port of a "
        f"listener that this machine reaches, and its security in client-config."
    )


def _is_silence(error: Exception) -> bool:
    """Whether the other side may be down, and has not answered anything."""
    if isinstance(error, NoAnswerError):
        return isinstance(error.__cause__, (TimeoutError, ConnectionResetError))
    return isinstance(error, NotSentError) and not isinstance(error, RefusedError)


def topology_of(described: AdvertisedCluster, reached: Endpoint) -> Topology:
    """The brokers by rack, and this machine: a rack is an AZ, and so is `HERE`.

    Listeners have the security of the one that was ``reached``. Raises UnfitError without any broker.
    """
    if not described.brokers:
        raise UnfitError(f"{reached} names no broker of its cluster; is one of them running?")
    racks = sorted({broker.rack for broker in described.brokers})
    azs = {rack: f"az{number}" for number, rack in enumerate(racks, start=1)}
    hosts = [
        Host(
            name=broker_name(broker.node_id),
            role="broker",
            az=azs[broker.rack],
            address=broker.host,
            node_id=broker.node_id,
            services={"kafka": (broker.port,)},
            security=reached.security,
        )
        for broker in described.brokers
    ]
    client = Host(name=HERE, role="client", az=HERE, address="", node_id=0)
    names = {az: rack or _NO_RACK for rack, az in azs.items()}
    return Topology((*hosts, client), "", {**names, HERE: HERE})


def spread_over_azs(hosts: Sequence[Host], *, partitions: int, factor: int) -> tuple[tuple[int, ...], ...]:
    """The replicas of each partition: in turn each AZ leads, and each partition is in as many AZs as it can.

    ``factor`` is at most the number of brokers.
    """
    by_az: dict[str, list[int]] = {}
    for host in sorted(hosts, key=lambda one: (one.az, one.node_id)):
        by_az.setdefault(host.az, []).append(host.node_id)
    azs = list(by_az.values())
    turns = max(map(len, azs))
    placed = []
    for number in range(partitions):
        first, round_ = number % len(azs), number // len(azs)
        order = [
            az[(turn + round_) % len(az)]
            for turn in range(turns)
            for az in (*azs[first:], *azs[:first])
            if turn < len(az)
        ]
        placed.append(tuple(order[:factor]))
    return tuple(placed)
