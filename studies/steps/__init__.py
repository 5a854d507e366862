"""The steps of a run, and the body that carries them out: schedules of a search, and cases of an assessment.

`step` says what a step is; `aims` finds the hosts that it means, and `events` what it waits for. `body` is
the body of the scenario, whatever clients the study has.

Runs in the process of a cluster. Imports runs, clusters, labs and the nemesis; never the studies that use it.
"""
