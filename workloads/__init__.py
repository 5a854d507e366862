"""The clients of a run: what they send and read, and what they record in the history.

The folders tell in which process a line runs: `client` in the harness, `agent` in the process that the
harness starts in each client host, and `protocol` is the data that the two exchange over the agent's pipe.
Neither `client` nor `agent` imports the other.
Imports Kafka's nouns and wire protocol and the journal of the harness.
"""
