"""A member of a consumer group, with the group events that explain why records are read again."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict, deque
from concurrent.futures import Future
from queue import SimpleQueue
from typing import NamedTuple

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException

from harness.clock import now_ns
from harness.history.journal import Journal
from workloads.agent.consumers.reading import POLL_MESSAGES, LibrdkafkaConsumer
from workloads.protocol.spec import ConsumerSpec

_ANSWER_S = 5.0


class Membership(NamedTuple):
    """A generation of a group (with KIP-848 the member's epoch), and the member's id in it."""

    generation: int
    member_id: str


_METADATA = b"CGMDv2:"
"""How librdkafka 2 writes the metadata of a group (`rd_kafka_consumer_group_metadata_write`)."""


def membership(metadata: object) -> Membership | None:
    """The membership in librdkafka's metadata of a group; None outside a generation, or in another format.

    The metadata is the format's name, the generation (int32 of this machine), and the names of group and
    member, each with a zero byte behind it. Generations begin with 1; with KIP-848 a member that joins has
    the epoch 0 until the coordinator has let it in.
    """
    if not isinstance(metadata, bytes) or not metadata.startswith(_METADATA):
        return None
    at = len(_METADATA)
    generation = int.from_bytes(metadata[at : at + 4], sys.byteorder, signed=True)
    _group, _, rest = metadata[at + 4 :].partition(b"\0")
    member_id, end, _ = rest.partition(b"\0")
    if generation < 1 or not end or not member_id:
        return None
    return Membership(generation, member_id.decode())


def is_newer(current: Membership, before: Membership | None) -> bool:
    """Whether it is another generation than ``before``.

    A member that joins again has its new id first, and for a moment still the generation of the old one.
    """
    return before is None or current.generation != before.generation


class GroupMember(LibrdkafkaConsumer):
    """One librdkafka consumer in a group."""

    def __init__(self, journal: Journal, spec: ConsumerSpec) -> None:
        """Connect in the background, without joining the group yet."""
        super().__init__(journal, spec, {"on_commit": self._on_commit})
        self._questions: SimpleQueue[Future[object]] = SimpleQueue()
        self._asked: defaultdict[tuple[str, int, int], deque[int]] = defaultdict(deque)
        """When each unanswered commit was sent; the same offset may be committed repeatedly."""
        self._joined: Membership | None = None
        self._committed_s = 0.0

    def start(self) -> None:
        """Join the group, and read until `stop`, which leaves it."""
        topics = sorted({partition.topic for partition in self._spec.partitions})
        self._consumer.subscribe(
            topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        super().start()

    def _poll(self) -> None:
        self._read()
        while not self._questions.empty():
            self._questions.get().set_result(self.metadata())

    def _read(self) -> None:
        """Consume once, record what was received, and commit it."""
        messages = self._consumer.consume(POLL_MESSAGES, 0.2)
        self._note_membership()
        if self._received(messages) and self._spec.commit and not self._must_wait():
            positions = self._consumer.position(self._consumer.assignment())
            self._commit([part for part in positions if part.offset >= 0])

    def _must_wait(self) -> bool:
        """Whether it is too early for another commit, or one is under way that it must not follow yet.

        With KIP-848, librdkafka gives up no partition while a commit is under way. If there always is one, it
        never does.
        """
        if time.monotonic() < self._committed_s + self._spec.commit_every_s:
            return True
        return bool(self._asked) and self._spec.config.get("group.protocol") == "consumer"

    def _commit(self, offsets: list[confluent_kafka.TopicPartition], *, wait: bool = False) -> None:
        """Commit offsets; `_on_commit` records the outcome, now or later."""
        asked_ns, self._committed_s = now_ns(), time.monotonic()
        for part in offsets:
            self._asked[part.topic, part.partition, part.offset].append(asked_ns)
        if not offsets:
            return
        try:
            answered = self._consumer.commit(offsets=offsets, asynchronous=not wait)
        except KafkaException as error:
            self._on_commit(error.args[0], offsets)
        else:
            self._on_commit(None, answered or [])

    def metadata(self) -> object:
        """The member's id and generation, for the transactions that commit its offsets."""
        if threading.current_thread() is self._thread:
            return self._consumer.consumer_group_metadata()
        asked: Future[object] = Future()
        self._questions.put(asked)  # librdkafka answers only while no other thread polls.
        return asked.result(_ANSWER_S)

    def _record(
        self,
        event: str,
        parts: list[confluent_kafka.TopicPartition],
        *,
        error: int | None = None,
        asked_ns: int | None = None,
    ) -> None:
        rows: list[dict[str, object]] = [
            {
                "ns": now_ns(),
                "group": self._spec.group,
                "reader": self._spec.reader,
                "member": self._spec.name,
                "event": event,
                "topic": part.topic,
                "partition": part.partition,
                "offset": part.offset if part.offset >= 0 else None,
                "error": error,
                "asked_ns": asked_ns,
            }
            for part in parts
        ]
        self._journal.write_many("groups", rows)

    def _on_assign(self, consumer: Consumer, parts: list[confluent_kafka.TopicPartition]) -> None:
        """Look up the committed offsets, and begin there."""
        self._note_membership()
        asked_ns = now_ns()
        error: int | None = 0
        try:
            parts = consumer.committed(parts, timeout=5.0)
        except KafkaException as failed:
            self._note(failed.args[0])
            error = failed.args[0].code()
        self._record("assigned", parts, error=error, asked_ns=asked_ns)
        if error:
            return
        if self._spec.incremental:
            consumer.incremental_assign(parts)
        else:
            consumer.assign(parts)

    def _note_membership(self) -> None:
        """Record that the member is part of another generation; not every one brings a new assignment."""
        current = membership(self._consumer.consumer_group_metadata())
        if current is not None and is_newer(current, self._joined):
            self._joined = current
            self._journal.write(
                "groups",
                ns=now_ns(),
                group=self._spec.group,
                reader=self._spec.reader,
                member=self._spec.name,
                event="joined",
                topic=None,
                partition=None,
                generation=current.generation,
                member_id=current.member_id,
                **self._spec.joined_columns,
            )

    def _on_revoke(self, _: Consumer, parts: list[confluent_kafka.TopicPartition]) -> None:
        self._record("revoked", parts)

    def _on_lost(self, _: Consumer, parts: list[confluent_kafka.TopicPartition]) -> None:
        self._record("lost", parts)

    def _on_commit(self, error: KafkaError | None, parts: list[confluent_kafka.TopicPartition]) -> None:
        for part in parts:
            key = (part.topic, part.partition, part.offset)
            if key not in self._asked:
                continue  # The outcome is known already.
            asked_ns = self._asked[key].popleft()  # librdkafka answers commits in their order.
            if not self._asked[key]:
                del self._asked[key]
            cause = error or part.error
            if cause is None:
                self._record("committed", [part], error=0, asked_ns=asked_ns)
            else:
                self._note(cause)
                self._record("commit_failed", [part], error=cause.code(), asked_ns=asked_ns)
