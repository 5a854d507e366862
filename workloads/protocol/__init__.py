"""The data that the harness and a client agent exchange: commands, specifications and results.

Both processes import this package, so it runs in the harness and in client hosts. It holds frozen dataclasses
and their translation to JSON lines. It imports only `harness.errors` and `harness.kafka.model`.

The protocol speaks of producers, consumers and group members as Kafka does, with one exception: the number of
a producer is called `writer`, as in the history. It is not Kafka's producer id. The brokers may assign one
producer of the application several producer ids, one after the other (librdkafka asks for a new one, or for a
new epoch, when a message of an idempotent producer times out), or none at all (a producer that is neither
idempotent nor transactional). `writer` stays the same throughout, and every message carries it.
"""
