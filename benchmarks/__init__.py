"""Benchmarks, run by hand: `python -m benchmarks.<name>`; docs/benchmarks.md has their results."""
