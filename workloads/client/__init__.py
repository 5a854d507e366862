"""The harness's side of a client: commands become futures, streams and readers become handles.

Runs in the harness's process. Never imports `workloads.agent`, which it starts in a client host.
"""
