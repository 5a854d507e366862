"""Queries over stored runs: free SQL, the story of one message, and an export for Jepsen's checkers.

Runs in Spark's driver. Imports the tables and their views, and writes nothing into run folders.
"""
