"""The consumer with assigned partitions: reads to their present ends, or continues until it is stopped.

It uses kafka-python because librdkafka's consumer needs a group, and naming one makes the brokers create the
offsets topic: more partitions, whose replication disturbs what is observed.
"""

from __future__ import annotations

import logging
import struct
import threading
import time
import zlib

import kafka
import snappy
import zstandard
from kafka.errors import KafkaError

from harness.clock import now_ns
from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from workloads.agent.consumers.progress import ReadProgress
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import ConsumerSpec

_POLL_RECORDS = 2000
_LIST_OFFSETS_S = 3.0
_CONNECT_S = 30.0
_CORRUPT_MESSAGE = 2
_UNREADABLE = (
    *(EOFError, OSError, RuntimeError, ValueError, struct.error, zlib.error),
    *(snappy.UncompressError, zstandard.ZstdError),
)
"""Exceptions of the codecs that kafka-python passes on if a batch cannot be decompressed."""


class AssignedConsumer:
    """One consumer without a group. `read_to_end` reads once; `start` and `stop` run it in a thread."""

    def __init__(self, journal: Journal, spec: ConsumerSpec) -> None:
        """Connects to nothing yet."""
        self._journal = journal
        self._spec = spec
        self._progress = ReadProgress(spec)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def read_to_end(self, within_s: float) -> ReadResult:
        """Read from the start to the present end offsets."""
        deadline = time.monotonic() + within_s
        consumer = self._connect("none", within_s)
        if consumer is None:
            return self.progress()
        try:
            bounded = [part for part in self._spec.partitions if self._bound(consumer, part, deadline)]
            consumer.assign([kafka.TopicPartition(*part) for part in bounded])
            for part in bounded:
                consumer.seek(kafka.TopicPartition(*part), self._progress.partitions[part].start)
            while bounded and time.monotonic() < deadline:
                if all(self._progress.partitions[part].complete for part in bounded):
                    break
                self._poll(consumer, min(0.2, max(0.0, deadline - time.monotonic())))
        except (KafkaError, *_UNREADABLE) as error:
            self._note(error)
        finally:
            consumer.close(timeout_ms=1000)
        return self.progress()

    def start(self) -> None:
        """Read from the start until `stop`."""
        name = f"consumer-{self._spec.reader}"
        self._thread = threading.Thread(target=self._read_on, name=name, daemon=True)
        self._thread.start()

    def stop(self, within_s: float) -> ReadResult:
        """Stop reading."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(within_s)
        return self.progress()

    def progress(self) -> ReadResult:
        """What it has read so far."""
        return self._progress.result()

    def _connect(self, offset_reset: str, within_s: float) -> kafka.KafkaConsumer | None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        config = {"auto_offset_reset": offset_reset, **self._spec.kafka_python_config()}
        try:
            return kafka.KafkaConsumer(**config, bootstrap_timeout_ms=int(within_s * 1000))
        except KafkaError as error:
            self._note(error)
            return None

    def _bound(self, consumer: kafka.KafkaConsumer, partition: TopicPartition, deadline: float) -> bool:
        """Look up the partition's start and end offsets; returns whether that succeeded."""
        limit_ms = int(1000 * min(_LIST_OFFSETS_S, max(0.1, deadline - time.monotonic())))
        asked = kafka.TopicPartition(*partition)
        progress = self._progress.partitions[partition]
        try:
            start = consumer.beginning_offsets([asked], timeout_ms=limit_ms)[asked]
            progress.end = consumer.end_offsets([asked], timeout_ms=limit_ms)[asked]
        except KafkaError as error:
            self._note(error)
            return False
        progress.start = progress.position = start
        return True

    def _read_on(self) -> None:
        consumer = self._connect("latest", _CONNECT_S)
        if consumer is None:
            return
        try:
            consumer.assign([kafka.TopicPartition(*part) for part in self._spec.partitions])
            consumer.seek_to_beginning()
            while not self._stop.is_set():
                try:
                    self._poll(consumer, 0.2)
                except (KafkaError, *_UNREADABLE) as error:
                    self._note(error)
                    self._stop.wait(0.1)
        finally:
            consumer.close(timeout_ms=1000)

    def _poll(self, consumer: kafka.KafkaConsumer, timeout_s: float) -> None:
        batches = consumer.poll(timeout_ms=int(timeout_s * 1000), max_records=_POLL_RECORDS)
        if batches:
            self._progress.poll += 1
            ns = now_ns()
            rows = [
                self._progress.row(
                    TopicPartition(record.topic, record.partition),
                    offset=record.offset,
                    epoch=record.leader_epoch,
                    value=record.value,
                    ns=ns,
                )
                for records in batches.values()
                for record in records
            ]
            self._journal.write_many("reads", rows)
        for partition, progress in self._progress.partitions.items():
            if progress.end is not None and not progress.complete:
                progress.position = consumer.position(kafka.TopicPartition(*partition))

    def _note(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        if isinstance(error, KafkaError):
            self._progress.note(int(getattr(error, "errno", -1)), text)
        else:
            self._progress.note(_CORRUPT_MESSAGE, f"a batch cannot be decompressed: {text}")
