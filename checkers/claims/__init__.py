"""Claims: sentences about a run, as SQL, and how a judged history answers them.

`builders` writes the SQL; it runs in the harness's process before a run and imports only the list of
fates and the use of the processors from which a machine counts as busy (`harness.processors`).
`moments` puts the times of marks into it, and knows until when each source was observed; `evaluate` and
`expected` run in Spark's driver. Imports nothing outside `checkers` but `harness.errors`.
"""
