"""Faults of storage: power cuts, wiped and damaged data, full disks.

Runs in the harness's process, except `layer`, the FUSE daemon, of which each disk has its own process.
Imports the lab and `harness.kafka`.
"""
