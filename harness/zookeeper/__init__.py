"""ZooKeeper as Kafka uses it: four-letter words, the znodes that one node shows, operator actions.

Runs in the harness's process.
"""
