"""`acked assess`: a battery of faults against one described cluster, and a table of what each would cost.

`battery` says which cases there are, with the roles inside and outside of each fault; `load` has the clients
of their runs; `process` is the process of one cluster; `measure` queries a stored run for the numbers of the
table; `table` adds runs up and says in words what follows from the numbers; `series` runs it all.

Runs in the process of `acked assess`, `process` and `load` in a process of each cluster.
Imports runs, series, the nemesis, the clients and the checkers; never the command line or `report`.
"""
