"""The agent's consumers: with assigned partitions, pinned to one broker, or as members of a consumer group.

Runs in a client host, in the agent's process. Imports what the rest of the agent may import.
"""
