"""`acked search`, `acked replay`, `acked shrink`: random schedules of faults, judged, repeated, made smaller.

`schedule` says what a schedule is, and `rules` reads it; `grammar` makes schedules from a seed and mutates
them; `scenario` turns one into a scenario with the body of `studies.steps`, and `crowd` and `transactions`
are its clients. `findings` and `reached` say what a judged run found and which states it reached. `runs` says
how a fleet (`studies.series`) carries schedules out, and `process` is the process of one of its clusters.
`hunt` (with `comparison`), `repeat` (with `rates`) and `shrinking` (with `minimise`) are the three commands,
and `written` writes a scenario file.

Runs in the process of the command, `process` and `scenario` in a process of each cluster. Imports
assessments, series, runs, clusters, labs, the nemesis, the clients and the checkers; never the command line
or `report`.
"""
