"""The kernel: what became of each message of one topic partition.

`messages` and `logs` are what goes in: what clients sent and read, what replicas hold. `fates` decides the
`fate` of each message, `replicas` compares replicas, and `deliveries` checks what readers got. Pure functions
over numpy arrays: no files, no Arrow, no Spark. Runs in Spark's Python workers, and anywhere else that has
numpy. Imports nothing of the project but `harness.errors`.
"""
