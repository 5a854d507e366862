"""The kernel: what became of each message of one topic partition.

Pure functions over numpy arrays: no files, no Arrow, no Spark. Runs in Spark's Python workers, and anywhere
else that has numpy. Imports nothing of the project but `harness.errors`.
"""
