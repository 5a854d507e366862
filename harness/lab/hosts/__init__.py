"""Hosts of others, reached over SSH or as containers, and changed only by faults that end by themselves.

`transport` says what a lab of such hosts needs of a connection to one of them. `ssh` keeps one shell in a
host, over the user's own OpenSSH client; `containers` starts a helper container in the network of another.
`shipped` makes one text of modules of this project, which an older Python runs. `lab` is the `Lab` of such
hosts; it installs and stores nothing in them.

Runs in the harness's process. Imports the lab's protocol; `containers` imports the Docker SDK.
"""
