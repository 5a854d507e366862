"""The history: the schema, the journals that processes append to during a run, and the tables made of them.

`schema` is the contract between what records and what judges; it imports nothing of the project.
"""
