"""Faults of the network: cut, flapping and lossy links, held connections, slow and
disconnected hosts.

Runs in the harness's process; rules and queueing disciplines take effect inside the hosts, loaded with one
command per host. Imports `nemesis.proof` and the lab.
"""
