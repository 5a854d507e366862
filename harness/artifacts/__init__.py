"""Kafka's jars by Maven coordinates: resolved, verified, cached, with class-data archives."""

from harness.artifacts.distribution import KafkaDistribution, resolve
from harness.artifacts.java import Java, find_java

__all__ = ["Java", "KafkaDistribution", "find_java", "resolve"]
