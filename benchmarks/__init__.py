"""Benchmarks, run by hand: `python -m benchmarks.<name>`; docs/benchmarks.md has their results.

Each runs in a process of its own. May import every room.
"""
