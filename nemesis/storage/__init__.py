"""Faults of storage: power cuts, wiped and damaged data, full disks.

Runs in the harness's process, except `layer`, the FUSE daemon: each disk has a daemon of its own.
Imports the lab and `harness.kafka`.
"""
