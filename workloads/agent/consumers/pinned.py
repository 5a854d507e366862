"""The consumer that fetches from exactly one broker, whether or not it leads.

It shows what a client sees that can reach only this broker. A client library asks several brokers for
metadata and leaders before it fetches. If it is cut off together with one of them, it gets neither in time.
Kafka itself answers a consumer's FetchRequest from any replica since 2.4 (KIP-392).
"""

from __future__ import annotations

from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.logs import committed_records, fetch_as_consumer
from workloads.agent.consumers.progress import ReadProgress
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import ConsumerSpec


def read_pinned(journal: Journal, spec: ConsumerSpec, within_s: float) -> ReadResult:
    """Read each partition from its start to the end that the broker reports.

    The end is the high watermark, or with `read_committed` the last stable offset.
    """
    progress = ReadProgress(spec, journal)
    committed = spec.isolation_level == "read_committed"
    with Connection(spec.brokers[0], timeout_s=within_s) as connection:
        for partition in spec.partitions:
            try:
                _read(connection, partition, progress, committed=committed)
            except OSError as error:
                progress.note(-1, f"{type(error).__name__}: {error}")
    return progress.result()


def _read(
    connection: Connection,
    partition: TopicPartition,
    progress: ReadProgress,
    *,
    committed: bool,
) -> None:
    at = progress.partitions[partition]
    at.start = at.position = 0
    while True:
        fetched = fetch_as_consumer(connection, *partition, at.position or 0, committed=committed)
        if fetched.error:
            progress.note(fetched.error, f"Kafka error {fetched.error}")
            return
        at.end = fetched.high_watermark
        if committed and fetched.last_stable_offset is not None:
            at.end = fetched.last_stable_offset
        progress.poll += 1
        records = committed_records(fetched.records, fetched.aborted) if committed else fetched.records
        received = [
            progress.received(partition, offset=record.offset, epoch=record.epoch, value=record.value)
            for record in records
        ]
        progress.journal.append(received)
        following = fetched.next_offset
        if following is None:
            return
        at.position = max(following, at.position or 0)
