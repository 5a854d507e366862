"""Kafka's own nouns, each defined once: a topic partition, its state, a broker's name and address.

Imports nothing of the project, so that the harness, the clients and the checkers can share it.
"""

from __future__ import annotations

from typing import NamedTuple

BROKER_PORT = 9092
CONTROLLER_PORT = 9093


class TopicPartition(NamedTuple):
    """One partition of a topic. It equals, and hashes as, the plain pair ``(topic, partition)``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """`topic/partition`, the notation that messages carry and people type."""
        return f"{self.topic}/{self.partition}"
