"""Hosts of others, reached over SSH, and changed only by faults that end by themselves.

`ssh` keeps one shell in a host, over the user's own OpenSSH client. `shipped` makes one text of modules of
this project, which an older Python runs. `lab` is the `Lab` of such hosts; it installs and stores nothing in
them.

Runs in the harness's process. Imports the lab's protocol.
"""
