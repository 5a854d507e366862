"""Faults of storage: power cuts, wiped and damaged data, full disks.

Runs in the harness's process, except `layer`, the FUSE daemon, which is a process of its own for each disk.
"""
