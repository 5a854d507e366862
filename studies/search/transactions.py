"""A producer of a schedule that writes in transactions.

A transaction writes to one partition, stays open for a while, writes to the others, stays open again, and is
then committed or aborted, in turn. After an error that its library cannot recover from, the producer is
replaced by another one with the same transactional.id, as an application would do.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import wait

from harness.errors import AckedError
from harness.kafka.model import TopicPartition
from run.stage import Stage
from run.transactional import TransactionalProducer
from workloads.protocol.results import SendResult, StreamCounts

_SPREAD_S, _READY_S = 0.3, 0.7
"""How long a transaction stays open after its first message, and after the last one."""
_ANSWER_S = 2.0
"""How long a client waits for an answer before it asks over another connection."""
_DELIVERY_S, _MARGIN_S = 10.0, 1.0
_TIMEOUT_S = 15.0
"""`transaction.timeout.ms`"""
_INIT_S = 5.0
_END_S = 60.0
"""Longer than a fault lasts: the library repeats its request until it is answered."""
_PAUSE_S = 0.5
"""After an error."""


class TransactionLoad:
    """A transactional producer at work in a thread of its own."""

    def __init__(
        self,
        stage: Stage,
        az: str,
        name: str,
        partitions: Sequence[TopicPartition],
        in_flight: int,
        succeeds: str = "",
    ) -> None:
        """Start it. ``name`` also names its successors, which get a number each.

        It takes over the transactional.id of the producer ``succeeds``.
        """
        self._stage, self._az, self._name = stage, az, name
        self._identity = f"{partitions[0].topic}-{succeeds or name}"
        self._partitions, self._in_flight = tuple(partitions), in_flight
        self._stop, self._conceded = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._counts = StreamCounts(sent=0, ok=0, fail=0, info=0, running=True)
        self._generation = 0
        self._ended = 0
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def counts(self) -> StreamCounts:
        """Its messages; acknowledged ones count once their transaction has ended as requested."""
        with self._lock:
            return self._counts

    def stop(self, flush_s: float) -> None:
        """End the open transaction, and wait for that at most ``flush_s`` longer than usual."""
        self.abandon()
        self._thread.join(flush_s + _SPREAD_S + _READY_S)

    def concede(self) -> None:
        """Go on until a transaction fails, and then leave the transactional.id to another producer."""
        self._conceded.set()

    def abandon(self) -> None:
        """Begin no further transaction."""
        self._stop.set()

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                producer = self._next()
                while not self._stop.is_set() and self._transaction(producer):
                    continue
            except (AckedError, OSError):
                pass  # the agent has recorded what is known; another producer takes over
            if self._conceded.is_set():
                return
            self._stop.wait(_PAUSE_S)

    def _next(self) -> TransactionalProducer:
        """A producer that has fenced its predecessor, once the coordinator accepts it."""
        self._generation += 1
        stage = self._stage
        # The Java client uses this time-out where librdkafka uses that of a connection's answer.
        config: dict[str, str | int | float | bool] = {
            "max.in.flight.requests.per.connection": self._in_flight
        }
        if stage.library == "librdkafka":
            config["socket.timeout.ms"] = round(_ANSWER_S * 1000)
        else:
            config["max.block.ms"] = round(_END_S * 1000)
        producer = stage.transactional(
            self._az,
            self._identity,
            name=f"{self._name}-{self._generation}",
            via="librdkafka",
            timeout_s=_TIMEOUT_S,
            request_timeout_s=_ANSWER_S,
            delivery_timeout_s=_DELIVERY_S,
            config=config,
        )
        while not self._stop.is_set() and producer.initialise(_INIT_S):
            self._stop.wait(_PAUSE_S)
        return producer

    def _transaction(self, producer: TransactionalProducer) -> bool:
        """Carry out a transaction. Returns whether the producer can begin another one."""
        producer.begin()
        first, *others = self._partitions
        results = self._send(producer, [first])
        self._stop.wait(_SPREAD_S)
        results += self._send(producer, others or [first])
        self._stop.wait(_READY_S)
        commit = self._ended % 2 == 0
        complete = all(result is not None and result.ok for result in results)
        end = producer.commit(_END_S) if commit and complete else producer.abort(_END_S)
        self._ended += 1
        as_asked = end.outcome == ("committed" if commit else "aborted")
        self._count(results, as_asked=as_asked)
        return end.outcome != "unknown" and (as_asked or not self._conceded.is_set())

    def _send(
        self, producer: TransactionalProducer, partitions: Sequence[TopicPartition]
    ) -> list[SendResult | None]:
        """Send a message to each partition, and wait for the outcomes; None if they do not come in time.

        A fenced librdkafka producer reports no outcome before its transaction is aborted.
        """
        label = str(self._ended)
        futures = [producer.send_later(topic, label, partition=partition) for topic, partition in partitions]
        wait(futures, _DELIVERY_S + _MARGIN_S)
        return [future.result() if future.done() else None for future in futures]

    def _count(self, results: Sequence[SendResult | None], *, as_asked: bool) -> None:
        outcomes = Counter("" if result is None else result.outcome for result in results)
        ok, fail = outcomes["ok"] if as_asked else 0, outcomes["fail"]
        before = self._counts
        with self._lock:
            self._counts = StreamCounts(
                sent=before.sent + len(results),
                ok=before.ok + ok,
                fail=before.fail + fail,
                info=before.info + len(results) - ok - fail,
                running=True,
            )
