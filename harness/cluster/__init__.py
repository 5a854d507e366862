"""A Kafka cluster in a lab: its processes, with metadata in ZooKeeper or in KRaft, and with forced roles.

Runs in the harness's process.
"""
