"""What the coordinator of a share group states about it (ShareGroupDescribe, KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.kafka.model import TopicPartition
from harness.kafka.wire.connection import Target, exchange
from harness.kafka.wire.own_messages import message

ShareGroupDescribeRequest = message("ShareGroupDescribeRequest")
ShareGroupDescribeResponse = message("ShareGroupDescribeResponse")
_DESCRIBE_VERSION = 1
"""Version 0 ended with the early access of Kafka 4.0."""


@dataclass(frozen=True, kw_only=True)
class ShareGroup:
    """One group as a broker states it; ``error`` is 16 of a broker that does not coordinate it."""

    error: int = 0
    state: str = ""
    """`Empty`, `Stable` or `Dead`."""
    epoch: int = -1
    """Rises when members or subscriptions change."""
    assignment_epoch: int = -1
    """The group's epoch for which its assignment was computed."""
    assigned: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)
    """The partitions of each member, by its client.id. Several members may have the same one."""


def share_groups(
    target: Target, groups: Iterable[str], timeout_s: float | None = None
) -> dict[str, ShareGroup]:
    """What a broker states about share groups, by name. Raises OSError if it does not answer."""
    request = ShareGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False)
    answer = exchange(target, request, ShareGroupDescribeResponse, _DESCRIBE_VERSION, timeout_s)
    return {
        group.group_id: ShareGroup(error=group.error_code)
        if group.error_code
        else ShareGroup(
            state=group.group_state,
            epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            assigned={
                member.client_id: tuple(
                    TopicPartition(topic.topic_name, number)
                    for topic in member.assignment.topic_partitions
                    for number in topic.partitions
                )
                for member in group.members
            },
        )
        for group in answer.groups
    }
