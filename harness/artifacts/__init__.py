"""Kafka's jars: resolved by Maven coordinates, verified, cached, and completed with class-data archives.

Runs in the harness, before it enters a lab's namespaces. Imports `harness.kafka`, `harness.errors`,
`harness.waiting` and, for the training run of the archives, `harness.lab.embedded.namespaces`.
"""

from harness.artifacts.distribution import KafkaDistribution, resolve, resolve_all
from harness.artifacts.java import Java, find_java
from harness.artifacts.stored_build import sources_of

__all__ = ["Java", "KafkaDistribution", "find_java", "resolve", "resolve_all", "sources_of"]
