"""What one broker states about the cluster: Metadata, ApiVersions, and the eligible leader replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kafka.protocol.admin import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

from harness.errors import UnfitError
from harness.kafka.model import UNKNOWN_TOPIC_OR_PARTITION, PartitionState, TopicPartition
from harness.kafka.wire.connection import Question, Target, ask, connected, exchange
from harness.kafka.wire.dialect import MODERN, Dialect

_TOPIC_IDS = 10
"""The version of Metadata from which on it states the ids of topics."""
_LEADER_NOT_AVAILABLE = 5
_NOT_REFUSED = (0, UNKNOWN_TOPIC_OR_PARTITION, _LEADER_NOT_AVAILABLE)


@dataclass(frozen=True)
class BrokerMetadata:
    """The cluster as one broker describes it. On KRaft, ``controller`` is a random live broker."""

    controller: int
    brokers: tuple[int, ...]
    partitions: Mapping[TopicPartition, PartitionState] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AdvertisedBroker:
    """A broker as Metadata names it: where clients reach it, on the listener that was asked."""

    node_id: int
    host: str
    port: int
    rack: str = ""
    """broker.rack; empty if it has none."""


@dataclass(frozen=True, kw_only=True)
class AdvertisedCluster:
    """A cluster as one of its brokers describes it to clients."""

    cluster_id: str
    controller: int
    """Node id of the controller; on KRaft, of a random live broker."""
    brokers: tuple[AdvertisedBroker, ...]


@dataclass(frozen=True)
class EligibleReplicas:
    """A partition with the replicas that may be elected although they are not in the ISR (KIP-966)."""

    state: PartitionState
    eligible: tuple[int, ...]
    last_known_eligible: tuple[int, ...]

    @property
    def candidates(self) -> frozenset[int]:
        """All replicas that a clean election, or one of the last known leader, may elect."""
        return frozenset((*self.state.isr, *self.eligible, *self.last_known_eligible))


def metadata(
    target: Target,
    topics: Iterable[str] | None = None,
    *,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
) -> BrokerMetadata:
    """What this broker states about ``topics`` (None: all). Never creates a topic."""
    names = None if topics is None else tuple(topics)
    has_leader_epoch = dialect.metadata >= 7

    def request() -> Any:
        asked = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        return MetadataRequest(topics=asked, allow_auto_topic_creation=False)

    def stated(answer: Any) -> BrokerMetadata:
        partitions = {
            TopicPartition(topic.name, p.partition_index): PartitionState(
                leader=p.leader_id,
                leader_epoch=p.leader_epoch if has_leader_epoch else None,
                isr=tuple(p.isr_nodes),
                replicas=tuple(p.replica_nodes),
            )
            for topic in answer.topics
            for p in topic.partitions
        }
        brokers = tuple(sorted(broker.node_id for broker in answer.brokers))
        return BrokerMetadata(answer.controller_id, brokers, partitions)

    question = Question(
        key=names, request=request, response=MetadataResponse, version=dialect.metadata, parse=stated
    )
    return ask(target, question, timeout_s)


def advertised_cluster(
    target: Target, *, dialect: Dialect = MODERN, timeout_s: float | None = None
) -> AdvertisedCluster:
    """The cluster's id, and its brokers with addresses and racks; names no topic."""
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    answer = exchange(target, request, MetadataResponse, dialect.metadata, timeout_s)
    return AdvertisedCluster(
        cluster_id=answer.cluster_id or "",
        controller=answer.controller_id,
        brokers=tuple(
            AdvertisedBroker(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack or "")
            for one in sorted(answer.brokers, key=lambda one: int(one.node_id))
        ),
    )


def topic_ids(
    target: Target, topics: Iterable[str] | None = None, *, timeout_s: float | None = None
) -> dict[str, UUID | None]:
    """The topics that exist among these (None: among all), each with its id; None before Kafka 2.8 (KIP-516).

    Raises LookupError with Kafka's error code for a topic that may not be described.
    """
    with connected(target) as connection:
        version = min(_TOPIC_IDS, api_versions(connection, timeout_s)[MetadataRequest.API_KEY][1])
        names = None if topics is None else list(topics)
        asked = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer = connection.call(request, MetadataResponse, version, timeout_s)
    refused = next((one for one in answer.topics if one.error_code not in _NOT_REFUSED), None)
    if refused is not None:
        raise LookupError(f"topic {refused.name!r}: Kafka error {refused.error_code}")
    return {
        topic.name: UUID(str(topic.topic_id)) if version >= _TOPIC_IDS else None
        for topic in answer.topics
        if topic.error_code != UNKNOWN_TOPIC_OR_PARTITION
    }


def api_versions(target: Target, timeout_s: float | None = None) -> dict[int, tuple[int, int]]:
    """Lowest and highest version of each request that the node understands, by API key."""
    answer = exchange(target, ApiVersionsRequest(), ApiVersionsResponse, 0, timeout_s)
    return {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}


def finalized_features(target: Target, timeout_s: float | None = None) -> dict[str, int]:
    """Level of each feature that the cluster has finalized (Kafka 2.8 and later); empty with ZooKeeper."""
    answer = _features(target, timeout_s)
    return {entry.name: entry.max_version_level for entry in answer.finalized_features or ()}


def supported_features(target: Target, timeout_s: float | None = None) -> dict[str, tuple[int, int]]:
    """Lowest and highest level of each feature that the node itself supports (Kafka 2.8 and later)."""
    answer = _features(target, timeout_s)
    return {entry.name: (entry.min_version, entry.max_version) for entry in answer.supported_features or ()}


def _features(target: Target, timeout_s: float | None) -> Any:
    request = ApiVersionsRequest(client_software_name="acked", client_software_version="1")
    return exchange(target, request, ApiVersionsResponse, 3, timeout_s)


def describe_topic_partitions(
    target: Target, topics: Iterable[str], timeout_s: float | None = None
) -> dict[TopicPartition, EligibleReplicas]:
    """Partitions with their eligible leader replicas (Kafka 3.8 and later, brokers only).

    Raises UnfitError for an earlier version, which would close the connection.
    """
    if DescribeTopicPartitionsRequest.API_KEY not in api_versions(target, timeout_s):
        raise UnfitError("This Kafka version does not say which replicas may lead; 3.8 and later do.")
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in sorted(topics)],
        response_partition_limit=2000,
        cursor=None,
    )
    answer = exchange(target, request, DescribeTopicPartitionsResponse, 0, timeout_s)
    return {
        TopicPartition(topic.name, p.partition_index): EligibleReplicas(
            state=PartitionState(
                leader=p.leader_id,
                leader_epoch=p.leader_epoch,
                isr=tuple(p.isr_nodes),
                replicas=tuple(p.replica_nodes),
            ),
            eligible=tuple(p.eligible_leader_replicas or ()),
            last_known_eligible=tuple(p.last_known_elr or ()),
        )
        for topic in answer.topics
        for p in topic.partitions
    }
