"""Figures of the README and of the issues, measured by hand: `python -m benchmarks.<name>`."""
