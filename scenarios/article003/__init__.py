"""Article 003: a KRaft controller that is cut off, and the leader that follows it."""
