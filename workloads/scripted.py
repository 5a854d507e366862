"""A librdkafka producer for the article's own messages: one message per batch, every attempt counted.

Python is not told librdkafka's "possibly persisted" flag, so the attempts are counted from its statistics:
a message that ended without any ProduceRequest having left definitely was not written.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, Message, Producer

from harness.clock import now_ns
from harness.history.identity import encode
from harness.waiting import wait_until
from workloads.outcomes import classify
from workloads.recorder import Recorder
from workloads.spec import SendResult, Writer

Done = Callable[[SendResult], None]
Counts = dict[int, int]
"""ProduceRequests sent so far by node id (-1: a bootstrap entry)."""


@dataclass
class _Pending:
    seq: int
    sent_ns: int
    topic: str
    partition: int
    label: str
    done: Done
    before: Counts
    alone: bool
    code: int = 0
    offset: int | None = None
    done_ns: int = 0


class ScriptedProducer:
    """One librdkafka producer with a thread of its own that serves its callbacks."""

    def __init__(self, recorder: Recorder, writer: Writer) -> None:
        """Records ``writer`` first, then connects in the background."""
        recorder.register(writer)
        self.writer = writer
        self._recorder = recorder
        self._lock = threading.Lock()
        self._pending: dict[int, _Pending] = {}
        self._answered: list[_Pending] = []
        self._counts: Counts = {}
        self._statistics: dict[str, Any] = {}
        settings = {"batch.num.messages": 1, **writer.settings(), "statistics.interval.ms": 25}
        self._acks = int(settings["acks"])
        self._retries = int(settings["retries"])
        self.producer = Producer({**settings, "stats_cb": self._on_statistics})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=f"writer-{writer.number}", daemon=True)
        self._thread.start()

    def prepare(self, topic: str, within_s: float) -> None:
        """Wait until metadata of ``topic`` is known and, if idempotent, the producer id is assigned.

        Raises WaitTimeoutError.
        """
        name = f"writer {self.writer.number} ({self.writer.name})"
        wait_until(
            lambda: self._knows(topic),
            within_s=within_s,
            awaiting=f"{name} to know the leader of {topic}",
            accept=lambda said: said == "known",
        )
        if self.writer.settings()["enable.idempotence"]:
            wait_until(
                lambda: self._statistics.get("eos", {}).get("idemp_state", "nothing"),
                within_s=within_s,
                awaiting=f"the producer id of {name}",
                accept=lambda state: state == "Assigned",
            )

    def _knows(self, topic: str) -> str:
        try:
            found = self.producer.list_topics(topic, timeout=1.0).topics[topic]
        except KafkaException as error:
            return str(error.args[0].str())
        led = bool(found.partitions) and all(part.leader >= 0 for part in found.partitions.values())
        return "known" if led else f"no leader: {found.error}"

    def send(self, topic: str, partition: int, label: str, done: Done, *, txn: int | None = None) -> None:
        """Record and hand over one message; ``done`` is called from the producer's thread."""
        seq, sent_ns = self._recorder.sent(self.writer.number, topic, partition, label=label, txn=txn)
        with self._lock:
            alone = not self._pending and not self._answered
            for other in [*self._pending.values(), *self._answered]:
                other.alone = False
            entry = _Pending(seq, sent_ns, topic, partition, label, done, dict(self._counts), alone)
            self._pending[seq] = entry
        value = encode(self.writer.number, seq, topic, partition, label)
        try:
            self.producer.produce(
                topic,
                value,
                partition=partition,
                on_delivery=lambda _, message: self._delivered(seq, message),
            )
        except BufferError:
            self._refused(seq, -184)
        except KafkaException as error:
            self._refused(seq, error.args[0].code())

    def close(self) -> None:
        """Give up on what is unanswered and end the thread."""
        self.producer.purge()
        self.producer.flush(1.0)
        self._stop.set()
        self._thread.join(5.0)
        with self._lock:
            answered, self._answered = self._answered, []
        for entry in answered:
            self._finish(entry, None, None)

    def _serve(self) -> None:
        while not self._stop.is_set():
            self.producer.poll(0.1)

    def _refused(self, seq: int, code: int) -> None:
        with self._lock:
            entry = self._pending.pop(seq)
        entry.code, entry.done_ns = code, now_ns()
        self._finish(entry, 0, None)

    def _delivered(self, seq: int, message: Message) -> None:
        error = message.error()
        offset = message.offset()
        with self._lock:
            entry = self._pending.pop(seq)
            entry.code = error.code() if error is not None else 0
            entry.offset = offset if offset is not None and offset >= 0 else None
            entry.done_ns = now_ns()
            self._answered.append(entry)

    def _on_statistics(self, text: str) -> None:
        statistics: dict[str, Any] = json.loads(text)
        self._statistics = statistics
        counts: Counts = {}
        for broker in statistics.get("brokers", {}).values():
            node = int(broker.get("nodeid", -1))
            counts[node] = counts.get(node, 0) + int(broker.get("req", {}).get("Produce", 0))
        with self._lock:
            self._counts = counts
            # Statistics that were drawn up before the answer came say nothing about its last attempt.
            ready = [entry for entry in self._answered if int(statistics["ts"]) * 1000 > entry.done_ns]
            self._answered = [entry for entry in self._answered if entry not in ready]
        for entry in ready:
            grown = {node: n - entry.before.get(node, 0) for node, n in counts.items()}
            used = [node for node, n in grown.items() if n > 0]
            attempts = sum(grown.values()) if entry.alone or not used else None
            self._finish(entry, attempts, used[0] if entry.alone and len(used) == 1 else None)

    def _finish(self, entry: _Pending, attempts: int | None, broker: int | None) -> None:
        outcome = classify(entry.code, acks=self._acks, attempts=attempts, retries=self._retries)
        broker = broker if broker is not None and broker >= 0 else None
        self._recorder.done(
            self.writer.number,
            entry.seq,
            entry.done_ns,
            outcome,
            entry.code,
            offset=entry.offset,
            attempts=attempts,
            broker=broker,
        )
        entry.done(
            SendResult(
                self.writer.number,
                entry.seq,
                entry.topic,
                entry.partition,
                entry.label,
                outcome,
                entry.code,
                entry.offset,
                attempts,
                broker,
                entry.sent_ns,
                entry.done_ns,
            )
        )
