"""What producers write into the history: every producer, and every message before it leaves."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from harness.clock import now_ns
from harness.errors import UsageError
from harness.history.journal import Journal
from harness.kafka.model import ProducerIdentity
from harness.secrets import shown_properties
from workloads.protocol.java_names import producer_properties
from workloads.protocol.results import Outcome, SendResult
from workloads.protocol.spec import LIBRARIES, PROGRAMS, ConfigValue, ProducerSpec


@dataclass(frozen=True, kw_only=True)
class SentMessage:
    """A message that was recorded as sent and has no outcome yet."""

    writer: int
    seq: int
    topic: str
    partition: int
    label: str
    sent_ns: int


class Recorder:
    """The producers of one agent and the numbers of their messages, on top of its journal. Thread-safe."""

    def __init__(self, journal: Journal, host: str, az: str) -> None:
        """``host`` and ``az`` go into the rows of `writers`."""
        self.journal = journal
        self._host = host
        self._az = az
        self._lock = threading.Lock()
        self._producers: dict[int, ProducerSpec] = {}
        self._next_seq: dict[int, int] = {}

    def register(self, producer: ProducerSpec) -> None:
        """Record ``producer`` if it is new. Raises UsageError if its number was used with other settings."""
        with self._lock:
            earlier = self._producers.get(producer.writer)
            if earlier is not None:
                if earlier != producer:
                    raise UsageError(
                        f"Writer {producer.writer} was used with other settings before ({earlier.name!r}, "
                        f"now {producer.name!r}); give every producer a number of its own."
                    )
                return
            self._producers[producer.writer] = producer
            self._next_seq[producer.writer] = 0
        config: Mapping[str, ConfigValue]
        if producer.via in LIBRARIES:
            config = producer.librdkafka_config()
        elif producer.transactional_id:
            config = {
                "transactional.id": producer.transactional_id,
                "transaction.timeout.ms": producer.transaction_timeout_ms,
                "transaction.protocol": producer.transaction_protocol,
                "request.timeout.ms": int(producer.request_timeout_s * 1000),
                "enable.idempotence": True,
            }
        else:
            config = {
                "broker": str(producer.brokers[0]),
                "request.timeout.ms": int(producer.request_timeout_s * 1000),
                "produce_version": producer.produce_version,
                "enable.idempotence": producer.idempotent,
            }
        self.journal.write(
            "writers",
            writer=producer.writer,
            name=producer.name,
            host=self._host,
            az=self._az,
            role=producer.role,
            client=producer.via,
            acks=int(config.get("acks", producer.acks)),
            idempotent=bool(config.get("enable.idempotence", False)),
            retries=int(config.get("retries", 0)),
            transactional_id=producer.transactional_id or None,
            event_age_ms=producer.event_age_ms,
            config=json.dumps(
                shown_properties(producer_properties(producer) if producer.via in PROGRAMS else config)
            ),
            interval_ns=producer.interval_ns,
        )

    def transaction(self, writer: int, txn: int | None, event: str, error: int = 0) -> None:
        """Record an event of a transaction: a row of `transactions`."""
        self.journal.write("transactions", ns=now_ns(), writer=writer, txn=txn, event=event, error=error)

    def initialised(
        self, writer: int, *, asked_ns: int, error: int = 0, identity: ProducerIdentity | None = None
    ) -> None:
        """Record the answer to InitProducerId: a row of `producer_ids`."""
        self.journal.write(
            "producer_ids",
            ns=now_ns(),
            writer=writer,
            asked_ns=asked_ns,
            error=error,
            producer_id=None if identity is None else identity.producer_id,
            producer_epoch=None if identity is None else identity.epoch,
        )

    def take_seqs(self, writer: int, count: int) -> int:
        """Reserve ``count`` message numbers of a registered producer; returns the first."""
        with self._lock:
            first = self._next_seq[writer]
            self._next_seq[writer] = first + count
        return first

    def sent(
        self, writer: int, topic: str, partition: int, *, label: str = "", txn: int | None = None
    ) -> SentMessage:
        """Record one message that is about to leave, with the transaction it belongs to, if any."""
        message = SentMessage(
            writer=writer,
            seq=self.take_seqs(writer, 1),
            topic=topic,
            partition=partition,
            label=label,
            sent_ns=now_ns(),
        )
        self.journal.write(
            "sent",
            topic=topic,
            partition=partition,
            writer=writer,
            seq=message.seq,
            sent_ns=message.sent_ns,
            label=label or None,
            txn=txn,
        )
        return message

    def done(
        self,
        message: SentMessage,
        *,
        done_ns: int,
        outcome: Outcome,
        error: int,
        offset: int | None,
        attempts: int | None,
        broker: int | None,
    ) -> SendResult:
        """Record the outcome of a message."""
        self.journal.write(
            "done",
            writer=message.writer,
            seq=message.seq,
            done_ns=done_ns,
            outcome=outcome,
            error=error,
            offset=offset,
            attempts=attempts,
            broker=broker,
        )
        return SendResult(
            writer=message.writer,
            seq=message.seq,
            topic=message.topic,
            partition=message.partition,
            label=message.label,
            outcome=outcome,
            error=error,
            offset=offset,
            attempts=attempts,
            broker=broker,
            sent_ns=message.sent_ns,
            done_ns=done_ns,
        )
