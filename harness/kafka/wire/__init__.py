"""Raw requests to single brokers and controllers: each goes to exactly the address it is given.

Runs in the harness's process and in client agents. Import the modules; this package re-exports nothing.
"""
