"""The checker: from a stored history to a verdict.

Runs in the harness's process after a run, or alone (`acked check`), as the driver of a Spark session; the
code of `checkers.judging` and `checkers.partition` also runs in Spark's Python workers. It never touches a
cluster. `judge` is the entry point; `evidence`, `causes` and `health` say why a message has the fate it has.
Imports the history's schema and the errors of `harness`, and nothing else of the project.
"""
