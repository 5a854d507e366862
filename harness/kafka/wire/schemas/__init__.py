"""Schemas of requests that kafka-python lacks, in its form: fields, types and versions as of Kafka 4.4.0.

Data alone, which runs nowhere: `harness.kafka.wire` reads it. Imports nothing.
"""
