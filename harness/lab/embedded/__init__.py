"""The embedded lab: every host is a network namespace; it needs no daemon and no root.

`namespaces` enters the fresh namespaces in which the harness's process itself then runs.
Runs in the harness's process. Imports the lab's protocol and the helpers for waiting and forking.
"""
