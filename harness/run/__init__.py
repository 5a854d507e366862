"""One run: from a scenario to a run folder that can be judged.

Runs in the harness's process, inside the lab's namespaces where there are any. Imports every room but
`harness.cli` and `harness.series`.
"""
