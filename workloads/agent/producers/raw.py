"""The raw producer: one ProduceRequest per message to one named broker, without metadata and without retries.

Claims that count exact copies need it: every attempt is a separate message with its own outcome. A series of
such writes shows how long a deposed leader accepts them after a heal. A scenario gives an idempotent raw
producer the sequence number of each message, so that it can leave a gap or repeat a number.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from harness.clock import now_ns
from harness.errors import LabError, UsageError
from harness.history.identity import encode
from harness.kafka.model import ProducerIdentity
from harness.kafka.wire.connection import Connection, NoAnswerError, NotSentError
from harness.kafka.wire.dialect import MODERN
from harness.kafka.wire.produce import BatchSequence, ProduceResult, produce_once
from harness.kafka.wire.transactions import RETRIABLE, IdentityAnswer, init_producer_id
from harness.waiting import wait_until
from workloads.agent.producers.connections import Connections
from workloads.agent.producers.outcomes import NOT_CONNECTED, classify, connection_error, unanswered
from workloads.agent.producers.producer import AgentProducer, Reply, Work
from workloads.agent.producers.recorder import Recorder, SentMessage
from workloads.protocol.commands import (
    CloseConnection,
    OpenConnection,
    Prepare,
    ProducerCommand,
    Send,
    StartPinnedWrites,
    StopPinnedWrites,
    WaitPinnedWrites,
)
from workloads.protocol.results import PinnedWritesResult, SendResult
from workloads.protocol.spec import ProducerSpec

GRACE_S = 1.0
"""Time for the broker's answer beyond the request time-out."""
_ANSWER_S = 5.0
"""Time for a broker to assign a producer id; it may have to get a new block of ids from the controller."""


def send_recorded(
    recorder: Recorder,
    producer: ProducerSpec,
    message: SentMessage,
    of: BatchSequence | None = None,
    over: Connection | None = None,
) -> SendResult:
    """Send a message once that is already recorded as sent, and record its outcome.

    ``over`` is a connection that is kept; without one, the message gets its own. It never raises for errors
    of the network or the broker; they are in the result.
    """
    version = producer.produce_version
    produced = produce_once(
        over or producer.brokers[0],
        message.topic,
        message.partition,
        encode(message.writer, message.seq, message.topic, message.partition, message.label),
        acks=producer.acks,
        timeout_ms=int(producer.request_timeout_s * 1000),
        dialect=replace(MODERN, produce=version, magic=2 if version >= 3 else 1),
        answer_within_s=producer.request_timeout_s + GRACE_S,
        connect_within_s=producer.connect_timeout_s,
        of=of,
        timestamp_ms=producer.timestamp_ms(),
    )
    done_ns = now_ns()
    error = error_code(produced)
    left = produced.status != "unsent"
    attempts = 1 if left else 0
    return recorder.done(
        message,
        done_ns=done_ns,
        outcome=classify(error, acks=producer.acks, attempts=attempts),
        error=error,
        offset=produced.offset,
        attempts=attempts,
        broker=producer.brokers[0].node_id if left else None,
    )


def error_code(produced: ProduceResult) -> int:
    """Kafka's error code, or librdkafka's (negative) for an error of the connection."""
    if produced.status == "unsent":
        return NOT_CONNECTED
    if produced.status == "silent":
        return unanswered(produced.detail)
    return produced.error or 0


class RawProducer(AgentProducer):
    """A raw producer without transactions."""

    def __init__(self, recorder: Recorder, spec: ProducerSpec) -> None:
        super().__init__(recorder, spec)
        self._connections = Connections(spec)
        self._identity: ProducerIdentity | None = None
        self._writes: PinnedWriter | None = None

    def dispatch(self, command: ProducerCommand[object], reply: Reply) -> Work | None:
        """Begin a command about messages, connections, or a series of writes."""
        match command:
            case Prepare():
                return self._prepare(command)
            case Send():
                return self._send(command)
            case OpenConnection() | CloseConnection():
                return self._connections.dispatch(command)
            case StartPinnedWrites():
                self._writes = PinnedWriter(self.recorder, command)
                reply(None)
                return None
            case WaitPinnedWrites(within_s=within_s) if self._writes is not None:
                writes = self._writes
                return lambda: writes.wait(within_s)
            case StopPinnedWrites() if self._writes is not None:
                writes = self._writes
                return lambda: writes.stop(command.limit_s)
        raise self.lacks(command)

    def close(self) -> None:
        """End a series of writes, and close the connections that are kept."""
        if self._writes is not None:
            self._writes.stop(0.0)
        self._connections.close()

    def _prepare(self, command: Prepare) -> Work:
        """Get a producer id, if it is idempotent. Raises LabError if the broker gives none."""

        def work() -> None:
            if self.spec.idempotent:
                self._identity = self._asked_identity(command.within_s, command.connection)

        return self._connections.in_turn(command.connection, work)

    def _send(self, command: Send) -> Work:
        """Record one message; the result sends it and waits for its outcome.

        A message on a named connection is recorded when its turn comes, because it is not sent before.
        """
        spec, name, of = self.spec, command.connection, None
        if command.sequence is not None:
            if self._identity is None:
                raise UsageError(f"{spec.name} has no producer id; prepare it before its first message.")
            of = BatchSequence(self._identity, command.sequence)

        def record() -> SentMessage:
            return self.recorder.sent(spec.writer, command.topic, command.partition, label=command.label)

        recorded = None if name else record()

        def work() -> SendResult:
            with self._connections.to(spec.brokers[0], name) as connection:
                return send_recorded(self.recorder, spec, recorded or record(), of, connection)

        return self._connections.in_turn(name, work)

    def _asked_identity(self, within_s: float, name: str) -> ProducerIdentity:
        spec = self.spec
        broker = spec.brokers[0]

        def asked() -> IdentityAnswer:
            try:
                with self._connections.to(broker, name) as connection:
                    return init_producer_id(connection, "", spec.transaction_timeout_ms, timeout_s=_ANSWER_S)
            except (NotSentError, NoAnswerError) as error:
                return IdentityAnswer(connection_error(error))

        identified = wait_until(
            asked,
            within_s=within_s,
            awaiting=f"{broker.label} to give {spec.name} a producer id",
            # Without a name, each attempt has a new connection; a named one does not come back.
            accept=lambda answer: answer.error not in RETRIABLE and (bool(name) or answer.error >= 0),
        )
        if identified.identity is None:
            raise LabError(f"{broker.label} gave {spec.name} no producer id: error {identified.error}.")
        return identified.identity


class PinnedWriter:
    """The thread that writes one message at an interval until it is stopped or an error ends the series."""

    def __init__(self, recorder: Recorder, command: StartPinnedWrites) -> None:
        """Start at once."""
        self._recorder = recorder
        self._command = command
        self._results: list[SendResult] = []
        self._stop = threading.Event()
        name = f"pinned-{command.producer.writer}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self, within_s: float) -> PinnedWritesResult:
        """Stop after the write in progress."""
        self._stop.set()
        return self.wait(within_s)

    def wait(self, within_s: float) -> PinnedWritesResult:
        """The writes so far, when the series has ended or ``within_s`` has passed."""
        self._thread.join(within_s)
        results = list(self._results)
        acknowledged = [result for result in results if result.ok]
        return PinnedWritesResult(
            sent=len(results),
            ok=len(acknowledged),
            last_error=results[-1].error if results else 0,
            first_ok_ns=acknowledged[0].done_ns if acknowledged else None,
            last_ok_ns=acknowledged[-1].done_ns if acknowledged else None,
            offsets=tuple(result.offset for result in acknowledged if result.offset is not None),
            running=self._thread.is_alive(),
        )

    def _run(self) -> None:
        command = self._command
        due = time.monotonic()
        while not self._stop.is_set() and len(self._results) < command.max_count:
            message = self._recorder.sent(command.producer.writer, command.topic, command.partition)
            result = send_recorded(self._recorder, command.producer, message)
            self._results.append(result)
            if result.error and (command.stop_on is None or result.error in command.stop_on):
                return
            due = max(due + command.every_s, time.monotonic())
            self._stop.wait(max(0.0, due - time.monotonic()))
