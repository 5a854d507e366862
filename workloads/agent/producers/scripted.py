"""The librdkafka producer of a scenario's own messages: one message per batch, every attempt counted."""

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
from workloads.agent.producers.outcomes import QUEUE_FULL, classify, stated_offset
from workloads.agent.producers.producer import AgentProducer, Reply, Work
from workloads.agent.producers.recorder import Recorder, SentMessage
from workloads.agent.producers.request_log import Attempts, Position, RequestLog
from workloads.agent.producers.serving import flush, poll
from workloads.protocol.commands import Prepare, ProducerCommand, Send
from workloads.protocol.results import SendResult
from workloads.protocol.spec import ProducerSpec

Done = Callable[[SendResult], None]
_NEVER_SENT = Attempts((), all_refused=True)


@dataclass(kw_only=True)
class _Pending:
    message: SentMessage
    done: Done
    before: Position
    """End of the request log when the client got the message."""
    alone: bool
    """Whether no other message was in flight at the same time."""


class ScriptedProducer(AgentProducer):
    """One librdkafka producer, and a thread of its own that serves its callbacks."""

    def __init__(self, recorder: Recorder, spec: ProducerSpec) -> None:
        """Record the producer, then connect in the background."""
        super().__init__(recorder, spec)
        self._lock = threading.Lock()
        self._pending: dict[int, _Pending] = {}
        self._idempotence_state = ""
        config = spec.librdkafka_config()
        self._acks = int(config["acks"])
        self._retries = int(config["retries"])
        self._requests = RequestLog(self._acks)
        settings: dict[str, Any] = {  # the configuration and callbacks of several types
            "batch.num.messages": 1,
            **config,
            "debug": "msg",
            "logger": self._requests.logger(spec.name),
            "statistics.interval.ms": 25,
        }
        if config["enable.idempotence"]:
            settings |= {"stats_cb": self._on_statistics, "statistics.interval.ms": 50}
        self.producer = Producer(settings)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=f"producer-{spec.writer}", daemon=True)
        self._thread.start()

    def dispatch(self, command: ProducerCommand[object], reply: Reply) -> Work | None:
        """Begin a `Prepare` or a `Send`."""
        match command:
            case Prepare(topic=topic, within_s=within_s):
                return lambda: self.prepare(topic, within_s)
            case Send(topic=topic, partition=partition, label=label):
                self.send(topic, partition, label, reply)
                return None
        raise self.lacks(command)

    def prepare(self, topic: str, within_s: float) -> None:
        """Wait until the metadata of ``topic`` is known and, if idempotent, the producer id is assigned.

        Raises WaitTimeoutError.
        """
        name = f"producer {self.spec.writer} ({self.spec.name})"
        wait_until(
            lambda: self._metadata(topic),
            within_s=within_s,
            awaiting=f"{name} to know the leaders of {topic}",
            accept=lambda state: state == "known",
        )
        if self.spec.librdkafka_config()["enable.idempotence"]:
            wait_until(
                lambda: self._idempotence_state,
                within_s=within_s,
                awaiting=f"the producer id of {name}",
                accept=lambda state: state == "Assigned",
            )

    def _metadata(self, topic: str) -> str:
        try:
            topic_metadata = self.producer.list_topics(topic, timeout=1.0).topics[topic]
        except KafkaException as error:
            return str(error.args[0].str())
        led = bool(topic_metadata.partitions) and all(
            part.leader >= 0 for part in topic_metadata.partitions.values()
        )
        return "known" if led else f"no leader: {topic_metadata.error}"

    def send(self, topic: str, partition: int, label: str, done: Done, *, txn: int | None = None) -> None:
        """Record one message and hand it over. The producer's thread calls ``done`` with its outcome."""
        message = self.recorder.sent(self.spec.writer, topic, partition, label=label, txn=txn)
        with self._lock:
            alone = not self._pending
            for other in self._pending.values():
                other.alone = False
            self._pending[message.seq] = _Pending(
                message=message, done=done, before=self._requests.position(), alone=alone
            )
        value = encode(message.writer, message.seq, topic, partition, label)
        timestamp_ms = self.spec.timestamp_ms()
        try:
            self.producer.produce(
                topic,
                value,
                partition=partition,
                on_delivery=lambda _, report: self._delivered(message.seq, report),
                **({} if timestamp_ms is None else {"timestamp": timestamp_ms}),
            )
        except BufferError:
            self._finish(message.seq, QUEUE_FULL, attempts=_NEVER_SENT)
        except KafkaException as error:
            self._finish(message.seq, error.args[0].code(), attempts=_NEVER_SENT)

    def close(self) -> None:
        """Discard messages without an outcome, and end the thread."""
        self.producer.purge()
        flush(self.producer, 1.0)
        self._stop.set()
        self._thread.join(5.0)

    def _serve(self) -> None:
        while not self._stop.is_set():
            poll(self.producer, 0.1)

    def _delivered(self, seq: int, report: Message) -> None:
        error = report.error()
        code = error.code() if error is not None else 0
        self._finish(seq, code, offset=stated_offset(report.offset()))

    def _on_statistics(self, text: str) -> None:
        self._idempotence_state = json.loads(text).get("eos", {}).get("idemp_state", "")

    def _finish(
        self, seq: int, error: int, *, offset: int | None = None, attempts: Attempts | None = None
    ) -> None:
        done_ns = now_ns()
        with self._lock:
            pending = self._pending.pop(seq)
            if attempts is None:
                attempts = self._requests.since(pending.before)
        # The log does not tell apart the requests of messages that were in flight together. And if it shows
        # no request for an acknowledged message, its wording has changed.
        all_seen = (pending.alone or not attempts.brokers) and not (error == 0 and not attempts.brokers)
        count = len(attempts.brokers) if all_seen else None
        outcome = classify(
            error,
            acks=self._acks,
            attempts=count,
            retries=self._retries,
            all_refused=all_seen and attempts.all_refused,
        )
        result = self.recorder.done(
            pending.message,
            done_ns=done_ns,
            outcome=outcome,
            error=error,
            offset=offset,
            attempts=count,
            broker=attempts.brokers[-1] if all_seen and attempts.brokers else None,
        )
        pending.done(result)
