"""What makes a run happen: labs, clusters, the observer, the history, runs and series of runs, the CLI.

Runs in the harness's own process, outside the hosts of a lab. Only `harness.run`, `harness.series` and
`harness.cli` import the other top-level packages of the project.
"""
