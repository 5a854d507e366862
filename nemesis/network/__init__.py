"""Faults of links: which links a fault names, the firewall rules and queueing disciplines, and their faults.

Runs in the harness's process; rules take effect inside the hosts, loaded with one command per host.
"""
