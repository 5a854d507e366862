"""Tables on disk: which files a history has, how they are read, and the schema of what the checker writes.

Runs in Spark's driver and workers alike. Imports PyArrow and numpy, never Spark, and from `checkers` only
what lies in this folder, `checkers.partition`, and the evidence and causes that rows of `life` carry.
"""
