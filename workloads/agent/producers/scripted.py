"""A librdkafka producer for the article's own messages: one message per batch, every attempt counted."""

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
from workloads.agent.attempts import AttemptLog, Position, Window
from workloads.agent.outcomes import classify
from workloads.agent.recorder import Recorder
from workloads.protocol.results import SendResult
from workloads.protocol.spec import Writer

Done = Callable[[SendResult], None]


@dataclass
class _Pending:
    seq: int
    sent_ns: int
    topic: str
    partition: int
    label: str
    done: Done
    before: Position
    alone: bool


class ScriptedProducer:
    """One librdkafka producer with a thread of its own that serves its callbacks."""

    def __init__(self, recorder: Recorder, writer: Writer) -> None:
        """Records ``writer`` first, then connects in the background."""
        recorder.register(writer)
        self.writer = writer
        self._recorder = recorder
        self._lock = threading.Lock()
        self._pending: dict[int, _Pending] = {}
        self._idempotence = ""
        settings = {
            "batch.num.messages": 1,
            **writer.settings(),
            "statistics.interval.ms": 25,
            "debug": "msg",
        }
        self._acks = int(settings["acks"])
        self._retries = int(settings["retries"])
        self._attempts = AttemptLog(self._acks)
        callbacks: dict[str, Any] = {"logger": self._attempts.logger(writer.name)}
        if settings["enable.idempotence"]:
            callbacks |= {"stats_cb": self._on_statistics, "statistics.interval.ms": 50}
        self.producer = Producer({**settings, **callbacks})
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
                lambda: self._idempotence,
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
            alone = not self._pending
            for other in self._pending.values():
                other.alone = False
            entry = _Pending(seq, sent_ns, topic, partition, label, done, self._attempts.position(), alone)
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

    def _serve(self) -> None:
        while not self._stop.is_set():
            self.producer.poll(0.1)

    def _refused(self, seq: int, code: int) -> None:
        self._finish(seq, code, None, Window((), all_refused=True))

    def _delivered(self, seq: int, message: Message) -> None:
        error = message.error()
        offset = message.offset()
        known = offset if offset is not None and offset >= 0 else None
        self._finish(seq, error.code() if error is not None else 0, known, None)

    def _on_statistics(self, text: str) -> None:
        self._idempotence = json.loads(text).get("eos", {}).get("idemp_state", "")

    def _finish(self, seq: int, code: int, offset: int | None, window: Window | None) -> None:
        done_ns = now_ns()
        with self._lock:
            entry = self._pending.pop(seq)
            window = self._attempts.since(entry.before) if window is None else window
        # Requests of messages that were under way together cannot be told apart; an acknowledgement without
        # any request means that the log speaks another language.
        known = (entry.alone or not window.nodes) and not (code == 0 and not window.nodes)
        attempts = len(window.nodes) if known else None
        broker = window.nodes[-1] if known and window.nodes else None
        outcome = classify(
            code,
            acks=self._acks,
            attempts=attempts,
            retries=self._retries,
            all_refused=known and window.all_refused,
        )
        self._recorder.done(
            self.writer.number,
            entry.seq,
            done_ns,
            outcome,
            code,
            offset=offset,
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
                code,
                offset,
                attempts,
                broker,
                entry.sent_ns,
                done_ns,
            )
        )
