"""The clients of a run. They send and read messages, and record this in the history.

Each folder runs in one process: `client` in the harness, `agent` in the process that the harness starts in
each client host. `protocol` is the data that the two exchange over the agent's pipe. Neither of the two
imports the other. Imports Kafka's terms and wire protocol, and the journal of the harness.
"""
