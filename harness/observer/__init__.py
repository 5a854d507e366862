"""Observing a cluster from an address that no fault names, and reading every replica's log at the end.

`observer` and its pollers record what every node states while a run lasts, `dump` reads the final logs, and
`broker_log` turns lines of brokers' log files into rows. Runs in the harness's process, in threads. Imports
`harness.kafka`, `harness.zookeeper` and `harness.history`.
"""
