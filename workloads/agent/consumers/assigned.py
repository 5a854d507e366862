"""Consumers with assigned partitions: they read to the present ends, or until they are stopped.

They join no group and commit nothing. librdkafka requires the name of a group all the same, and asks for the
coordinator of that group, upon which brokers create `__consumer_offsets` unless it exists.
"""

from __future__ import annotations

import time

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from workloads.agent.consumers.reading import LibrdkafkaConsumer
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import ConsumerSpec

_BATCH = 2000
_POLL_S = 0.2
_LIST_OFFSETS_S = 3.0
_ASK_AGAIN_S = 0.1
_ENDING = (
    *(KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION),
    *(KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION),
)
"""A batch that cannot be read, or a log that has lost the position: what follows does not continue it."""


class AssignedConsumer(LibrdkafkaConsumer):
    """A consumer that reads its partitions from their start until it is stopped."""

    def start(self) -> None:
        """Assign the partitions, and read until `stop`."""
        self._assign({part: confluent_kafka.OFFSET_BEGINNING for part in self._spec.partitions})
        super().start()

    def _assign(self, starts: dict[TopicPartition, int]) -> None:
        self._consumer.assign([confluent_kafka.TopicPartition(*part, at) for part, at in starts.items()])


class BoundedConsumer(AssignedConsumer):
    """A consumer that reads its partitions once, to their present ends.

    An end is the high watermark, or with `read_committed` the last stable offset.
    """

    def __init__(self, journal: Journal, spec: ConsumerSpec) -> None:
        """Connect in the background."""
        super().__init__(journal, spec, {"enable.partition.eof": True, "auto.offset.reset": "error"})
        self._ended = False
        """Whether it met an error after which it does not read on."""

    def read_to_end(self, within_s: float) -> ReadResult:
        """Read for at most ``within_s``; errors are in the result."""
        deadline = time.monotonic() + within_s
        parts = self._progress.partitions
        try:
            bounded = [part for part in parts if self._bound(part, deadline)]
            self._assign({part: int(parts[part].start or 0) for part in bounded})
            while time.monotonic() < deadline and not self._ended:
                if all(parts[part].complete for part in bounded):
                    break
                self._received(self._next(min(_POLL_S, max(0.0, deadline - time.monotonic()))))
        except KafkaException as error:
            self._note(error.args[0])
        finally:
            self._close()
        return self.progress()

    def _next(self, within_s: float) -> list[Message]:
        """The records that are there when the first one is, or when ``within_s`` has passed."""
        first = self._consumer.consume(1, within_s)
        return [*first, *self._consumer.consume(_BATCH - 1, 0)] if first else []

    def _bound(self, partition: TopicPartition, deadline: float) -> bool:
        """Look up the partition's start and end offsets; returns whether that succeeded."""
        progress = self._progress.partitions[partition]
        until = min(deadline, time.monotonic() + _LIST_OFFSETS_S)
        while True:
            limit_s = max(0.1, until - time.monotonic())
            try:
                start, progress.end = self._consumer.get_watermark_offsets(
                    confluent_kafka.TopicPartition(*partition), limit_s, cached=False
                )
            except KafkaException as error:
                if time.monotonic() + _ASK_AGAIN_S >= until:
                    self._note(error.args[0])
                    return False
                self._stop.wait(_ASK_AGAIN_S)
            else:
                progress.start = progress.position = start
                return True

    def _failed(self, message: Message, error: KafkaError) -> None:
        """The end of a partition moves the position past markers, which are not received."""
        if error.code() == KafkaError._PARTITION_EOF:
            key = TopicPartition(str(message.topic()), int(message.partition()))
            progress = self._progress.partitions[key]
            progress.position = max(progress.position or 0, int(message.offset()))
            return
        self._ended = self._ended or error.code() in _ENDING
        self._note(error)
