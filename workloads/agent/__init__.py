"""The agent: a process in a client host that carries out the harness's commands and records what happens.

Runs in a client host, one process per client, with a journal of its own. Imports `workloads.protocol`, the
journal, the message identity and Kafka's wire protocol; never `workloads.client`, Spark, PyArrow or NumPy: it
must start fast and stay small.
"""
