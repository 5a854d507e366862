"""The proof that a fault of links has its effect: probes from inside the hosts before, during and after it.

A *probe* is one connection attempt, the *agent* makes probes inside a host, and the *prober* commands all
agents. `agent`, `half_open` and `sockets` run inside the hosts, one process per host, with the standard
library alone; everything else runs in the harness's process. Imports the lab's protocol.
"""
