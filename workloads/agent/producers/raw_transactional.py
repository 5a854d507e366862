"""The raw transactional producer: each request goes to the named broker, and may be held back.

For a held request, the request is made and its connection opened when a client would send it, but it is sent
only when the scenario says so. It stands for bytes that wait in a send queue while the client, which got no
answer, asks another broker.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.clock import now_ns
from harness.errors import UsageError
from harness.history.identity import encode
from harness.kafka.model import Endpoint, ProducerIdentity, TopicPartition
from harness.kafka.wire.connection import Connection, NoAnswerError, NotSentError
from harness.kafka.wire.transactions import (
    CONCURRENT_TRANSACTIONS,
    RETRIABLE,
    VERSIONS,
    PreparedRequest,
    add_offsets,
    add_partition,
    commit_offsets,
    end_request,
    ended,
    init_producer_id,
    produce_request,
    produced,
)
from workloads.agent.producers.connections import Connections
from workloads.agent.producers.outcomes import (
    NO_ANSWER,
    NOT_CONNECTED,
    TIMED_OUT,
    classify,
    connection_error,
    refuses,
)
from workloads.agent.producers.producer import AgentProducer, Reply, Work
from workloads.agent.producers.raw import GRACE_S
from workloads.agent.producers.recorder import Recorder, SentMessage
from workloads.agent.producers.sent_offsets import SentOffsets
from workloads.protocol.commands import (
    AddPartition,
    BeginTransaction,
    CloseConnection,
    Deliver,
    EndTransaction,
    HoldEnd,
    HoldSend,
    InitTransactions,
    OpenConnection,
    ProducerCommand,
    RequestCommand,
    Send,
    SendOffsets,
)
from workloads.protocol.results import Delivered, Held, SendResult, TransactionEnd
from workloads.protocol.spec import ProducerSpec

_RETRY_S = 0.1
"""Pause before a request is repeated, as with real clients (retry.backoff.ms)."""
_ATTEMPT_S = 1.0
"""Time for a broker's answer to a ProduceRequest beyond the time-out that the request names."""
_Answer = tuple[int, Any]
"""An error code, negative where the connection failed, and the decoded answer."""
_Ask = Callable[[Connection, float], int]
"""Sends a request over a connection and waits this many seconds for the answer; returns the error code."""


@dataclass(kw_only=True)
class _Kept:
    asked: PreparedRequest
    connection: Connection
    message: SentMessage | None = None
    """Of a ProduceRequest."""


@dataclass(kw_only=True)
class _Sequences:
    """The next sequence number of each partition; they begin anew with each epoch."""

    next: dict[TopicPartition, int] = field(default_factory=dict)

    def take(self, partition: TopicPartition) -> int:
        taken = self.next.get(partition, 0)
        self.next[partition] = taken + 1
        return taken

    def give_back(self, partition: TopicPartition, sequence: int) -> None:
        """Use the number again for the next message, because nothing was written with it."""
        if self.next.get(partition) == sequence + 1:
            self.next[partition] = sequence


class RawTransactionalProducer(AgentProducer):
    """A transactional producer without metadata. It does not repeat requests that got no answer."""

    def __init__(self, recorder: Recorder, spec: ProducerSpec) -> None:
        super().__init__(recorder, spec)
        self._connections = Connections(spec)
        self._generation = spec.transaction_protocol
        self._lock = threading.Lock()
        self._identity: ProducerIdentity | None = None
        self._sequences = _Sequences()
        self._added: set[TopicPartition | str] = set()
        """Partitions and groups that are part of the open transaction."""
        self._offsets = SentOffsets(recorder.journal, spec.writer)
        self._txn: int | None = None
        self._next_txn = 0
        self._held: dict[int, _Kept] = {}
        self._numbers = itertools.count(1)
        self._closing = threading.Event()

    def dispatch(self, command: ProducerCommand[object], reply: Reply) -> Work | None:
        """Begin a command. Those that name the same connection are carried out one after another."""
        match command:
            case InitTransactions():
                return self._in_turn(command, lambda: self.initialise(command))
            case BeginTransaction():
                reply(self.begin())
                return None
            case AddPartition(coordinator=coordinator, within_s=within_s, connection=name):
                place = TopicPartition(command.topic, command.partition)
                return self._in_turn(command, lambda: self._add(place, coordinator, within_s, name))
            case Send():
                return self._in_turn(command, self.send(command))
            case SendOffsets():
                return self._in_turn(command, lambda: self.send_offsets(command))
            case EndTransaction():
                return self._in_turn(command, lambda: self.end(command))
            case OpenConnection() | CloseConnection():
                return self._connections.dispatch(command)
            case HoldSend():
                return lambda: self.hold_send(command)
            case HoldEnd():
                return lambda: self.hold_end(command)
            case Deliver(number=number, within_s=within_s):
                return lambda: self.deliver(number, within_s)
        raise self.lacks(command)

    def _in_turn(self, command: RequestCommand[object], work: Work) -> Work:
        return self._connections.in_turn(command.connection, work)

    def initialise(self, command: InitTransactions) -> int:
        """Get a producer id, repeating the request; returns the error code of the last attempt.

        It is also repeated when a connection fails, unless that one has a name.
        """
        asked_ns = now_ns()
        given: ProducerIdentity | None = None

        def ask(connection: Connection, left_s: float) -> int:
            nonlocal asked_ns, given
            asked_ns = now_ns()
            answer = init_producer_id(
                connection,
                self.spec.transactional_id,
                self.spec.transaction_timeout_ms,
                generation=self._generation,
                timeout_s=left_s,
            )
            given = answer.identity
            if given is not None:
                self._adopt(given)
            return answer.error

        name, coordinator = command.connection, self._required(command.coordinator)
        error = self._repeat_at(coordinator, command.within_s, ask, name, also=() if name else _UNCONNECTED)
        self.recorder.initialised(self.spec.writer, asked_ns=asked_ns, error=error, identity=given)
        return error

    def begin(self) -> int:
        """Begin the next transaction; returns its number."""
        self._required_identity()
        self._txn, self._next_txn = self._next_txn, self._next_txn + 1
        self._added.clear()
        self._offsets.clear()
        self.recorder.transaction(self.spec.writer, self._txn, "begin")
        return self._txn

    def send(self, command: Send) -> Callable[[], SendResult]:
        """Record one message of the open transaction; the result sends it and waits for its outcome.

        A message on a named connection is recorded when its turn comes, because it is not sent before.
        """
        txn, route, name = self._required_txn(), command.route, command.connection
        if route is None:
            raise UsageError(f"A message of {self.spec.name} needs the brokers that its requests go to.")
        partition = TopicPartition(command.topic, command.partition)

        def record() -> SentMessage:
            return self.recorder.sent(self.spec.writer, *partition, label=command.label, txn=txn)

        recorded = None if name else record()

        def work() -> SendResult:
            message = recorded or record()
            limit_s = self.spec.effective_delivery_timeout_s
            added = self._add(partition, route.coordinator, limit_s, name)
            if added:
                return self._done(message, added, (), None, None)
            asked, sequence = self._request(message)
            errors: list[int] = []
            offset: list[int | None] = [None]

            def attempt(left_s: float) -> int:
                with self._connections.to(route.leader, name) as used:
                    failure, answer = _ask(used, asked, min(left_s, self._answer_s))
                error, offset[0] = (failure, None) if answer is None else produced(answer)
                errors.append(error)
                return error

            self._repeat(attempt, limit_s, on=(CONCURRENT_TRANSACTIONS,))
            result = self._done(message, errors[-1], tuple(errors), offset[0], route.leader.node_id)
            if result.outcome == "fail":
                with self._lock:
                    self._sequences.give_back(partition, sequence)
            return result

        return work

    def send_offsets(self, command: SendOffsets) -> int:
        """Let the open transaction commit an offset of a group; returns the error code.

        With v1 it first asks the transaction coordinator to add the group. If that refuses, the offset is not
        part of the transaction.
        """
        txn, identity = self._required_txn(), self._required_identity()
        place = TopicPartition(command.topic, command.partition)
        asked_ns = now_ns()

        def commit(connection: Connection, left_s: float) -> int:
            return commit_offsets(
                connection,
                self.spec.transactional_id,
                identity,
                command.group,
                place,
                command.offset,
                generation=self._generation,
                timeout_s=left_s,
            )

        def add(connection: Connection, left_s: float) -> int:
            return add_offsets(connection, self.spec.transactional_id, identity, command.group, left_s)

        added = 0
        if VERSIONS[self._generation].add_offsets is not None:
            coordinator = self._required(command.coordinator)
            added = self._add_once(command.group, coordinator, command.within_s, add, command.connection)
        if added:
            return added
        group_coordinator = self._required(command.group_coordinator)
        error = self._repeat_at(group_coordinator, command.within_s, commit, command.connection)
        self._offsets.add(
            command.group,
            command.reader,
            [(place, command.offset)],
            txn=txn,
            asked_ns=asked_ns,
            error=error,
            broker=group_coordinator.node_id,
        )
        return error

    def hold_send(self, command: HoldSend) -> Held:
        """Record one message, and keep its ProduceRequest for `deliver`."""
        partition, route = TopicPartition(command.topic, command.partition), command.route
        added = self._add(partition, route.coordinator, self.spec.effective_delivery_timeout_s)
        if added:
            raise UsageError(
                f"{self.spec.name} cannot hold back a message to {partition}: "
                f"the coordinator answered with error {added}."
            )
        message = self.recorder.sent(
            self.spec.writer, *partition, label=command.label, txn=self._required_txn()
        )
        asked, _ = self._request(message)
        return self._hold(_Kept(asked=asked, connection=self._open(route.leader), message=message))

    def hold_end(self, command: HoldEnd) -> Held:
        """Keep the EndTxn request of the open transaction for `deliver`."""
        self._required_txn()
        asked = end_request(
            self.spec.transactional_id,
            self._required_identity(),
            commit=command.commit,
            generation=self._generation,
        )
        return self._hold(_Kept(asked=asked, connection=self._open(command.coordinator)))

    def deliver(self, number: int, within_s: float) -> Delivered:
        """Send a held request once, over its own connection. The answer does not change the state here."""
        held = self._held.pop(number, None)
        if held is None:
            raise UsageError(f"{self.spec.name} holds no request with number {number}.")
        with held.connection as connection:
            error, answer = _ask(connection, held.asked, within_s)
        if held.message is None:
            return Delivered(error=error if answer is None else answer.error_code, offset=None)
        error, offset = (error, None) if answer is None else produced(answer)
        self._done(held.message, error, (error,), offset, held.connection.endpoint.node_id)
        return Delivered(error=error, offset=offset)

    def end(self, command: EndTransaction) -> TransactionEnd:
        """Commit or abort the open transaction. Without an answer it stays open, and may be ended again."""
        writer, txn, commit = self.spec.writer, self._required_txn(), command.commit
        coordinator = self._required(command.coordinator)
        identity = self._required_identity()
        asked = end_request(self.spec.transactional_id, identity, commit=commit, generation=self._generation)
        asked_ns = now_ns()
        self.recorder.transaction(writer, txn, "committing" if commit else "aborting")

        def attempt(left_s: float) -> int:
            with self._connections.to(coordinator, command.connection) as used:
                error, answer = _ask(used, asked, left_s)
            if answer is None:
                return error
            result = ended(answer, self._generation)
            if result.identity is not None:
                self._adopt(result.identity)
            return result.error

        error = self._repeat(attempt, command.within_s)
        end = TransactionEnd("unknown" if error else "committed" if commit else "aborted", error)
        self.recorder.transaction(writer, txn, end.outcome, error)
        self._offsets.ended(end, commit=commit, asked_ns=asked_ns)
        if not error:
            self._txn = None
        return end

    def close(self) -> None:
        """Give up held requests and repetitions."""
        self._closing.set()
        for held in self._held.values():
            held.connection.close()
        self._held.clear()
        self._connections.close()

    @property
    def _answer_s(self) -> float:
        return self.spec.request_timeout_s + GRACE_S

    def _adopt(self, identity: ProducerIdentity) -> None:
        with self._lock:
            if identity != self._identity:
                self._sequences = _Sequences()
            self._identity = identity

    def _request(self, message: SentMessage) -> tuple[PreparedRequest, int]:
        """The request for a message, with its sequence number."""
        spec, partition = self.spec, TopicPartition(message.topic, message.partition)
        with self._lock:
            identity = self._required_identity()
            sequence = self._sequences.take(partition)
        asked = produce_request(
            spec.transactional_id,
            identity,
            partition,
            encode(message.writer, message.seq, *partition, message.label),
            sequence=sequence,
            generation=self._generation,
            timeout_ms=int(spec.request_timeout_s * 1000),
        )
        return asked, sequence

    def _add(
        self, partition: TopicPartition, coordinator: Endpoint, within_s: float, connection: str = ""
    ) -> int:
        """Add a partition to the open transaction if this protocol needs it; returns the error code."""
        if VERSIONS[self._generation].add is None:
            return 0
        identity = self._required_identity()

        def add(connection: Connection, left_s: float) -> int:
            return add_partition(connection, self.spec.transactional_id, identity, partition, left_s)

        return self._add_once(partition, coordinator, within_s, add, connection)

    def _add_once(
        self, what: TopicPartition | str, coordinator: Endpoint, within_s: float, ask: _Ask, connection: str
    ) -> int:
        """Ask the coordinator to add a partition or a group, unless the transaction has it."""
        if what in self._added:
            return 0
        error = self._repeat_at(coordinator, within_s, ask, connection)
        if not error:
            self._added.add(what)
        return error

    def _repeat_at(
        self, broker: Endpoint, within_s: float, ask: _Ask, connection: str, also: tuple[int, ...] = ()
    ) -> int:
        """Repeat a request to a broker, without a name each time over a new connection; returns the error."""

        def attempt(left_s: float) -> int:
            try:
                with self._connections.to(broker, connection) as used:
                    return ask(used, left_s)
            except (NotSentError, NoAnswerError) as error:
                return connection_error(error)

        return self._repeat(attempt, within_s, also=also)

    def _repeat(
        self,
        attempt: Callable[[float], int],
        within_s: float,
        on: tuple[int, ...] = RETRIABLE,
        also: tuple[int, ...] = (),
    ) -> int:
        """Repeat while the answer is one of ``on`` and there is time left; ``attempt`` gets the time left.

        Each attempt has at least a second: if the last one were cut short, its outcome would be unknown
        although the broker had refused all others.
        """
        end = time.monotonic() + within_s
        while True:
            error = attempt(max(_ATTEMPT_S, end - time.monotonic()))
            late = time.monotonic() + _RETRY_S >= end
            if error not in (*on, *also) or late or self._closing.wait(_RETRY_S):
                return error

    def _done(
        self,
        message: SentMessage,
        error: int,
        errors: tuple[int, ...],
        offset: int | None,
        broker: int | None,
    ) -> SendResult:
        attempts = sum(code != NOT_CONNECTED for code in errors)
        return self.recorder.done(
            message,
            done_ns=now_ns(),
            outcome=classify(
                error,
                acks=-1,
                attempts=attempts,
                all_refused=bool(errors) and all(refuses(code, -1) for code in errors),
            ),
            error=error,
            offset=offset,
            attempts=attempts,
            broker=broker if attempts else None,
        )

    def _hold(self, kept: _Kept) -> Held:
        number = next(self._numbers)
        self._held[number] = kept
        return Held(number=number, connection=kept.connection.ends)

    def _open(self, broker: Endpoint) -> Connection:
        connection = Connection(broker, self.spec.connect_timeout_s)
        connection.open()
        return connection

    def _required(self, broker: Endpoint | None) -> Endpoint:
        if broker is None:
            raise UsageError(f"A request of {self.spec.name} needs the broker that it goes to.")
        return broker

    def _required_identity(self) -> ProducerIdentity:
        if self._identity is None:
            raise UsageError(f"{self.spec.name} has no producer id; initialise it before its transactions.")
        return self._identity

    def _required_txn(self) -> int:
        if self._txn is None:
            raise UsageError(
                f"Producer {self.spec.writer} has no open transaction; begin one before it sends."
            )
        return self._txn


_UNCONNECTED = (NOT_CONNECTED, NO_ANSWER, TIMED_OUT)


def _ask(connection: Connection, asked: PreparedRequest, within_s: float) -> _Answer:
    try:
        return 0, connection.call_once(asked.request, asked.response, asked.version, within_s)
    except (NotSentError, NoAnswerError) as error:
        return connection_error(error), None
