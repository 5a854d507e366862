"""What a user may do on a cluster, found out without a message or a topic: each right, and what it is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)

from harness.cluster.attached import PREFIX, AttachedCluster
from harness.errors import UnfitError
from harness.kafka.model import (
    INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR,
    OFFSET_OUT_OF_RANGE,
    POLICY_VIOLATION,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
    Endpoint,
    ProducerIdentity,
    TopicPartition,
)
from harness.kafka.wire.connection import Connection, NoAnswerError, exchange
from harness.kafka.wire.group_offsets import may_read_group
from harness.kafka.wire.logs import fetch_as_consumer, fetch_own_log
from harness.kafka.wire.metadata import metadata
from harness.kafka.wire.offsets import end_offsets
from harness.kafka.wire.quorum import describe_quorum
from harness.kafka.wire.rights import authorized_operations
from harness.kafka.wire.transactions import COORDINATOR_LOAD_IN_PROGRESS, add_partition, init_producer_id

Presence = Literal["yes", "no", "not tried"]
_NOT_AUTHORISED = (29, 30, 31)
"""Kafka's errors for a topic, a group or the cluster that a user may not use."""
_NOT_THERE = (UNKNOWN_TOPIC_OR_PARTITION, 5, 9, 29, 56, 100, 103)
"""Kafka's errors for a replica that is not there, or not yet, or may not be read by anybody like the user."""
_NOT_AUTHORISED_FOR_TRANSACTIONS = (53,)
"""Kafka's error for a transactional id that a user may not use; 29 is about the topic, which is no matter."""
_TRIED = f"{PREFIX}preflight"
"""The name of a topic that does not exist."""
_AFTER_THE_RIGHT = (
    *(0, UNKNOWN_TOPIC_OR_PARTITION, COORDINATOR_LOAD_IN_PROGRESS),
    *(TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, POLICY_VIOLATION),
)
"""Answers of a broker that has found the right: it looks for it before it looks at what is asked for."""
_WAIT_MS = 5000


@dataclass(frozen=True, kw_only=True)
class Right:
    """One right or feature; becomes a row of the table."""

    name: str
    """As Kafka's documentation calls it."""
    on: str
    """The resource."""
    presence: Presence
    lost: str
    """Which proof a recording lacks without it."""
    why: str = ""
    """What the cluster answered, if it is not there or was not tried."""
    needed: bool = False
    """Nothing can be recorded without it."""


def preflight(cluster: AttachedCluster, topic: str = "", *, transactions: bool | None = None) -> list[Right]:
    """Try each right and feature on the cluster, for a recording in ``topic``. Writes to no topic.

    Empty ``topic``: one whose name nobody has chosen yet. ``transactions`` says whether what they need is
    needed; None: it is left out.
    """
    name, on = topic or _TRIED, f"the topic {topic}" if topic else f"topics {PREFIX}*"
    return [
        _asked(cluster, partial(_create, name), "CREATE", on, "nothing can be recorded", needed=True),
        *_stated(cluster, name, on),
        idempotence(cluster),
        _replica_logs(cluster),
        _asked(
            cluster,
            partial(_configs_of_topic, name),
            "DESCRIBE_CONFIGS",
            on,
            "min.insync.replicas and unclean.leader.election.enable are not known, so whether a loss breaks "
            "a promise is unknown",
        ),
        _asked(
            cluster,
            _configs_of_broker,
            "DESCRIBE_CONFIGS",
            "the cluster",
            "settings of brokers, such as replica.lag.time.max.ms, are not known",
        ),
        *_quorum(cluster),
        *(_for_transactions(cluster, name, needed=transactions) if transactions is not None else ()),
    ]


def _for_transactions(cluster: AttachedCluster, name: str, *, needed: bool) -> Iterator[Right]:
    """Rights of `--transactions`, found out by requests of a producer and a member that do not exist."""

    def write(_cluster: AttachedCluster, endpoint: Endpoint) -> int:
        nobody = ProducerIdentity(0, 0)
        error = add_partition(endpoint, name, nobody, TopicPartition(name, 0))
        return error if error in _NOT_AUTHORISED_FOR_TRANSACTIONS else 0

    def read(_cluster: AttachedCluster, endpoint: Endpoint) -> int:
        error = may_read_group(endpoint, name)
        return error if error in _NOT_AUTHORISED else 0

    lost = "transactions and a group (--transactions) cannot be recorded"
    yield _asked(cluster, write, "WRITE", f"transactional ids {PREFIX}*", lost, needed=needed)
    yield _asked(cluster, read, "READ", f"groups {PREFIX}*", lost, needed=needed)


def idempotence(cluster: AttachedCluster) -> Right:
    """Whether producers may be idempotent, which any broker tells with a new producer id.

    Before Kafka 3.0 that is a right of its own; later, whoever may write to a topic has it (KIP-679).
    """

    def ask(_cluster: AttachedCluster, endpoint: Endpoint) -> int:
        if not cluster.dialect.idempotence:
            raise UnfitError("the brokers are older than Kafka 0.11")
        return init_producer_id(endpoint, "", 0).error

    return _asked(
        cluster,
        ask,
        "IDEMPOTENT_WRITE",
        "the cluster",
        "producers are not idempotent, so that a retry may write a message twice",
    )


def _stated(cluster: AttachedCluster, topic: str, on: str) -> Iterator[Right]:
    """Rights that brokers state, so that nothing has to be read, written or deleted to know them."""
    operations, why = None, "no broker answers"
    for host in cluster.brokers:
        try:
            operations = authorized_operations(host.broker_endpoint, topic, dialect=cluster.dialect)
        except OSError as failure:
            why = str(failure)
            continue
        why = "the brokers do not tell; a recording tries it on its own topic"
        break
    for operation, lost, needed in (
        ("read", "nothing can be compared with what was acknowledged", True),
        ("write", "nothing can be recorded", True),
        ("delete", "you remove the topic yourself", False),
    ):
        name = operation.upper()
        if operations is not None:
            presence: Presence = "yes" if operation in operations else "no"
            reason = "" if presence == "yes" else "the brokers state that it is missing"
            yield Right(name=name, on=on, presence=presence, why=reason, lost=lost, needed=needed)
        elif operation == "read":
            yield _asked(cluster, partial(_read, topic), name, on, lost, needed=needed)
        else:
            yield Right(name=name, on=on, presence="not tried", why=why, lost=lost, needed=needed)


Ask = Callable[[AttachedCluster, Endpoint], int]
"""Sends a request; returns Kafka's error code."""


def _asked(
    cluster: AttachedCluster, ask: Ask, name: str, on: str, lost: str, *, needed: bool = False
) -> Right:
    presence, why = _answer(cluster, ask)
    return Right(name=name, on=on, presence=presence, why=why, lost=lost, needed=needed)


def _answer(cluster: AttachedCluster, ask: Ask) -> tuple[Presence, str]:
    """What the first broker says that has looked for the right."""
    silent = "no broker answers"
    for host in cluster.brokers:
        try:
            error = ask(cluster, host.broker_endpoint)
        except OSError as failure:
            silent = str(failure)
            continue
        except UnfitError as failure:
            return "no", failure.message
        if error in (*_NOT_AUTHORISED, *_NOT_AUTHORISED_FOR_TRANSACTIONS):
            return "no", f"Kafka error {error}: not authorized"
        if error in _AFTER_THE_RIGHT:
            return "yes", ""
        silent = f"Kafka error {error}"
    return "not tried", silent


def _create(name: str, cluster: AttachedCluster, _endpoint: Endpoint) -> int:
    """A request that the controller only validates."""
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_WAIT_MS, validate_only=True)
    controller = cluster.topology.host(cluster.operator_host()).broker_endpoint
    version = cluster.dialect.create_topics
    answer = exchange(controller, request, CreateTopicsResponse, version, _WAIT_MS / 1000 + 2)
    return int(answer.topics[0].error_code)


def _read(topic: str, cluster: AttachedCluster, endpoint: Endpoint) -> int:
    return fetch_as_consumer(endpoint, topic, 0, dialect=cluster.dialect).error


def _configs_of_topic(topic: str, cluster: AttachedCluster, endpoint: Endpoint) -> int:
    return _describe(cluster, endpoint, 2, topic)


def _configs_of_broker(cluster: AttachedCluster, endpoint: Endpoint) -> int:
    return _describe(cluster, endpoint, 4, str(endpoint.node_id))


def _describe(cluster: AttachedCluster, endpoint: Endpoint, kind: int, name: str) -> int:
    version = cluster.dialect.describe_configs
    if version is None:
        raise UnfitError("the brokers do not know the request")
    asked: Any = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=False, include_documentation=False)
    answer = exchange(endpoint, request, DescribeConfigsResponse, version)
    return int(answer.results[0].error_code)


def _quorum(cluster: AttachedCluster) -> Iterator[Right]:
    if cluster.mode == "zookeeper":
        return
    presence, why = _answer(cluster, lambda _cluster, endpoint: describe_quorum(endpoint).error)
    yield Right(
        name="DESCRIBE",
        on="the cluster",
        presence=presence,
        why=why,
        lost="the active controller is not known",
    )


def _replica_logs(cluster: AttachedCluster) -> Right:
    """Whether a follower shows its log; needs a topic that exists, which is only read."""
    presence, why = _follower_shows_its_log(cluster)
    return Right(
        name="FETCH of a replica's own log",
        on="followers",
        presence=presence,
        why=why,
        lost="followers' logs stay unseen: a loss is known as “not on the leader” only, and no truncation is "
        "seen when it happens",
    )


def _follower_shows_its_log(cluster: AttachedCluster) -> tuple[Presence, str]:
    if not cluster.dialect.own_log_by_fetch:
        return "no", "the brokers are older than Kafka 1.1"
    by_id = {host.node_id: host.broker_endpoint for host in cluster.brokers}
    try:
        described = metadata(cluster.any_endpoint(), None, dialect=cluster.dialect)
    except OSError as failure:
        return "not tried", str(failure)
    why = "the user sees no topic to read; a recording tries it on its own topic"
    for key, state in sorted(described.partitions.items(), key=lambda one: one[0].topic.startswith("__")):
        for follower in state.isr:
            if follower == state.leader or follower not in by_id:
                continue
            presence, why = shows_its_log(cluster, by_id[follower], key)
            if presence != "not tried":
                return presence, why
            break
    return "not tried", why


def shows_its_log(cluster: AttachedCluster, broker: Endpoint, key: TopicPartition) -> tuple[Presence, str]:
    """Whether a broker shows its replica and the replica's end to the debugging consumer, and why not.

    FETCH has the replica id -3, and ListOffsets -2. Only Kafka's own brokers are known to answer both.
    """
    try:
        with Connection(broker) as connection:
            error = fetch_own_log(connection, *key, max_bytes=1, dialect=cluster.dialect).error
            if error in (0, OFFSET_OUT_OF_RANGE):
                error = end_offsets(connection, [key], dialect=cluster.dialect)[key].error
    except NoAnswerError as failure:
        if isinstance(failure.__cause__, TimeoutError):
            return "not tried", str(failure)
        return "no", "brokers end the connection when they are asked with the debugging replica id"
    except OSError as failure:
        return "not tried", str(failure)
    if error == 0:
        return "yes", ""
    if error in _NOT_THERE:
        return "not tried", f"Kafka error {error} for {key}"
    return "no", f"brokers refuse the debugging replica id (Kafka error {error})"
