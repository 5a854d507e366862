"""The reader that assigns its partitions by hand: to their ends of now, or following until it is stopped.

It is kafka-python's consumer because librdkafka's cannot live without a group, and naming one makes the
brokers create the offsets topic: one more partition whose replication disturbs what is observed.
"""

from __future__ import annotations

import logging
import threading
import time

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from harness.clock import now_ns
from harness.history.journal import Journal
from workloads.agent.consumers.progress import Progress
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import Reader

_POLL_RECORDS = 2000
_LIST_OFFSETS_S = 3.0


class HandReader:
    """One consumer without a group. ``read_to_end`` reads once; ``start``/``stop`` follow in a thread."""

    def __init__(self, journal: Journal, reader: Reader) -> None:
        """Nothing is connected yet."""
        self._journal = journal
        self._reader = reader
        self._progress = Progress(reader)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def read_to_end(self, within_s: float) -> ReadResult:
        """Read from the start to the end offsets of now."""
        deadline = time.monotonic() + within_s
        consumer = self._connect({"auto_offset_reset": "none"}, within_s)
        if consumer is None:
            return self.result()
        try:
            bounded = [tp for tp in self._partitions() if self._bound(consumer, tp, deadline)]
            consumer.assign(bounded)
            for partition in bounded:
                consumer.seek(partition, self._progress.places[tuple(partition)].start)
            while bounded and time.monotonic() < deadline:
                if all(self._progress.places[tuple(tp)].complete for tp in bounded):
                    break
                self._poll(consumer, min(0.2, max(0.0, deadline - time.monotonic())))
        except KafkaError as error:
            self._note(error)
        finally:
            consumer.close(timeout_ms=1000)
        return self.result()

    def start(self) -> None:
        """Follow from the start until `stop`."""
        self._thread = threading.Thread(
            target=self._follow, name=f"reader-{self._reader.number}", daemon=True
        )
        self._thread.start()

    def stop(self, within_s: float) -> ReadResult:
        """Stop following."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(within_s)
        return self.result()

    def result(self) -> ReadResult:
        """How far it came, up to now."""
        return self._progress.result()

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(*place) for place in self._reader.partitions]

    def _connect(self, extra: dict[str, object], within_s: float) -> KafkaConsumer | None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        limit_ms = int(within_s * 1000)
        try:
            return KafkaConsumer(
                **{**extra, **self._reader.hand_settings(), "bootstrap_timeout_ms": limit_ms}
            )
        except KafkaError as error:
            self._note(error)
            return None

    def _bound(self, consumer: KafkaConsumer, partition: TopicPartition, deadline: float) -> bool:
        limit_ms = int(1000 * min(_LIST_OFFSETS_S, max(0.1, deadline - time.monotonic())))
        progress = self._progress.places[tuple(partition)]
        try:
            start = consumer.beginning_offsets([partition], timeout_ms=limit_ms)[partition]
            progress.end = consumer.end_offsets([partition], timeout_ms=limit_ms)[partition]
        except KafkaError as error:
            self._note(error)
            return False
        progress.start = progress.position = start
        return True

    def _follow(self) -> None:
        consumer = self._connect({"auto_offset_reset": "latest"}, 30.0)
        if consumer is None:
            return
        try:
            consumer.assign(self._partitions())
            consumer.seek_to_beginning()
            while not self._stop.is_set():
                try:
                    self._poll(consumer, 0.2)
                except KafkaError as error:
                    self._note(error)
                    self._stop.wait(0.1)
        finally:
            consumer.close(timeout_ms=1000)

    def _poll(self, consumer: KafkaConsumer, timeout_s: float) -> None:
        batches = consumer.poll(timeout_ms=int(timeout_s * 1000), max_records=_POLL_RECORDS)
        if batches:
            self._progress.poll += 1
            at = now_ns()
            rows = [
                self._progress.row((r.topic, r.partition), r.offset, r.leader_epoch, r.value, at)
                for records in batches.values()
                for r in records
            ]
            self._journal.write_many("reads", rows)
        for place, progress in self._progress.places.items():
            if progress.end is not None and not progress.complete:
                progress.position = consumer.position(TopicPartition(*place))

    def _note(self, error: KafkaError) -> None:
        self._progress.note(int(getattr(error, "errno", -1)), f"{type(error).__name__}: {error}")
