"""Many runs: the machine of every command that makes more than one, and series of scenarios.

A `job` is a run to make. A `fleet` carries jobs out on clusters side by side: `processes` are the processes
of these clusters as the command sees them, `serving` is such a process from inside, `process` the one that
runs scenarios; `judging` judges each run as it ends. `folder` and `planned` keep plans and records, so that
what was interrupted can be continued; `summary` is the record of a run, and what several runs add up to.

`plan` says which jobs a series has and in which order; `night`, `budget` and `capacity` bound it, and
`bisect` searches versions. Runs in the process of the command, `process` in one of each cluster. Never
imports `cli`.
"""
