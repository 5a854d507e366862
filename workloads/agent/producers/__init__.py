"""The agent's producers: raw requests, librdkafka, background streams, transactions; and their outcomes.

Runs in a client host, in the agent's process. Imports what the rest of the agent may import.
"""
