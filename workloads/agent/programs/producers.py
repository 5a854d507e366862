"""A producer that runs in a client program: its messages and its transactions."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from harness.clock import now_ns
from harness.errors import InvalidRunError, LabError, UsageError
from harness.history.identity import encode
from harness.kafka.model import TopicPartition
from harness.secrets import redacted
from workloads.agent.producers.outcomes import stated_offset
from workloads.agent.producers.producer import AgentProducer, Reply, Work
from workloads.agent.producers.recorder import Recorder, SentMessage
from workloads.agent.producers.sent_offsets import SentOffsets
from workloads.agent.programs.exceptions import error_code, java_outcome
from workloads.agent.programs.process import ANSWER_S, Answered, RunningProgram
from workloads.protocol.codec import Json
from workloads.protocol.commands import (
    BeginTransaction,
    EndTransaction,
    InitTransactions,
    Prepare,
    ProducerCommand,
    Send,
    SendOffsets,
)
from workloads.protocol.java_names import producer_properties
from workloads.protocol.lines import HELLO_S, TIMESTAMPS, Event, Failure, OutcomeEvent, shown, value_text
from workloads.protocol.results import Outcome, SendResult, TransactionEnd
from workloads.protocol.spec import Config, ProducerSpec

_LONGEST_TEXT = 180
"""Characters of the text of an error that a message shows."""


class ProgramProducer(AgentProducer):
    """One producer in a program. `send` does not wait; the future is the message's outcome."""

    def __init__(self, recorder: Recorder, spec: ProducerSpec, program: RunningProgram) -> None:
        """Record the producer, and let the program create it."""
        age_ms = spec.event_age_ms
        for needed, feature in (
            (spec.idempotent, "idempotence"),
            (spec.transactional_id, "transactions"),
            (age_ms is not None, TIMESTAMPS),
        ):
            if needed:
                program.require(feature, f"the producer {spec.name}")
        super().__init__(recorder, spec)
        self.program = program
        self._lock = threading.Lock()
        self._pending: dict[int, tuple[SentMessage, Future[SendResult]]] = {}
        self._acks = int(spec.librdkafka_config()["acks"])
        self._retries = int(spec.librdkafka_config()["retries"])
        self._refused: InvalidRunError | None = None
        self._txn: int | None = None
        self._next_txn = 0
        self._offsets = SentOffsets(recorder.journal, spec.writer)
        program.handle("producer", spec.writer, self.done)
        program.at_end(self._fail_all)
        properties: dict[str, Json] = dict(producer_properties(spec))
        self._creation = program.submit(
            "create_producer",
            producer=spec.writer,
            properties=properties,
            **({} if age_ms is None else {"event_age_ms": age_ms}),
        )
        self._creation.add_done_callback(self._created)

    def dispatch(self, command: ProducerCommand[object], reply: Reply) -> Work | None:
        """Begin a command about messages or transactions."""
        match command:
            case Prepare(within_s=within_s) if self.spec.transactional_id:
                return lambda: self.initialise_transactions(within_s)
            case Prepare(topic=topic, within_s=within_s):
                return lambda: self.connect(topic, within_s)
            case Send(topic=topic, partition=partition, label=label):
                sending = self.send(topic, partition, label)
                return lambda: self.wait(sending)
            case InitTransactions(within_s=within_s):
                return lambda: self.try_initialise_transactions(within_s)
            case BeginTransaction():
                return self.begin_transaction
            case SendOffsets():
                return lambda: self.send_offsets(command)
            case EndTransaction(commit=commit, within_s=within_s):
                return lambda: self.end_transaction(commit=commit, within_s=within_s)
        raise self.lacks(command)

    def wait_created(self) -> None:
        """Wait until the producer exists; a program may start a process for each. Raises InvalidRunError."""
        self.program.hello()
        try:
            failure = self._creation.result(HELLO_S)
        except FutureTimeoutError:
            raise self.program.overdue(
                f"did not create the producer {self.spec.name} within {HELLO_S:g} s"
            ) from None
        if failure is not None:
            raise self._refusal(failure)

    def connect(self, topic: str, within_s: float) -> None:
        """Wait until the producer knows the topic's leaders. Raises LabError."""
        self.require("connect", within_s, topic=topic)

    def send(self, topic: str, partition: int, label: str) -> Future[SendResult]:
        """Record one message and hand it over. Raises UsageError outside a transaction, InvalidRunError."""
        if self._refused is not None:
            raise self._refused
        if self.spec.transactional_id and self._txn is None:
            raise UsageError(
                f"Producer {self.spec.writer} has no open transaction; begin one before it sends."
            )
        message = self.recorder.sent(self.spec.writer, topic, partition, label=label, txn=self._txn)
        value = encode(message.writer, message.seq, topic, partition, label)
        future: Future[SendResult] = Future()
        with self._lock:
            self._pending[message.seq] = (message, future)
        self.hand_over([(message.seq, topic, partition, value)])
        return future

    def hand_over(self, messages: Iterable[tuple[int, str, int, bytes]]) -> None:
        """Give the program messages that are already recorded: number, topic, partition and value of each."""
        lines: list[Json] = [
            {"seq": seq, "topic": topic, "partition": partition, "value": value_text(value)}
            for seq, topic, partition, value in messages
        ]
        self.program.post("send", producer=self.spec.writer, messages=lines)

    def wait(self, future: Future[SendResult]) -> SendResult:
        """The outcome of a message. Raises InvalidRunError if the program does not report it in time."""
        self.wait_created()
        # A message waits for metadata at first, and then for delivery.
        limit_s = 2 * self.spec.effective_delivery_timeout_s + ANSWER_S
        try:
            return future.result(limit_s)
        except FutureTimeoutError:
            raise self.program.overdue(
                f"reported no outcome of a message of {self.spec.name} within {limit_s:.0f} s"
            ) from None

    def require(self, op: str, within_s: float, **fields: Json) -> None:
        """Let the program do something for this producer. Raises LabError if it fails."""
        self.wait_created()
        failure = self.program.request(op, within_s, producer=self.spec.writer, **fields)
        if failure is not None:
            raise self.failed(op, failure)

    def failed(self, op: str, failure: Failure) -> LabError:
        """The error for an operation that failed in the program."""
        return LabError(
            f"`{op}` of {self.spec.name} failed with {described(failure, self.spec.librdkafka_config())}."
        )

    def close(self) -> None:
        """Nothing: the program has closed it; messages without an outcome stay without one."""

    def initialise_transactions(self, within_s: float) -> None:
        """Get a producer id, and fence earlier producers of this transactional id."""
        failure = self._initialise(within_s)
        if failure is not None:
            raise self.failed("init_transactions", failure)

    def try_initialise_transactions(self, within_s: float) -> int:
        """As `initialise_transactions`, but returns the error code."""
        failure = self._initialise(within_s)
        return 0 if failure is None else error_code(failure)

    def _initialise(self, within_s: float) -> Failure | None:
        self.wait_created()
        asked_ns = now_ns()
        failure = self.program.request("init_transactions", within_s, producer=self.spec.writer)
        error = 0 if failure is None else error_code(failure)
        self.recorder.initialised(self.spec.writer, asked_ns=asked_ns, error=error)
        return failure

    def begin_transaction(self) -> int:
        """Begin the next transaction; returns its number."""
        self.require("begin_transaction", ANSWER_S)
        self._txn, self._next_txn = self._next_txn, self._next_txn + 1
        self._record("begin", 0)
        return self._txn

    def send_offsets(self, command: SendOffsets) -> int:
        """Let the open transaction commit an offset of a group; returns the error code."""
        if self._txn is None:
            raise UsageError(
                f"Producer {self.spec.writer} has no open transaction; begin one before it sends offsets."
            )
        fields: dict[str, Json] = {
            "group": command.group,
            "offsets": [[command.topic, command.partition, command.offset]],
        }
        if command.member:
            fields["consumer"] = command.reader
        asked_ns = now_ns()
        failure = self.program.request("send_offsets", command.within_s, producer=self.spec.writer, **fields)
        error = 0 if failure is None else error_code(failure)
        self._offsets.add(
            command.group,
            command.reader,
            [(TopicPartition(command.topic, command.partition), command.offset)],
            txn=self._txn,
            asked_ns=asked_ns,
            error=error,
        )
        return error

    def end_transaction(self, *, commit: bool, within_s: float) -> TransactionEnd:
        """Commit or abort the open transaction. Aborts it if the commit fails and requires that."""
        writer, asked_ns = self.spec.writer, now_ns()
        op = "commit_transaction" if commit else "abort_transaction"
        self._record("committing" if commit else "aborting", 0)
        failure = self.program.request(op, within_s, producer=writer)
        if failure is None:
            end = TransactionEnd("committed" if commit else "aborted", 0)
        else:
            aborted = failure.abortable
            if aborted:
                second = self.program.request("abort_transaction", within_s, producer=writer)
                aborted = second is None
            end = TransactionEnd("aborted" if aborted else "unknown", error_code(failure))
        self._record(end.outcome, end.error)
        self._offsets.ended(end, commit=commit, asked_ns=asked_ns)
        self._offsets.clear()
        self._txn = None
        return end

    def _record(self, event: str, error: int) -> None:
        self.recorder.transaction(self.spec.writer, self._txn, event, error)

    def _created(self, answered: Future[Answered]) -> None:
        if answered.exception() is None and (failure := answered.result()) is not None:
            self._fail_all(self._refusal(failure))

    def _refusal(self, failure: Failure) -> InvalidRunError:
        why = described(failure, self.spec.librdkafka_config())
        return InvalidRunError(f"The client refuses the producer {self.spec.name}: {why}.")

    def _fail_all(self, problem: InvalidRunError) -> None:
        self._refused = problem
        with self._lock:
            orphans, self._pending = self._pending, {}
        for _, future in orphans.values():
            future.set_exception(problem)

    def done(self, event: Event, ns: int) -> None:
        """Take the outcome of a message. Raises ValueError for one that cannot be true."""
        assert isinstance(event, OutcomeEvent)
        with self._lock:
            pending = self._pending.get(event.seq)
        name = f"message {event.producer}/{event.seq}"
        if pending is None:
            raise ValueError(f"{name} is not waiting for an outcome")
        message, future = pending
        require_after(ns, message.sent_ns, name)
        outcome, code = self.outcome_of(event)
        with self._lock:
            del self._pending[event.seq]
        result = self.recorder.done(
            message,
            done_ns=ns,
            outcome=outcome,
            error=code,
            offset=stated_offset(event.offset),
            attempts=event.attempts,
            broker=event.broker,
        )
        future.set_result(result)

    def outcome_of(self, event: OutcomeEvent) -> tuple[Outcome, int]:
        """What an event says of its message, with the error code. Raises ValueError if it says nothing."""
        failure = event.error or Failure()
        if event.outcome == "ok":
            return "ok", 0
        if event.outcome is not None:
            return event.outcome, error_code(failure)
        if event.error is None:
            name = f"message {event.producer}/{event.seq}"
            raise ValueError(f"{name} has neither an outcome nor an error")
        return (
            java_outcome(failure, acks=self._acks, attempts=event.attempts, retries=self._retries),
            error_code(failure),
        )


def require_after(ns: int, sent_ns: int, name: str) -> None:
    """Raise ValueError for a message that ended before it was sent."""
    if ns < sent_ns:
        raise ValueError(f"{name} was sent to the program at {sent_ns} ns, but ended at {ns} ns")


def described(failure: Failure, config: Config) -> str:
    """A failure in words, without the secrets of the configuration that the program was given."""
    name = failure.exception or (f"error {failure.code}" if failure.code is not None else "an error")
    text = f" ({shown(redacted(failure.text, config), _LONGEST_TEXT)})" if failure.text else ""
    return f"{shown(name)}{text}"
