"""Proof that a fault took effect: probes from inside the hosts, before, during and after it.

`agent` and `syn` run inside the hosts, one process per host, with the standard library alone; everything
else runs in the harness's process.
"""
