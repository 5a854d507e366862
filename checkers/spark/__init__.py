"""Spark sessions: start one here or on a cluster, warm it up, and register a history's tables as views.

Runs in Spark's driver. Imports the tables' schemas; only `warm` imports the judge, and `cluster` sends all
of `checkers` to the workers. Nothing here decides a message's fate.
"""
