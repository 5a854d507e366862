"""Claims: the builders that scenarios write them with, and their evaluation over a judged history.

`builders` runs in the harness's process before a run and returns SQL text; `evaluate` and `expected` run in
Spark's driver. Imports nothing outside `checkers` but `harness.errors`.
"""
