"""Faults of processes: killed and started again, or paused.

Runs in the harness's process.
"""
