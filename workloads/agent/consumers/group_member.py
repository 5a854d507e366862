"""A member of a consumer group, with the events that explain a rewind or a replay."""

from __future__ import annotations

import threading

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from harness.clock import now_ns
from harness.history.journal import Journal
from workloads.agent.consumers.progress import Progress
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import Reader

_POLL_MESSAGES = 1000


class GroupMember:
    """One librdkafka consumer in a group, in a thread of its own."""

    def __init__(self, journal: Journal, reader: Reader) -> None:
        """Connects in the background; nothing is joined yet."""
        self._journal = journal
        self._reader = reader
        self._progress = Progress(reader)
        self._stop = threading.Event()
        self._consumer = Consumer({**reader.group_settings(), "on_commit": self._on_commit})
        self._thread = threading.Thread(target=self._run, name=f"reader-{reader.number}", daemon=True)

    def start(self) -> None:
        """Join the group and read until `stop`."""
        topics = sorted({topic for topic, _ in self._reader.partitions})
        self._consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke)
        self._thread.start()

    def stop(self, within_s: float) -> ReadResult:
        """Commit nothing more, leave the group."""
        self._stop.set()
        self._thread.join(within_s)
        return self.result()

    def result(self) -> ReadResult:
        """How far it came, up to now."""
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
            place = (message.topic(), message.partition())
            rows.append(self._progress.row(place, message.offset(), message.leader_epoch(), message.value()))
        if rows:
            self._journal.write_many("reads", rows)
            if self._reader.commit:
                self._consumer.commit(asynchronous=True)

    def _note(self, error: KafkaError) -> None:
        self._progress.note(error.code(), error.str())

    def _event(self, event: str, parts: list[TopicPartition]) -> None:
        rows: list[dict[str, object]] = [
            {
                "ns": now_ns(),
                "group": self._reader.group,
                "reader": self._reader.number,
                "event": event,
                "topic": part.topic,
                "partition": part.partition,
                "offset": part.offset if part.offset >= 0 else None,
            }
            for part in parts
        ]
        self._journal.write_many("groups", rows)

    def _on_assign(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        try:
            parts = consumer.committed(parts, timeout=5.0)
        except KafkaException as error:
            self._note(error.args[0])
        self._event("assigned", parts)

    def _on_revoke(self, _: Consumer, parts: list[TopicPartition]) -> None:
        self._event("revoked", parts)

    def _on_commit(self, error: KafkaError | None, parts: list[TopicPartition]) -> None:
        if error is not None:
            self._note(error)
            return
        self._event("committed", [part for part in parts if part.error is None])
