"""Many runs: cells of scenario, version and mode, each run in a process of its own and judged in this one.

Runs in the process of `acked run --all`, `acked matrix`, `acked bisect` or `acked check`. Never imports
`harness.cli`.
"""
