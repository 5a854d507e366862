"""A Kafka cluster in a lab: its processes, with metadata in ZooKeeper or in KRaft, and with forced roles.

`model` is the protocol that both modes satisfy. Runs in the harness's process; the processes that it starts
run in the lab's hosts. Imports `harness.kafka`, `harness.lab`, `harness.zookeeper` and the journal.
"""
