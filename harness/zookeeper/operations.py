"""Operator actions through znodes, for Kafka versions and moments in which no broker offers them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

TopicPartition = tuple[str, int]


def create_topic(
    client: KazooClient, topic: str, assignment: Sequence[Sequence[int]], config: Mapping[str, str]
) -> None:
    """Create a topic with this assignment (Kafka 0.10.2 to 3.x); the controller does the rest."""
    settings = {"version": 1, "config": dict(config)}
    client.create(f"/config/topics/{topic}", json.dumps(settings).encode(), makepath=True)
    partitions = {str(number): list(replicas) for number, replicas in enumerate(assignment)}
    value = {"version": 1, "partitions": partitions}
    client.create(f"/brokers/topics/{topic}", json.dumps(value).encode(), makepath=True)


def delete_controller(client: KazooClient) -> None:
    """Make the brokers race for the controller's role anew."""
    try:
        client.delete("/controller")
    except NoNodeError:
        return


def reassign(client: KazooClient, assignment: Mapping[TopicPartition, Sequence[int]]) -> bool:
    """Ask for new replica lists, or the same in another order; false while another request is pending."""
    moves = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in assignment.items()
    ]
    return _request(client, "/admin/reassign_partitions", {"version": 1, "partitions": moves})


def elect_preferred(client: KazooClient, partitions: Sequence[TopicPartition]) -> bool:
    """Ask for a preferred leader election; false while another request is pending."""
    wanted = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return _request(client, "/admin/preferred_replica_election", {"version": 1, "partitions": wanted})


def _request(client: KazooClient, path: str, value: object) -> bool:
    try:
        client.create(path, json.dumps(value).encode(), makepath=True)
    except NodeExistsError:
        return False
    return True
