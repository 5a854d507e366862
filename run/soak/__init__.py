"""The rolling judgement of a run: what is closed is judged while the load goes on, and then forgotten.

`streams` reads the journals of the streams while they are written, `replicas` the logs of the brokers, and
`judge` closes windows of offsets with both (`checkers.partition.rolling`). `checkpoint` keeps what cannot be
read again, as its records were deleted.

Runs in the harness, in a thread beside the scenario. Imports checkers and the harness.
"""
