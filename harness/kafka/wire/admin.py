"""Operator requests, each sent once to one broker: topics, elections, reassignments, configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

from harness.errors import UnfitError
from harness.kafka.model import Topic, TopicPartition
from harness.kafka.wire.connection import Target, exchange
from harness.kafka.wire.dialect import MODERN, Dialect

_UPGRADE, _SAFE_DOWNGRADE = 1, 2
"""Types of an update of a feature."""
_OF_TOPIC, _OF_GROUP = 2, 32
"""Types of what has a configuration."""
_DELETE_BY_ID = 6
"""The version of DeleteTopics from which on it takes the ids of topics."""


@dataclass(frozen=True)
class RequestResult:
    """Result of an operator request: Kafka's error code (0 is success) and its message."""

    error: int
    message: str = ""


@dataclass(frozen=True)
class Reassignment:
    """A reassignment that the controller has accepted and not finished (KIP-455)."""

    replicas: tuple[int, ...]
    """The current assignment: the wanted replicas, followed by those to be removed."""
    adding: tuple[int, ...]
    """Replicas that are not all in sync yet."""
    removing: tuple[int, ...]
    """Replicas that will be removed at its end."""

    @property
    def target(self) -> tuple[int, ...]:
        """The assignment at its end."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


def create_topics(
    target: Target,
    topics: Iterable[Topic],
    *,
    wait_ms: int = 10_000,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
) -> dict[str, RequestResult]:
    """Create topics with their explicit assignments; of one without replicas, Kafka chooses them.

    ``target`` must be the controller or a KRaft broker: another one answers 41 (NOT_CONTROLLER).
    """
    topic_class = CreateTopicsRequest.CreatableTopic
    asked = [
        topic_class(
            name=topic.name,
            num_partitions=-1 if topic.assignment[0] else topic.partitions,
            replication_factor=-1,
            assignments=[
                topic_class.CreatableReplicaAssignment(partition_index=i, broker_ids=list(replicas))
                for i, replicas in enumerate(topic.assignment)
                if replicas
            ],
            configs=[
                topic_class.CreatableTopicConfig(name=key, value=value) for key, value in topic.config.items()
            ],
        )
        for topic in topics
    ]
    request = CreateTopicsRequest(topics=asked, timeout_ms=wait_ms, validate_only=False)
    waiting_s = timeout_s or wait_ms / 1000 + 2
    answer = exchange(target, request, CreateTopicsResponse, dialect.create_topics, waiting_s)
    return {topic.name: RequestResult(topic.error_code, topic.error_message or "") for topic in answer.topics}


def create_partitions(
    target: Target, topic: Topic, *, wait_ms: int = 5000, dialect: Dialect = MODERN
) -> RequestResult:
    """Add the partitions that a topic was created without (KIP-195), with their explicit assignments.

    ``target`` must be the controller or a KRaft broker. Raises UnfitError before Kafka 1.0.
    """
    if dialect.create_partitions is None:
        raise UnfitError("This Kafka version adds partitions through ZooKeeper only (before 1.0).")
    topic_class = CreatePartitionsRequest.CreatePartitionsTopic
    added = topic.assignment[topic.partitions - topic.later :]
    asked = topic_class(
        name=topic.name,
        count=topic.partitions,
        assignments=[topic_class.CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in added],
    )
    request = CreatePartitionsRequest(topics=[asked], timeout_ms=wait_ms, validate_only=False)
    version = dialect.create_partitions
    answer = exchange(target, request, CreatePartitionsResponse, version, wait_ms / 1000 + 2)
    return RequestResult(answer.results[0].error_code, answer.results[0].error_message or "")


def delete_topic(
    target: Target, topic: str, *, wait_ms: int = 5000, dialect: Dialect = MODERN
) -> RequestResult:
    """Delete a topic. ``target`` must be the controller or a KRaft broker.

    In ZooKeeper mode the controller deletes it only when all of its brokers run, and answers 7 (time-out) if
    that takes longer than ``wait_ms``.
    """
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=wait_ms)
    answer = exchange(target, request, DeleteTopicsResponse, dialect.delete_topics, wait_ms / 1000 + 2)
    return RequestResult(answer.responses[0].error_code)


def delete_topic_by_id(target: Target, topic_id: UUID, *, wait_ms: int = 5000) -> RequestResult:
    """Delete the topic with this id, and no other one that has its name by now (Kafka 2.8 and later)."""
    state = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic_id)
    request = DeleteTopicsRequest(topics=[state], timeout_ms=wait_ms)
    answer = exchange(target, request, DeleteTopicsResponse, _DELETE_BY_ID, wait_ms / 1000 + 2)
    return RequestResult(answer.responses[0].error_code, answer.responses[0].error_message or "")


def delete_records(
    target: Target, key: TopicPartition, before: int, *, wait_ms: int = 5000, dialect: Dialect = MODERN
) -> RequestResult:
    """Delete a partition's records before an offset. ``target`` must be its leader.

    The leader answers when all replicas that are alive have done it. Raises UnfitError before Kafka 0.11.
    """
    if dialect.delete_records is None:
        raise UnfitError("This Kafka version cannot delete records (before 0.11).")
    topic_class = DeleteRecordsRequest.DeleteRecordsTopic
    asked = topic_class(
        name=key.topic,
        partitions=[topic_class.DeleteRecordsPartition(partition_index=key.partition, offset=before)],
    )
    request = DeleteRecordsRequest(topics=[asked], timeout_ms=wait_ms)
    answer = exchange(target, request, DeleteRecordsResponse, dialect.delete_records, wait_ms / 1000 + 2)
    return RequestResult(answer.topics[0].partitions[0].error_code)


def elect_leaders(
    target: Target,
    partitions: Iterable[TopicPartition],
    kind: Literal["preferred", "unclean"] = "preferred",
    *,
    wait_ms: int = 1000,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
) -> dict[TopicPartition, RequestResult]:
    """Elect the preferred leader, or any live replica. ``target`` must be the controller or a KRaft broker.

    Kafka 2.7.1 sometimes answers only after ``wait_ms`` although it elects at once: keep it short, and
    watch for the leader. Error 84 in the outcome means that the replica leads already.

    Raises UnfitError before Kafka 2.4.
    """
    if dialect.elect_leaders is None:
        raise UnfitError("This Kafka version elects leaders through ZooKeeper only; use the znode.")
    asked = [
        ElectLeadersRequest.TopicPartitions(topic=topic, partitions=numbers)
        for topic, numbers in _by_topic(partitions).items()
    ]
    request = ElectLeadersRequest(
        election_type=0 if kind == "preferred" else 1, topic_partitions=asked, timeout_ms=wait_ms
    )
    waiting_s = timeout_s or wait_ms / 1000 + 2
    answer = exchange(target, request, ElectLeadersResponse, dialect.elect_leaders, waiting_s)
    outcomes = {
        TopicPartition(result.topic, p.partition_id): RequestResult(p.error_code, p.error_message or "")
        for result in answer.replica_election_results
        for p in result.partition_result
    }
    if answer.error_code:
        return {key: RequestResult(answer.error_code) for key in partitions}
    return outcomes


def alter_partition_reassignments(
    target: Target,
    assignment: Mapping[TopicPartition, Sequence[int] | None],
    *,
    wait_ms: int = 5000,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
) -> dict[TopicPartition, RequestResult]:
    """Give partitions new replica lists, or the same in another order; None cancels a move under way.

    ``target`` must be the controller or a KRaft broker. Raises UnfitError before Kafka 2.4.
    """
    if dialect.alter_partition_reassignments is None:
        raise UnfitError("This Kafka version reassigns replicas through ZooKeeper only; use the znode.")
    topic_class = AlterPartitionReassignmentsRequest.ReassignableTopic
    asked = [
        topic_class(
            name=name,
            partitions=[
                topic_class.ReassignablePartition(
                    partition_index=p, replicas=_list(assignment[TopicPartition(name, p)])
                )
                for p in numbers
            ],
        )
        for name, numbers in _by_topic(assignment).items()
    ]
    request = AlterPartitionReassignmentsRequest(timeout_ms=wait_ms, topics=asked)
    version = dialect.alter_partition_reassignments
    waiting_s = timeout_s or wait_ms / 1000 + 2
    answer = exchange(target, request, AlterPartitionReassignmentsResponse, version, waiting_s)
    if answer.error_code:
        return {key: RequestResult(answer.error_code, answer.error_message or "") for key in assignment}
    return {
        TopicPartition(topic.name, p.partition_index): RequestResult(p.error_code, p.error_message or "")
        for topic in answer.responses
        for p in topic.partitions
    }


def list_partition_reassignments(
    target: Target, *, dialect: Dialect = MODERN, timeout_s: float | None = None
) -> dict[TopicPartition, Reassignment]:
    """All reassignments under way. ``target`` must be the controller or a KRaft broker.

    Raises UnfitError before Kafka 2.4, and LookupError with Kafka's error code when it refuses.
    """
    if dialect.alter_partition_reassignments is None:
        raise UnfitError("This Kafka version lists reassignments through ZooKeeper only; use the znode.")
    waiting_s = timeout_s or 2.0
    request = ListPartitionReassignmentsRequest(timeout_ms=int(waiting_s * 1000), topics=None)
    version = dialect.alter_partition_reassignments
    answer = exchange(target, request, ListPartitionReassignmentsResponse, version, waiting_s)
    if answer.error_code:
        raise LookupError(f"Kafka error {answer.error_code} {answer.error_message or ''}".rstrip())
    return {
        TopicPartition(topic.name, p.partition_index): Reassignment(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in answer.topics
        for p in topic.partitions
    }


def alter_replica_log_dir(
    target: Target, key: TopicPartition, path: str, *, dialect: Dialect = MODERN, timeout_s: float = 5.0
) -> RequestResult:
    """Have a broker move its replica to another of its `log.dirs` (KIP-113); it answers at once.

    Raises UnfitError before Kafka 2.0.
    """
    directory = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    topic = directory.AlterReplicaLogDirTopic(name=key.topic, partitions=[key.partition])
    request = AlterReplicaLogDirsRequest(dirs=[directory(path=path, topics=[topic])])
    version = _log_dirs(dialect)
    answer = exchange(target, request, AlterReplicaLogDirsResponse, version, timeout_s)
    return RequestResult(answer.results[0].partitions[0].error_code)


def describe_log_dirs(
    target: Target, key: TopicPartition, *, dialect: Dialect = MODERN, timeout_s: float = 5.0
) -> dict[str, bool]:
    """The directories in which a broker has a replica; true: it is moving to this one.

    Directories that have failed are left out. Raises UnfitError before Kafka 2.0.
    """
    topic = DescribeLogDirsRequest.DescribableLogDirTopic(topic=key.topic, partitions=[key.partition])
    request = DescribeLogDirsRequest(topics=[topic])
    answer = exchange(target, request, DescribeLogDirsResponse, _log_dirs(dialect), timeout_s)
    return {
        result.log_dir: bool(partition.is_future_key)
        for result in answer.results
        for topic in result.topics
        for partition in topic.partitions
        if not result.error_code
    }


def _log_dirs(dialect: Dialect) -> int:
    if dialect.log_dirs is None:
        raise UnfitError("This Kafka version does not tell in which directory a replica is (before 2.0).")
    return dialect.log_dirs


def describe_configs(
    target: Target,
    scope: Literal["broker", "topic"],
    name: str,
    *,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
) -> dict[str, str | None]:
    """Effective configuration of a broker (``name`` is its node id; ask that broker itself) or of a topic.

    Values that Kafka keeps secret are None. Raises UnfitError before Kafka 0.11, and LookupError with
    Kafka's message when it refuses.
    """
    if dialect.describe_configs is None:
        raise UnfitError(
            "This Kafka version has no request for its effective configuration (DescribeConfigs)."
        )
    asked = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=4 if scope == "broker" else 2, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=False, include_documentation=False)
    answer = exchange(target, request, DescribeConfigsResponse, dialect.describe_configs, timeout_s)
    result = answer.results[0]
    if result.error_code:
        raise LookupError(f"{scope} {name!r}: {result.error_message or f'Kafka error {result.error_code}'}")
    return {entry.name: entry.value for entry in result.configs}


def alter_topic_config(
    target: Target,
    topic: str,
    values: Mapping[str, str],
    *,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
) -> RequestResult:
    """Set properties of a topic; its other properties stay.

    ``target`` must be the controller or a KRaft broker.

    Raises UnfitError before Kafka 2.3.
    """
    if dialect.incremental_alter_configs is None:
        raise UnfitError("This Kafka version cannot set single properties of a topic (before 2.3).")
    return _alter_config(target, _OF_TOPIC, topic, values, dialect, timeout_s)


def alter_group_config(
    target: Target,
    group: str,
    values: Mapping[str, str],
    *,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
) -> RequestResult:
    """Set properties of a group, which need not exist yet (KIP-848, KIP-932); its others stay.

    ``target`` may be any broker.
    """
    return _alter_config(target, _OF_GROUP, group, values, dialect, timeout_s)


def _alter_config(
    target: Target,
    kind: int,
    name: str,
    values: Mapping[str, str],
    dialect: Dialect,
    timeout_s: float | None,
) -> RequestResult:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    asked = resource(
        resource_type=kind,
        resource_name=name,
        configs=[
            resource.AlterableConfig(name=key, config_operation=0, value=value)
            for key, value in values.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[asked], validate_only=False)
    version = dialect.incremental_alter_configs or 0
    answer = exchange(target, request, IncrementalAlterConfigsResponse, version, timeout_s)
    response = answer.responses[0]
    return RequestResult(response.error_code, response.error_message or "")


def update_feature(
    target: Target, feature: str, level: int, *, lower: bool = False, timeout_s: float = 10.0
) -> RequestResult:
    """Finalize a feature at a level (KIP-584), on KRaft from Kafka 3.3 on. ``target`` may be any broker.

    ``lower`` allows a lower level if nothing is lost by it.
    """
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature=feature,
        max_version_level=level,
        upgrade_type=_SAFE_DOWNGRADE if lower else _UPGRADE,
    )
    request = UpdateFeaturesRequest(
        timeout_ms=round(timeout_s * 1000), feature_updates=[update], validate_only=False
    )
    answer = exchange(target, request, UpdateFeaturesResponse, 1, timeout_s + 2)
    result = next((one for one in answer.results or () if one.error_code), answer)
    return RequestResult(result.error_code, result.error_message or "")


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


def _list(nodes: Sequence[int] | None) -> list[int] | None:
    return None if nodes is None else list(nodes)
