"""A transactional producer as scenarios use it, and requests of it that the network holds back."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from harness.errors import InvalidRunError
from harness.history.mechanisms import MECHANISMS, Kind
from harness.kafka.model import Endpoint
from nemesis.fault import Evidence, Injection, Targets
from nemesis.network.links import Connection
from run.group_offsets import GroupOffsets
from run.producer import opened
from workloads.client.background import BackgroundConsumer
from workloads.client.client import Client
from workloads.protocol.commands import (
    AddPartition,
    BeginTransaction,
    CloseConnection,
    Deliver,
    EndTransaction,
    HoldEnd,
    HoldSend,
    InitTransactions,
    ProducerCommand,
    Send,
    SendOffsets,
)
from workloads.protocol.results import Delivered, Held, SendResult, TransactionEnd
from workloads.protocol.spec import ProducerSpec, Route

_END_S = 10.0


class HeldRequest:
    """A request that the network holds back: a fault, which is over when the request is delivered.

    The request is made and its connection is opened at once. So its bytes are those that the client would
    have sent at that moment, and its connection is older than the requests that overtake it.
    """

    mechanism = "hold"
    kind: Kind = MECHANISMS[mechanism].kind
    undoable = True
    ends_processes = False

    def __init__(self, what: str, client: Client, broker: Endpoint, command: ProducerCommand[Held]) -> None:
        """``what`` names the request, such as `EndTxn commit`; ``command`` makes it for ``broker``."""
        self.name = f"hold {what} of {command.producer.name} to {broker.label}"
        self.answer: Delivered | None = None
        """What the broker answered when it was delivered."""
        self._client, self._broker, self._command = client, broker, command
        self._what = what
        self._held: Held | None = None

    def targets(self) -> Targets:
        """The link that it would have used, the request, and its producer."""
        links = [f"{self._client.host} -> {self._broker.label}:{self._broker.port}"]
        return {"links": links, "request": self._what, "producer": self._command.producer.name}

    def inject(self) -> None:
        """Make the request and open its connection."""
        self._held = self._client.call(self._command)

    def verify(self) -> Evidence:
        """The connection that waits."""
        if self._held is None or not self._held.connection:
            raise InvalidRunError(f"{self.name}: there is no connection to {self._broker.label}.")
        return {"connection": self._held.connection}

    def heal(self) -> None:
        """Send it, once."""
        if self._held is not None and self.answer is None:
            self.answer = self._client.call(
                Deliver(producer=self._command.producer, number=self._held.number)
            )

    def verify_healed(self) -> Evidence:
        """What the broker answered."""
        if self.answer is None:
            raise InvalidRunError(f"{self.name}: it was not delivered.")
        return {"error": self.answer.error, "offset": self.answer.offset}


@dataclass(frozen=True)
class DelayedRequest:
    """A request that is held back, as scenarios use it."""

    injection: Injection
    """The delay as a fault: it is over when the request is delivered."""
    request: HeldRequest
    """What is held back."""

    def deliver(self) -> Delivered:
        """Send it now, once; returns what the broker answers. The producer does not learn of it."""
        self.injection.heal()
        assert self.request.answer is not None
        return self.request.answer


@dataclass(kw_only=True)
class TransactionalProducer:
    """One transactional producer in one client host.

    With ``via="raw"`` every request goes to exactly one broker: to ``coordinator``, which the scenario may
    change, or to the broker that a message is sent ``to`` (the leader in the metadata store, if none is
    named). It repeats a request only if the answer says that it may succeed later. Each request gets a
    connection of its own, unless the scenario names a `connection`. Other clients choose theirs themselves,
    and refuse a name with InvalidRunError.
    """

    client: Client
    """The client in which it runs."""
    spec: ProducerSpec
    """Its settings, and its number in the history."""
    leader: Callable[[str, int], str]
    """Finds the host that leads a partition."""
    hold: Callable[[HeldRequest], Injection]
    """Makes a fault of a request that is held back."""
    group_coordinator: Callable[[str], str]
    """Finds the host that coordinates a consumer group."""
    coordinator: str = ""
    """Host that a raw producer uses as its coordinator; empty for other producers, which find theirs."""

    def prepare(self, within_s: float = 30.0, *, connection: str = "") -> TransactionalProducer:
        """Get a producer id. Raises InvalidRunError if that fails: use `initialise` where it may."""
        error = self.initialise(within_s, connection=connection)
        if error:
            raise InvalidRunError(
                f"The scenario needs the transactional producer {self.spec.name}, but initialising it ended "
                f"with error {error}."
            )
        return self

    def initialise(self, within_s: float = 30.0, *, connection: str = "") -> int:
        """Get a producer id, and fence older producers with this id; returns the error code, 0 for none.

        Repeated while the coordinator says that it may succeed later, until ``within_s`` has passed. A raw
        producer also repeats it when there is no connection or no answer, unless the connection has a name.
        """
        return self.client.call(
            InitTransactions(
                producer=self.spec,
                within_s=within_s,
                coordinator=self._coordinator,
                connection=connection,
            )
        )

    def begin(self) -> int:
        """Begin a transaction; returns its number, from 0."""
        return self.client.call(BeginTransaction(producer=self.spec))

    def add(self, topic: str, *, partition: int = 0, within_s: float = 5.0, connection: str = "") -> int:
        """Add a partition to a raw producer's transaction, as its first message there would do.

        Returns the error code. With v2 of the protocol it sends no request.
        """
        self._require_raw("add")
        return self.client.call(
            AddPartition(
                producer=self.spec,
                topic=topic,
                partition=partition,
                coordinator=self.client.broker(self.coordinator),
                within_s=within_s,
                connection=connection,
            )
        )

    def send(
        self, topic: str, label: str = "", *, partition: int = 0, to: str = "", connection: str = ""
    ) -> SendResult:
        """Send one message in the open transaction and wait for its outcome."""
        return self.client.call(self._message(topic, label, partition, to, connection))

    def send_later(
        self, topic: str, label: str = "", *, partition: int = 0, to: str = "", connection: str = ""
    ) -> Future[SendResult]:
        """Send one message in the open transaction without waiting for its outcome."""
        return self.client.submit(self._message(topic, label, partition, to, connection))

    def _message(self, topic: str, label: str, partition: int, to: str, connection: str) -> Send:
        return Send(
            producer=self.spec,
            topic=topic,
            partition=partition,
            label=label,
            connection=connection,
            route=self._route(topic, partition, to) if self.spec.via == "raw" else None,
        )

    def _route(self, topic: str, partition: int, to: str) -> Route:
        leader = to or self.leader(topic, partition)
        return Route(leader=self.client.broker(leader), coordinator=self.client.broker(self.coordinator))

    @property
    def _coordinator(self) -> Endpoint | None:
        return self.client.broker(self.coordinator) if self.coordinator else None

    def connection(self, name: str, *, to: str = "") -> Connection:
        """A raw producer's connection that is kept under this name; it is opened if it is not open.

        ``to`` is the broker, by default the coordinator: a name stands for one connection to each broker that
        is asked with it. Operations with this name use it until `close_connection`, one after another, each
        when the one before is answered or given up. If it breaks, they fail and open no other one. Raises
        InvalidRunError if it has broken or cannot be opened.
        """
        return opened(self.client, self.spec, name, self.client.broker(to or self.coordinator))

    def close_connection(self, name: str) -> None:
        """Close a raw producer's connections with this name; the next request with it opens another one."""
        self.client.call(CloseConnection(producer=self.spec, connection=name))

    def must_send(
        self, topic: str, label: str, *, partition: int = 0, to: str = "", connection: str = ""
    ) -> SendResult:
        """Send one message that the scenario needs to be acknowledged. Raises InvalidRunError if not."""
        result = self.send(topic, label, partition=partition, to=to, connection=connection)
        if not result.ok:
            raise InvalidRunError(
                f"The scenario needs message {label!r} to be acknowledged, but {self.spec.name} got "
                f"{result.outcome} with error {result.error}."
            )
        return result

    def send_offsets(
        self,
        of: BackgroundConsumer | GroupOffsets,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        within_s: float = _END_S,
        to: str = "",
        connection: str = "",
    ) -> int:
        """Let the open transaction commit an offset of the group ``of``; returns the error code.

        If ``of`` is a member in the same AZ and of the same library, the request carries its id and
        generation, and a coordinator refuses it once the member has lost its place (KIP-447). librdkafka
        needs such a member. Otherwise the request names the group alone. A raw producer asks the host ``to``,
        by default the coordinator of the group, and with v1 of the protocol its own coordinator before that.
        After an error, abort the transaction: if it is committed, the offset may be in it or not.
        """
        consumer = of.consumer if isinstance(of, BackgroundConsumer) else None
        member = consumer is not None and consumer.via == self.spec.via
        if self.spec.via == "librdkafka" and not member:
            raise InvalidRunError(
                f"{self.spec.name} uses librdkafka, whose `send_offsets` needs a member of the group that "
                "uses librdkafka too."
            )
        group = of.group if isinstance(of, GroupOffsets) else of.consumer.group
        raw = self.spec.via == "raw"
        return self.client.call(
            SendOffsets(
                producer=self.spec,
                group=group,
                reader=of.reader if isinstance(of, GroupOffsets) else of.consumer.reader,
                topic=topic,
                partition=partition,
                offset=offset,
                within_s=within_s,
                member=member,
                coordinator=self._coordinator,
                group_coordinator=self.client.broker(to or self.group_coordinator(group)) if raw else None,
                connection=connection,
            )
        )

    def commit(self, within_s: float = _END_S, *, connection: str = "") -> TransactionEnd:
        """Commit the open transaction. Without an answer the outcome is `unknown`.

        A raw producer may then commit or abort it again.
        """
        return self.client.call(self._ending(True, within_s, connection))

    def abort(self, within_s: float = _END_S, *, connection: str = "") -> TransactionEnd:
        """Abort the open transaction."""
        return self.client.call(self._ending(False, within_s, connection))

    def must_end(self, *, commit: bool, within_s: float = _END_S, connection: str = "") -> None:
        """End the open transaction. Raises InvalidRunError if the answer does not confirm that."""
        end = self.client.call(self._ending(commit, within_s, connection))
        needed = "committed" if commit else "aborted"
        if end.outcome != needed:
            raise InvalidRunError(
                f"The scenario needs a transaction of {self.spec.name} to be {needed}, but its outcome is "
                f"{end.outcome}, with error {end.error}."
            )

    def end_later(
        self, *, commit: bool, within_s: float = _END_S, connection: str = ""
    ) -> Future[TransactionEnd]:
        """Commit or abort the open transaction without waiting for the answer."""
        return self.client.submit(self._ending(commit, within_s, connection))

    def hold_send(self, topic: str, label: str, *, partition: int = 0, to: str = "") -> DelayedRequest:
        """Make a raw producer's request for one message, and hold it back on a connection of its own.

        The message counts as sent; what becomes of it is known when the request is delivered.
        """
        self._require_raw("hold_send")
        route = self._route(topic, partition, to)
        command = HoldSend(producer=self.spec, topic=topic, partition=partition, label=label, route=route)
        return self._delay(f"Produce {label}", route.leader, command)

    def hold_end(self, *, commit: bool) -> DelayedRequest:
        """Make a raw producer's request to end the open transaction, and hold it back.

        It stands for the first attempt of a client that gets no answer; `commit` or `abort` is the second
        attempt.
        """
        self._require_raw("hold_end")
        what = f"EndTxn {'commit' if commit else 'abort'}"
        coordinator = self.client.broker(self.coordinator)
        return self._delay(
            what, coordinator, HoldEnd(producer=self.spec, commit=commit, coordinator=coordinator)
        )

    def _delay(self, what: str, broker: Endpoint, command: ProducerCommand[Held]) -> DelayedRequest:
        request = HeldRequest(what, self.client, broker, command)
        return DelayedRequest(self.hold(request).inject(), request)

    def _ending(self, commit: bool, within_s: float, connection: str) -> EndTransaction:
        return EndTransaction(
            producer=self.spec,
            commit=commit,
            within_s=within_s,
            coordinator=self._coordinator,
            connection=connection,
        )

    def _require_raw(self, method: str) -> None:
        if self.spec.via != "raw":
            raise InvalidRunError(
                f"{self.spec.name} uses {self.spec.via}, whose requests cannot be made one by one; "
                f"`{method}` needs via='raw'."
            )
