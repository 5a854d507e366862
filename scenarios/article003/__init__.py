"""Article 003: a KRaft controller that is cut off, and the leader that follows it.

Bodies run in the harness's process. Imports what `scenarios` may import.
"""
