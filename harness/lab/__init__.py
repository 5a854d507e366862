"""Labs: hosts in availability zones, each with an address, an own network and one main process.

`model` is the protocol that both substrates speak, `embedded` (network namespaces) and `docker` (containers
started through Docker Compose). Runs in the harness's process. Imports the waiting
helpers, the fork server and the cache; of Kafka it knows only the ports.
"""
