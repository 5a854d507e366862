"""Consumers: assigned by hand, pinned to one broker, members of a group. Run in an agent."""
