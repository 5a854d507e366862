"""Faults on hosts of others: what is possible there, and what makes them safe.

`abilities` finds out what a host can do. `safety` proves its dead man's switch, keeps a second harness away,
and removes whatever acked has left.

Runs in the harness's process; commands run in the hosts through their lab. Imports `nemesis.network`.
"""
