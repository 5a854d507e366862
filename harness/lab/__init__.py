"""Labs: hosts in availability zones, each with an address, a network of its own and one main process.

`model` is the protocol of both labs: `embedded` (network namespaces) and `docker` (containers started through
Docker Compose). A lab knows nothing of Kafka but its ports. Runs in the harness's process. Imports the
waiting helpers, the fork server and the cache.
"""
