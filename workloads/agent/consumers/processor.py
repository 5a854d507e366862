"""An application that reads, processes and writes: it writes one message for each that it receives.

It works in units. With a transactional id, a unit is a transaction that also commits the offsets of what it
has processed. Without one, it flushes the output and then commits the offsets, which is at-least-once
processing.
"""

from __future__ import annotations

import time
from dataclasses import replace

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Message

from harness.history.identity import decode
from harness.history.read_journal import ReceivedRecord
from harness.kafka.model import TopicPartition
from workloads.agent.consumers.group_member import GroupMember
from workloads.agent.producers.recorder import Recorder
from workloads.agent.producers.scripted import ScriptedProducer
from workloads.agent.producers.serving import flush
from workloads.agent.producers.transactional import TransactionalProducer
from workloads.protocol.commands import StartProcessor
from workloads.protocol.results import SendResult

_MESSAGES = 100
_POLL_S = 0.1
_INITIALISE_S = 5.0
_LOOK_UP_S = 2.0
_END_S = 20.0


class Processor(GroupMember):
    """One instance of the application: a group member, and a producer for its output.

    After a failed unit it goes back to the committed offsets, with a new producer if the old one can no
    longer be used. Labels of output messages name the input message: `writer/seq`.
    """

    def __init__(self, recorder: Recorder, command: StartProcessor) -> None:
        """Connect in the background, without joining the group yet."""
        super().__init__(recorder.journal, command.consumer)
        self._recorder = recorder
        self._command = command
        self._transactional: TransactionalProducer | None = None
        self._plain: ScriptedProducer | None = None
        self._first_txn = 0
        self._txn: int | None = None
        self._positions: dict[TopicPartition, int] = {}
        """Where the open unit ends, by partition; empty if none is open."""
        self._written = 0
        """Number of messages that the open unit has written."""
        self._outcomes: list[SendResult] = []
        """The outcomes of those messages so far; every unit has its own list."""
        self._until = 0.0
        self._behind = False
        """Whether it has to go back to the committed offsets."""

    def _read(self) -> None:
        if not self._ready():
            return
        messages = self._consumer.consume(_MESSAGES, _POLL_S)
        self._note_membership()
        if messages:
            self._progress.poll += 1
        if self._behind:
            self._go_back()  # It receives the messages of the meantime again.
            return
        records = []
        for message in messages:
            error = message.error()
            if error is not None:
                self._note(error)
            elif self._begin():
                records.append(self._process(message))
        self._progress.journal.append(records)
        if self._positions and time.monotonic() >= self._until:
            self._end()

    def _ready(self) -> bool:
        """Create a producer; a transactional one gets its id when the open transaction has ended."""
        spec = self._command.producer
        if not spec.transactional_id:
            self._plain = self._plain or ScriptedProducer(self._recorder, spec)
            return True
        if self._transactional is None:
            fresh = TransactionalProducer(self._recorder, spec, first_txn=self._first_txn)
            error = fresh.try_initialise(_INITIALISE_S)
            if error:
                self._progress.note(error, "init_transactions")
                fresh.close()
                return False
            self._transactional = fresh
        return True

    def _begin(self) -> bool:
        """Begin a unit if none is open; returns whether one is open now."""
        if self._positions:
            return True
        if self._behind:
            return False
        if self._transactional is not None:
            try:
                self._txn = self._transactional.begin()
            except KafkaException as error:
                self._note(error.args[0])
                self._give_up()
                return False
        self._written, self._outcomes = 0, []
        self._until = time.monotonic() + self._command.every_s
        return True

    def _process(self, message: Message) -> ReceivedRecord:
        """Write the output of one message; returns it as received in the open transaction."""
        place = TopicPartition(str(message.topic()), int(message.partition()))
        received = self._progress.received(
            place, offset=message.offset(), epoch=message.leader_epoch(), value=message.value()
        )
        self._positions[place] = message.offset() + 1
        identity = decode(message.value())
        label = f"{identity.writer}/{identity.seq}" if identity else ""
        output = self._command.output
        producer = self._transactional or self._plain
        assert producer is not None
        self._written += 1
        producer.send(output, place.partition, label, self._outcomes.append)
        writer = self._command.producer.writer if self._txn is not None else None
        return replace(received, txn_writer=writer, txn=self._txn)

    def _end(self) -> None:
        """End the unit: commit its output and its offsets, or go back if the output failed."""
        offsets = [
            confluent_kafka.TopicPartition(*place, offset) for place, offset in self._positions.items()
        ]
        if self._transactional is None:
            assert self._plain is not None
            flush(self._plain.producer, _END_S)
            if sum(outcome.ok for outcome in self._outcomes) == self._written:
                self._commit(offsets, wait=True)
            else:
                self._behind = True
            self._positions = {}
            return
        spec = self._spec
        error = self._transactional.send_offsets(offsets, spec.group, spec.reader, self.metadata(), _END_S)
        if error:
            self._progress.note(error, "send_offsets_to_transaction")
        self._finish(commit=not error)

    def _finish(self, *, commit: bool) -> None:
        """End the transaction. Unless it is committed, its messages must be processed again."""
        assert self._transactional is not None
        end = self._transactional.end(commit=commit, within_s=_END_S)
        self._positions, self._txn = {}, None
        if end.error:
            self._progress.note(end.error, f"transaction {end.outcome}")
        if end.outcome == "unknown":
            self._give_up()
        self._behind = self._behind or end.outcome != "committed"

    def _give_up(self) -> None:
        """Continue with a new producer, whose start ends the transaction that the old one left open."""
        assert self._transactional is not None
        self._first_txn = self._transactional.next_txn
        self._transactional.close()
        self._transactional = None
        self._behind = True

    def _go_back(self) -> None:
        """Go back to the committed offsets. It stays `_behind` if that fails."""
        try:
            committed = self._consumer.committed(self._consumer.assignment(), timeout=_LOOK_UP_S)
            if any(part.error for part in committed):
                return
            for part in committed:
                if part.offset < 0:
                    part.offset = confluent_kafka.OFFSET_BEGINNING
                self._consumer.seek(part)
        except KafkaException as error:
            self._note(error.args[0])
            return
        self._record("sought", committed)
        self._behind = False

    def _on_assign(self, consumer: Consumer, parts: list[confluent_kafka.TopicPartition]) -> None:
        super()._on_assign(consumer, parts)
        if not self._spec.incremental:
            self._behind = False

    def _on_revoke(self, consumer: Consumer, parts: list[confluent_kafka.TopicPartition]) -> None:
        """Commit the processed messages before another member gets the partitions."""
        if self._positions:
            self._end()
        super()._on_revoke(consumer, parts)

    def _on_lost(self, consumer: Consumer, parts: list[confluent_kafka.TopicPartition]) -> None:
        """Abort: another member may have the partitions already."""
        super()._on_lost(consumer, parts)
        if self._positions and self._transactional is not None:
            self._finish(commit=False)
        self._positions = {}

    def _close(self) -> None:
        super()._close()
        producer = self._transactional or self._plain
        if producer is not None:
            producer.close()
