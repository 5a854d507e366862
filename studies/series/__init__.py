"""Many runs: a plan of cells (scenario, Kafka version, metadata mode), each run in a process of its own.

`plan` says which cells there are and in which order, `pool` runs them side by side and judges each as it
ends, `cell` is the process of one run, `summary` is the record of a run and what several runs add up to,
`folder` keeps the records so that an interrupted series can be resumed, and `bisect` searches versions.

Runs in the process of `acked run --all`, `acked matrix`, `acked bisect` or `acked check`, `cell` in a process
of its own. Never imports `cli` or `report`.
"""
