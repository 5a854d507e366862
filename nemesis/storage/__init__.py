"""Faults of storage: power cuts, wiped and damaged data, full disks."""
