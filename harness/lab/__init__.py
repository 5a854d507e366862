"""Labs: hosts in availability zones, each with an address, a network of its own and one main process.

`model` is the protocol that both substrates speak, `embedded` (network namespaces) and `docker` (containers
started through Docker Compose). Runs in the harness's process. Imports the waiting
helpers, the fork server and the cache; it knows only Kafka's ports.
"""
