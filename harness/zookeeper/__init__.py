"""ZooKeeper as Kafka uses it: four-letter words, Kafka's znodes, sessions of the harness, operator actions.

Runs in the harness's process. Imports `harness.kafka.model`, `harness.kafka.config` and the waiting helpers.
"""
