"""The kernel: the fate of each message of one topic partition.

`messages` and `logs` are its input: what clients sent and read, and what replicas hold. `fates` decides the
`fate` of each message, `replicas` compares replicas, and `deliveries` checks what readers received. Pure
functions over numpy arrays: no files, no Arrow, no Spark. Runs in Spark's Python workers, and anywhere else
that has numpy. Imports only `harness.errors` from the project.
"""
