"""Clients: what they send and read, and what they write into the history.

`client` runs in the harness's process, `agent` in a client host, and `protocol` is what they exchange.
"""
