"""Kafka as data and on the wire: nouns, versions, configuration, record batches, requests to single brokers.

Everything here takes an address, a file or bytes; it knows no lab and no process. It runs in the harness's
process, and in client agents as far as they send raw requests. Imports only itself and the errors.
"""
