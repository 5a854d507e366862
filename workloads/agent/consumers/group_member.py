"""A member of a consumer group, with the group events that explain why records are read again."""

from __future__ import annotations

import threading

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException

from harness.clock import now_ns
from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from workloads.agent.consumers.progress import Progress
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import ConsumerSpec

_POLL_MESSAGES = 1000


class GroupMember:
    """One librdkafka consumer in a group, with a thread of its own."""

    def __init__(self, journal: Journal, spec: ConsumerSpec) -> None:
        """Connect in the background, without joining the group yet."""
        self._journal = journal
        self._spec = spec
        self._progress = Progress(spec)
        self._stop = threading.Event()
        self._consumer = Consumer({**spec.librdkafka_config(), "on_commit": self._on_commit})
        self._thread = threading.Thread(target=self._run, name=f"consumer-{spec.reader}", daemon=True)

    def start(self) -> None:
        """Join the group, or assign the partitions, and read until `stop`."""
        if self._spec.self_assigned:
            self._consumer.assign(
                [
                    confluent_kafka.TopicPartition(*part, confluent_kafka.OFFSET_BEGINNING)
                    for part in self._spec.partitions
                ]
            )
            self._thread.start()
            return
        topics = sorted({partition.topic for partition in self._spec.partitions})
        self._consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke)
        self._thread.start()

    def stop(self, within_s: float) -> ReadResult:
        """Leave the group, without another commit."""
        self._stop.set()
        self._thread.join(within_s)
        return self.progress()

    def progress(self) -> ReadResult:
        """What it has read so far."""
        return self._progress.result()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._poll()
        except KafkaException as error:
            self._note(error.args[0])
        finally:
            self._consumer.close()

    def _poll(self) -> None:
        messages = self._consumer.consume(_POLL_MESSAGES, 0.2)
        if not messages:
            return
        self._progress.poll += 1
        rows = []
        for message in messages:
            error = message.error()
            if error is not None:
                self._note(error)
                continue
            rows.append(
                self._progress.row(
                    TopicPartition(message.topic(), message.partition()),
                    offset=message.offset(),
                    epoch=message.leader_epoch(),
                    value=message.value(),
                )
            )
        if rows:
            self._journal.write_many("reads", rows)
            if self._spec.commit and not self._spec.self_assigned:
                self._consumer.commit(asynchronous=True)

    def _note(self, error: KafkaError) -> None:
        self._progress.note(error.code(), error.str())

    def _record(self, event: str, parts: list[confluent_kafka.TopicPartition]) -> None:
        rows: list[dict[str, object]] = [
            {
                "ns": now_ns(),
                "group": self._spec.group,
                "reader": self._spec.reader,
                "event": event,
                "topic": part.topic,
                "partition": part.partition,
                "offset": part.offset if part.offset >= 0 else None,
            }
            for part in parts
        ]
        self._journal.write_many("groups", rows)

    def _on_assign(self, consumer: Consumer, parts: list[confluent_kafka.TopicPartition]) -> None:
        try:
            parts = consumer.committed(parts, timeout=5.0)
        except KafkaException as error:
            self._note(error.args[0])
        self._record("assigned", parts)

    def _on_revoke(self, _: Consumer, parts: list[confluent_kafka.TopicPartition]) -> None:
        self._record("revoked", parts)

    def _on_commit(self, error: KafkaError | None, parts: list[confluent_kafka.TopicPartition]) -> None:
        if error is not None:
            self._note(error)
            return
        self._record("committed", [part for part in parts if part.error is None])
