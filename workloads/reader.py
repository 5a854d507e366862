"""Consumers that record what they are handed: the final reader, one that follows, members of a group."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from harness.clock import now_ns
from harness.history.identity import decode
from harness.history.journal import Journal
from workloads.spec import PartitionRead, Reader, ReadResult

_POLL_MESSAGES = 1000
Place = tuple[str, int]


@dataclass
class _Progress:
    start: int | None = None
    end: int | None = None
    position: int | None = None
    count: int = 0
    at_end: bool = False


class RecordingReader:
    """One consumer. ``read_to_end`` reads once; ``start``/``stop`` follow in a thread of its own."""

    def __init__(self, journal: Journal, reader: Reader) -> None:
        """Connects in the background; nothing is read yet."""
        self._journal = journal
        self._reader = reader
        self._progress: dict[Place, _Progress] = {}
        self._errors: dict[tuple[int, str], None] = {}
        self._poll = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        settings = reader.settings()
        if reader.group:
            settings["on_commit"] = self._on_commit
        self._consumer = Consumer(settings)

    def read_to_end(self, within_s: float) -> ReadResult:
        """Read the assigned partitions from the start to their end offsets of now, then close."""
        deadline = time.monotonic() + within_s
        try:
            self._assign(deadline)
            while time.monotonic() < deadline and not self._finished():
                self._poll_once(min(0.5, max(0.01, deadline - time.monotonic())))
        finally:
            self._close()
        return self.result()

    def start(self) -> None:
        """Follow the assigned partitions, or join the group, until `stop`."""
        if self._reader.group:
            self._consumer.subscribe(
                sorted({topic for topic, _ in self._reader.partitions}),
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
            )
        self._thread = threading.Thread(
            target=self._follow, name=f"reader-{self._reader.number}", daemon=True
        )
        self._thread.start()

    def stop(self, within_s: float) -> ReadResult:
        """Stop following; a group member commits nothing more and leaves."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(within_s)
        return self.result()

    def result(self) -> ReadResult:
        """How far it came, up to now."""
        parts = tuple(
            PartitionRead(topic, number, p.start, p.end, p.position, p.count, _complete(p))
            for (topic, number), p in sorted(self._progress.items())
        )
        return ReadResult(parts, sum(part.count for part in parts), tuple(self._errors))

    def _follow(self) -> None:
        try:
            if not self._reader.group:
                self._consumer.assign([TopicPartition(t, p, OFFSET_BEGINNING) for t, p in self._places()])
            while not self._stop.is_set():
                self._poll_once(0.2)
        except KafkaException as error:
            self._note(error.args[0])
        finally:
            self._close()

    def _places(self) -> list[Place]:
        for topic, number in self._reader.partitions:
            self._progress.setdefault((topic, number), _Progress())
        return list(self._progress)

    def _assign(self, deadline: float) -> None:
        assignment = []
        for place in self._places():
            progress = self._progress[place]
            left_s = max(0.1, deadline - time.monotonic())
            try:
                low, high = self._consumer.get_watermark_offsets(TopicPartition(*place), timeout=left_s)
            except KafkaException as error:
                self._note(error.args[0])
                continue
            progress.start = progress.position = low
            progress.end = high
            assignment.append(TopicPartition(*place, offset=low))
        self._consumer.assign(assignment)

    def _finished(self) -> bool:
        readable = [p for p in self._progress.values() if p.end is not None]
        return all(_complete(p) for p in readable)

    def _poll_once(self, timeout_s: float) -> None:
        messages: list[Message] = self._consumer.consume(_POLL_MESSAGES, timeout_s)
        if not messages:
            return
        self._poll += 1
        rows = [row for message in messages if (row := self._row(message)) is not None]
        if rows:
            self._journal.write_many("reads", rows)
            if self._reader.group and self._reader.commit:
                self._consumer.commit(asynchronous=True)

    def _row(self, message: Message) -> dict[str, object] | None:
        error = message.error()
        place = (message.topic(), message.partition())
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                progress = self._progress.setdefault(place, _Progress())
                progress.at_end, progress.position = True, message.offset()
            else:
                self._note(error)
            return None
        progress = self._progress.setdefault(place, _Progress())
        offset = message.offset()
        progress.count += 1
        progress.position = offset + 1
        progress.at_end = False
        identity = decode(message.value())
        return {
            "topic": place[0],
            "partition": place[1],
            "reader": self._reader.number,
            "ns": now_ns(),
            "offset": offset,
            "epoch": message.leader_epoch(),
            "writer": identity.writer if identity else None,
            "seq": identity.seq if identity else None,
            "poll": self._poll,
            "group": self._reader.group or None,
            "isolation": self._reader.isolation,
        }

    def _note(self, error: Any) -> None:
        self._errors[(error.code(), error.str())] = None

    def _close(self) -> None:
        self._consumer.close()

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


def _complete(progress: _Progress) -> bool:
    if progress.position is None:
        return False
    if progress.end is None:
        return progress.at_end
    # Transaction markers at the end are never handed over: then the end event is the only proof.
    return progress.position >= progress.end
