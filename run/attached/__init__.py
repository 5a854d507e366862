"""`acked run --hosts`: faults on a cluster that acked did not set up, while `acked record` records it.

`cases` says what a scenario's name means there, `guard` watches the partitions of others, and `breaking`
makes the fault, heals it in time, and ends it at once when somebody else would be harmed.

Runs in the harness's process. Imports the recording, the nemesis and the lab of hosts.
"""
