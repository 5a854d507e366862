"""The reader that asks exactly one broker, whoever leads: what a client sees that reaches no other.

A client library wants metadata and leaders from all brokers before it reads; cut off with one of them, it
finds neither in time. Kafka itself answers a consumer's FETCH from any replica since 2.4 (KIP-392).
"""

from __future__ import annotations

from harness.history.journal import Journal
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.logs import fetch_as_consumer
from workloads.agent.consumers.progress import Progress
from workloads.protocol.spec import Reader, ReadResult


def read_pinned(journal: Journal, reader: Reader, within_s: float) -> ReadResult:
    """Read each partition from the start to the high watermark that the reader's one broker shows."""
    progress = Progress(reader)
    host, _, port = reader.brokers[0].partition(":")
    with Connection((host, int(port)), timeout_s=within_s) as connection:
        for place in reader.partitions:
            try:
                _read(connection, place, progress, journal)
            except OSError as error:
                progress.note(-1, f"{type(error).__name__}: {error}")
    return progress.result()


def _read(connection: Connection, place: tuple[str, int], progress: Progress, journal: Journal) -> None:
    at = progress.places[place]
    at.start = at.position = 0
    while True:
        fetched = fetch_as_consumer(connection, *place, at.position or 0)
        if fetched.error:
            progress.note(fetched.error, f"Kafka error {fetched.error}")
            return
        at.end = fetched.high_watermark
        progress.poll += 1
        rows = [progress.row(place, record.offset, record.epoch, record.value) for record in fetched.records]
        journal.write_many("reads", rows)
        if not rows:
            return
