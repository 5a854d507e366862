"""`acked search`, `acked replay`, `acked shrink`: schedules of faults that nobody wrote.

`schedule` says what a schedule is and reads it; `faults` lists what a step may do; `grammar` makes schedules
from a seed and mutates them; `perform` is the body of the scenario that carries one out (with `targets` and
`events`). `findings` and `reached` say what a judged run found and what it got to. `fleet` runs schedules on
clusters that outlast a run, whose processes are `cell`; `hunt`, `repeat`, and `shrinking` with `minimise`
are the three commands; `written` writes a scenario file.

Runs in the process of the command, `cell` and `perform` in a process of each cluster.
"""
