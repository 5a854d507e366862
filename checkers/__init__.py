"""The checker: from a stored history to a verdict.

Runs in the harness's process after a run, or alone (`acked check`), as the driver of a Spark session; what
`checkers.fast` and `checkers.partition` hold runs in Spark's Python workers too. It never touches a cluster.
`judge` is the way in; `evidence`, `causes` and `health` say why a message has the fate it has. Imports the
history's schema and the errors of `harness`, and nothing else of the project.
"""
