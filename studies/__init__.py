"""Many runs: scenarios side by side (`series`), and runs with faults of their own (`assess`, `search`).

Runs in the process of the command; each run, or each cluster, in a process of its own. Imports runs, the
report and everything below them; never the command line or the catalogue.
"""
