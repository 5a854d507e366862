"""The agent's consumers: with assigned partitions, pinned to one broker, or members of a consumer group."""
