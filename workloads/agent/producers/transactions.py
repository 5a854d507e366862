"""Transactions of one producer, and what the client was told about their ends."""

from __future__ import annotations

from typing import Literal

from confluent_kafka import KafkaError, KafkaException

from harness.clock import now_ns
from harness.errors import UsageError
from workloads.agent.producers.scripted import Done, ScriptedProducer
from workloads.agent.recorder import Recorder
from workloads.protocol.spec import Writer

End = Literal["committed", "aborted", "unknown"]


class TransactionalProducer:
    """A scripted producer whose messages belong to the transaction that is open."""

    def __init__(self, recorder: Recorder, writer: Writer) -> None:
        """Raises UsageError for a writer without a transactional id."""
        if not writer.transactional_id:
            raise UsageError(f"Writer {writer.number} ({writer.name}) has no transactional_id; give it one.")
        self.scripted = ScriptedProducer(recorder, writer)
        self._recorder = recorder
        self._number = writer.number
        self._txn: int | None = None
        self._next = 0

    def initialise(self, within_s: float) -> None:
        """Get a producer id and fence earlier producers of this transactional id. Raises KafkaException."""
        self.scripted.producer.init_transactions(within_s)

    def begin(self) -> int:
        """Open the next transaction; returns its number."""
        self.scripted.producer.begin_transaction()
        self._txn, self._next = self._next, self._next + 1
        self._event("begin", 0)
        return self._txn

    def send(self, topic: str, partition: int, label: str, done: Done) -> None:
        """Send one message inside the open transaction. Raises UsageError when none is open."""
        if self._txn is None:
            raise UsageError(f"Writer {self._number} has no open transaction; begin one before the send.")
        self.scripted.send(topic, partition, label, done, txn=self._txn)

    def finish(self, commit: bool, within_s: float) -> tuple[End, int]:
        """Commit or abort. Returns how it ended and the error code; unanswered ends are `unknown`."""
        producer = self.scripted.producer
        end: End = "committed" if commit else "aborted"
        code = 0
        try:
            if commit:
                producer.commit_transaction(within_s)
            else:
                producer.abort_transaction(within_s)
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            end, code = "unknown", cause.code()
            if cause.txn_requires_abort():
                end = self._abort(within_s)
        self._event(end, code)
        self._txn = None
        return end, code

    def _abort(self, within_s: float) -> End:
        try:
            self.scripted.producer.abort_transaction(within_s)
        except KafkaException:
            return "unknown"
        return "aborted"

    def _event(self, event: str, code: int) -> None:
        self._recorder.journal.write(
            "transactions", ns=now_ns(), writer=self._number, txn=self._txn, event=event, error=code
        )
