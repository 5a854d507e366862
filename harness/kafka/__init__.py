"""Kafka as data and on the wire: versions, configuration, record batches, and raw requests to single brokers.

No process, no lab: everything here takes an address or bytes. Runs in the harness, and in client agents as
far as they send raw requests.
"""
