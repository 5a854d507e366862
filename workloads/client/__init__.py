"""The harness's side of a client: `Client` starts an agent in a client host and sends it commands.

Runs in the harness's process. Imports `workloads.protocol` and the lab's protocol (`harness.lab.model`),
never `workloads.agent`.
"""
