"""Runs with --hosts: faults on a cluster that acked did not set up, while `acked record` records it.

`hosts` is the cluster with its hosts and limits. `cases` says which faults there are and what a scenario's
name means there, `guard` watches the partitions of others, `breaking` makes the faults, heals them in time,
and ends them at once when somebody else would be harmed, and `starting` starts nodes again. `discovering`
proposes a hosts file, and `asking` compares one with what the cluster states.

Runs in the harness's process. Imports the recording, the nemesis and the lab of hosts.
"""
