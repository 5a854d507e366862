"""What one broker says about the cluster: Metadata, ApiVersions, and the eligible leader replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafka.protocol.admin import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

from harness.kafka.wire.connection import Target, exchange
from harness.kafka.wire.dialect import MODERN, Dialect

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class PartitionView:
    """One partition as one broker describes it; ``leader`` -1 none, ``epoch`` None where not told."""

    topic: str
    partition: int
    leader: int
    epoch: int | None
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    error: int = 0
    eligible: tuple[int, ...] | None = None
    """Eligible leader replicas (KIP-966), from `describe_topic_partitions` alone."""
    last_known_eligible: tuple[int, ...] | None = None


@dataclass(frozen=True)
class BrokerView:
    """The cluster as one broker describes it. With KRaft, ``controller`` is a random live broker."""

    controller: int
    brokers: tuple[int, ...]
    partitions: Mapping[TopicPartition, PartitionView] = field(default_factory=dict)
    topic_errors: Mapping[str, int] = field(default_factory=dict)


def metadata(
    target: Target,
    topics: Iterable[str] | None = None,
    *,
    dialect: Dialect = MODERN,
    timeout_s: float | None = None,
) -> BrokerView:
    """What this broker says about ``topics`` (None: all). Never creates a topic."""
    asked = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    answer = exchange(target, request, MetadataResponse, dialect.metadata, timeout_s)
    tells_epoch = dialect.metadata >= 7
    partitions = {
        (topic.name, p.partition_index): PartitionView(
            topic.name,
            p.partition_index,
            p.leader_id,
            p.leader_epoch if tells_epoch else None,
            tuple(p.isr_nodes),
            tuple(p.replica_nodes),
            p.error_code,
        )
        for topic in answer.topics
        for p in topic.partitions
    }
    return BrokerView(
        answer.controller_id,
        tuple(sorted(broker.node_id for broker in answer.brokers)),
        partitions,
        {topic.name: topic.error_code for topic in answer.topics if topic.error_code},
    )


def api_versions(target: Target, timeout_s: float | None = None) -> dict[int, tuple[int, int]]:
    """Lowest and highest version that the node understands, by API key."""
    answer = exchange(target, ApiVersionsRequest(), ApiVersionsResponse, 0, timeout_s)
    return {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}


def describe_topic_partitions(
    target: Target, topics: Iterable[str], timeout_s: float | None = None
) -> dict[TopicPartition, PartitionView]:
    """Partitions with their eligible leader replicas (Kafka 3.9 and later, brokers only)."""
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in sorted(topics)],
        response_partition_limit=2000,
        cursor=None,
    )
    answer = exchange(target, request, DescribeTopicPartitionsResponse, 0, timeout_s)
    return {
        (topic.name, p.partition_index): PartitionView(
            topic.name,
            p.partition_index,
            p.leader_id,
            p.leader_epoch,
            tuple(p.isr_nodes),
            tuple(p.replica_nodes),
            p.error_code,
            _tuple(p.eligible_leader_replicas),
            _tuple(p.last_known_elr),
        )
        for topic in answer.topics
        for p in topic.partitions
    }


def _tuple(nodes: list[int] | None) -> tuple[int, ...] | None:
    return None if nodes is None else tuple(nodes)
