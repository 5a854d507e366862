"""`acked search`, `acked replay`, `acked shrink`: random schedules of faults, judged, repeated, made smaller.

`schedule` says what a schedule is and reads it; `faults` lists what a step may do; `grammar` makes schedules
from a seed and mutates them; `scenario` turns one into a scenario, and `perform` is that scenario's body,
with `aims` (the hosts that a step hits), `events` (what a step waits for), `crowd` and `transactions` (the
clients). `findings` and `reached` say what a judged run found and which states it reached. `fleet` runs
schedules on clusters that outlast a run; `cell` is the process of one cluster. `hunt` (with `comparison`),
`repeat` (with `rates`) and `shrinking` (with `minimise`) are the three commands; `stored` keeps their
folders, and `written` writes a scenario file.

Runs in the process of the command, `cell` and `perform` in a process of each cluster. Imports assessments,
series, runs, clusters, labs, the nemesis, the clients and the checkers; never the command line or `report`.
"""
