"""A transactional producer, and the outcomes of its transactions."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as KafkaProducer

from harness.clock import now_ns
from harness.errors import UsageError
from harness.kafka.model import TopicPartition as Place
from workloads.agent.producers.producer import AgentProducer, Reply, Work
from workloads.agent.producers.recorder import Recorder
from workloads.agent.producers.scripted import Done, ScriptedProducer
from workloads.agent.producers.sent_offsets import SentOffsets
from workloads.protocol.commands import (
    BeginTransaction,
    EndTransaction,
    InitTransactions,
    Prepare,
    ProducerCommand,
    Send,
    SendOffsets,
)
from workloads.protocol.results import TransactionEnd
from workloads.protocol.spec import ProducerSpec


class TransactionalProducer(AgentProducer):
    """A scripted producer whose messages belong to its open transaction."""

    def __init__(
        self,
        recorder: Recorder,
        spec: ProducerSpec,
        metadata: Callable[[int], object] | None = None,
        *,
        first_txn: int = 0,
    ) -> None:
        """``metadata`` gives librdkafka's metadata of a group by the number of its member in this agent.

        ``first_txn`` is the number of the first transaction if this producer replaces another one.
        """
        super().__init__(recorder, spec)
        self._scripted = ScriptedProducer(recorder, spec)
        self._metadata = metadata
        self._writer = spec.writer
        self._txn: int | None = None
        self._next_txn = first_txn
        self._offsets = SentOffsets(recorder.journal, spec.writer)

    def dispatch(self, command: ProducerCommand[object], reply: Reply) -> Work | None:
        """Begin a command about messages or transactions."""
        match command:
            case Prepare(within_s=within_s):
                return lambda: self.initialise(within_s)
            case InitTransactions(within_s=within_s):
                return lambda: self.try_initialise(within_s)
            case BeginTransaction():
                reply(self.begin())
                return None
            case Send(topic=topic, partition=partition, label=label):
                self.send(topic, partition, label, reply)
                return None
            case SendOffsets(group=group, reader=reader, within_s=within_s) if self._metadata is not None:
                metadata = self._metadata
                part = TopicPartition(command.topic, command.partition, command.offset)
                return lambda: self.send_offsets([part], group, reader, metadata(reader), within_s)
            case EndTransaction(commit=commit, within_s=within_s):
                return lambda: self.end(commit=commit, within_s=within_s)
        raise self.lacks(command)

    @property
    def next_txn(self) -> int:
        """The number of the transaction that begins next."""
        return self._next_txn

    def initialise(self, within_s: float) -> None:
        """Get a producer id, and fence earlier producers of this transactional id. Raises KafkaException."""
        asked_ns = now_ns()
        try:
            self._scripted.producer.init_transactions(within_s)
        except KafkaException as failed:
            self.recorder.initialised(self._writer, asked_ns=asked_ns, error=int(failed.args[0].code()))
            raise
        self.recorder.initialised(self._writer, asked_ns=asked_ns)

    def try_initialise(self, within_s: float) -> int:
        """As `initialise`, but returns the error code."""
        try:
            self.initialise(within_s)
        except KafkaException as error:
            return int(error.args[0].code())
        return 0

    def begin(self) -> int:
        """Begin the next transaction; returns its number."""
        self._scripted.producer.begin_transaction()
        self._txn, self._next_txn = self._next_txn, self._next_txn + 1
        self._record("begin", 0)
        return self._txn

    def send(self, topic: str, partition: int, label: str, done: Done) -> None:
        """Send one message in the open transaction. Raises UsageError if there is none."""
        if self._txn is None:
            raise UsageError(f"Producer {self._writer} has no open transaction; begin one before it sends.")
        self._scripted.send(topic, partition, label, done, txn=self._txn)

    def send_offsets(
        self, offsets: list[TopicPartition], group: str, reader: int, metadata: object, within_s: float
    ) -> int:
        """Let the open transaction commit offsets of a group, whose member ``metadata`` describes.

        Returns the error code. After an error the transaction can only be aborted.
        """
        if self._txn is None:
            raise UsageError(
                f"Producer {self._writer} has no open transaction; begin one before it sends offsets."
            )
        asked_ns = now_ns()
        error = 0
        try:
            self._scripted.producer.send_offsets_to_transaction(offsets, metadata, within_s)
        except KafkaException as failed:
            error = int(failed.args[0].code())
        places = [(Place(part.topic, part.partition), part.offset) for part in offsets]
        self._offsets.add(group, reader, places, txn=self._txn, asked_ns=asked_ns, error=error)
        return error

    def end(self, *, commit: bool, within_s: float) -> TransactionEnd:
        """Commit or abort the open transaction. Aborts it if the commit fails and requires that."""
        asked_ns = now_ns()
        self._record("committing" if commit else "aborting", 0)
        end = ended(
            self._scripted.producer, lambda request: error_of(lambda: request(within_s)), commit=commit
        )
        self._record(end.outcome, end.error)
        self._offsets.ended(end, commit=commit, asked_ns=asked_ns)
        self._offsets.clear()
        self._txn = None
        return end

    def close(self) -> None:
        """Discard messages without an outcome, and end the producer's thread."""
        self._scripted.close()

    def _record(self, event: str, error: int) -> None:
        self.recorder.transaction(self._writer, self._txn, event, error)


def ended(
    producer: KafkaProducer,
    answered: Callable[[Callable[[float], object]], KafkaError | None],
    *,
    commit: bool,
) -> TransactionEnd:
    """Commit or abort the open transaction; a commit that fails may require that it is aborted.

    ``answered`` makes a request, which takes seconds, and returns what it fails with.
    """
    error = answered(producer.commit_transaction if commit else producer.abort_transaction)
    if error is None:
        return TransactionEnd("committed" if commit else "aborted", 0)
    aborted = error.txn_requires_abort() and answered(producer.abort_transaction) is None
    return TransactionEnd("aborted" if aborted else "unknown", int(error.code()))


def error_of(request: Callable[[], object]) -> KafkaError | None:
    """What a request to the coordinator fails with; None: it does not."""
    try:
        request()
    except KafkaException as failed:
        error: KafkaError = failed.args[0]
        return error
    return None
