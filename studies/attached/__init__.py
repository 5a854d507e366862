"""Assessments and searches on a cluster that acked did not set up.

`steps` says what the steps of cases and schedules mean there. `process` carries out one run in a process of
its own, as a recording. `fleet` starts one after the other, each when the cluster is whole. `assessment` and
`search` are those of `studies.assess` and `studies.search`, with that fleet.

Runs in the command's process, but for `process`. Imports those studies, and `run.attached`.
"""
