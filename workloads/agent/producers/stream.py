"""The background stream: messages at a steady rate. They add volume to a run and show when writes succeed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, ThrottleEvent

from harness.clock import now_ns
from harness.errors import InvalidRunError
from harness.history.identity import SEQ_DIGITS
from harness.history.stream_journal import Counters, StreamJournal, beside
from workloads.agent.producers.cycle import Messages
from workloads.agent.producers.outcomes import classify, stated_offset
from workloads.agent.producers.producer import AgentProducer, Reply, Work
from workloads.agent.producers.recorder import Recorder
from workloads.agent.producers.serving import flush, poll
from workloads.agent.yielding import give_way
from workloads.protocol.commands import CountStream, ProducerCommand, StartStream, StopStream
from workloads.protocol.results import StreamCounts
from workloads.protocol.spec import ProducerSpec, StreamLoad

_MIN_WAIT_S = 0.01
_MAX_WAIT_S = 0.5
_AT_ONCE = 1000
"""Messages that are handed over before callbacks are served: a stream may owe those of a whole second."""
FLUSH_S = 5.0
"""How long a stream that has used up its load waits for outcomes."""


class Pacer:
    """Decides how many messages are due. After a pause it catches up on one second's messages at most."""

    def __init__(self, rate: float) -> None:
        """``rate`` is in messages per second."""
        self._rate = rate
        self._due = 0

    def take(self, elapsed_s: float, at_most: int) -> int:
        """The number of messages to send now, ``elapsed_s`` after the start."""
        owed = int(elapsed_s * self._rate) - self._due
        forgiven = max(0, owed - max(1, int(self._rate)))
        count = max(0, min(owed - forgiven, at_most))
        self._due += forgiven + count
        return count

    def next_s(self, elapsed_s: float) -> float:
        """Seconds until the next message is due; negative if it is overdue."""
        return (self._due + 1) / self._rate - elapsed_s


def feed(
    load: StreamLoad,
    stop: threading.Event,
    *,
    in_flight: Callable[[], int],
    send: Callable[[int, int], None],
    wait: Callable[[float], object],
) -> None:
    """Have ``send`` send the messages that are due, until the load is used up or ``stop`` is set.

    ``send`` gets the number of the first message and how many there are, `_AT_ONCE` at most; ``in_flight``
    counts messages without an outcome; ``wait`` is called with seconds in between.
    """
    started, pacer, sent = time.monotonic(), Pacer(load.rate), 0
    while not stop.is_set():
        elapsed_s = time.monotonic() - started
        if elapsed_s > load.max_s or sent >= load.max_count:
            return
        room = load.max_in_flight - in_flight()
        count = pacer.take(elapsed_s, min(room, load.max_count - sent, _AT_ONCE))
        if count:
            send(sent, count)
            sent += count
        next_s = pacer.next_s(time.monotonic() - started)
        wait(0.0 if count == _AT_ONCE else min(max(_MIN_WAIT_S, next_s), _MAX_WAIT_S))


def unwritable(stream: ProducerSpec, error: OSError) -> InvalidRunError:
    """The error for a journal that cannot be written, for example on a full disk."""
    why = error.strerror or str(error)
    return InvalidRunError(f"The messages of the stream {stream.name} cannot be recorded: {why}.")


def counted(counters: Counters, *, running: bool) -> StreamCounts:
    """A stream's messages, as its journal counts them."""
    return StreamCounts(
        sent=counters.begun, ok=counters.ok, fail=counters.fail, info=counters.info, running=running
    )


class StreamProducer(AgentProducer):
    """One librdkafka producer, and the thread that feeds it until it is stopped."""

    def __init__(self, recorder: Recorder, spec: ProducerSpec) -> None:
        """Record the producer, then connect in the background."""
        super().__init__(recorder, spec)
        config = spec.librdkafka_config()
        self._config = {**config, "throttle_cb": self._throttled}
        self._throttled_ms = 0.0
        self._acks = int(config["acks"])
        self._retries = int(config["retries"])
        self._producer = Producer(self._config)
        self._ended_fatally = False
        self._load: StreamLoad | None = None
        self._problem: InvalidRunError | None = None
        self._ends_s: float | None = None
        """By when it ends, by the monotonic clock; None: it was not stopped."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stream-{spec.writer}", daemon=True)

    def dispatch(self, command: ProducerCommand[object], reply: Reply) -> Work | None:
        """Begin a command about the stream."""
        match command:
            case StartStream(load=load):
                self.start(load)
                reply(None)
                return None
            case CountStream() if self._load is not None:
                reply(self.counts())
                return None
            case StopStream(flush_s=flush_s) if self._load is not None:
                return lambda: self.stop(flush_s)
        raise self.lacks(command)

    def start(self, load: StreamLoad) -> None:
        """Send a load."""
        if load.yields:
            give_way()
        writer = self.spec.writer
        self._messages = Messages(load, writer)
        begin = len(self._messages.head)
        self._seq_digits = slice(begin, begin + SEQ_DIGITS)
        try:
            file = beside(self.recorder.journal.path, writer)
            self._journal = StreamJournal(file, writer, load.targets, load.transaction)
        except OSError as error:
            raise unwritable(self.spec, error) from error
        self._load = load
        self._thread.start()

    def close(self) -> None:
        """Stop without waiting for outcomes."""
        if self._load is not None:
            with contextlib.suppress(InvalidRunError):
                self.stop(0.0)

    def stop(self, flush_s: float) -> StreamCounts:
        """Stop sending and wait ``flush_s`` for outcomes; messages still without one end as `info`.

        Raises InvalidRunError if messages could not be recorded.
        """
        self._ends_s = time.monotonic() + flush_s
        self._stop.set()
        self._thread.join(flush_s + 10.0)
        return self.counts()

    def counts(self) -> StreamCounts:
        """The messages so far, by outcome. Raises InvalidRunError if messages could not be recorded."""
        if self._problem is not None:
            raise self._problem
        counts = counted(self._journal.counters(), running=self._thread.is_alive())
        return replace(counts, throttled_ms=round(self._throttled_ms))

    def _throttled(self, event: ThrottleEvent) -> None:
        self._throttled_ms += event.throttle_time * 1000

    def _run(self) -> None:
        assert self._load is not None
        try:
            feed(
                self._load,
                self._stop,
                in_flight=lambda: len(self._producer),
                send=self._send,
                wait=lambda seconds: self._poll_until(time.monotonic() + seconds),
            )
            self._finish_sending()
        except OSError as error:
            self._problem = unwritable(self.spec, error)
        flush(self._producer, self._left_s)
        self._purge()
        self._journal.close()

    @property
    def _left_s(self) -> float:
        """How long it may still wait for outcomes, for those of messages and of a transaction together."""
        return FLUSH_S if self._ends_s is None else max(0.0, self._ends_s - time.monotonic())

    def _finish_sending(self) -> None:
        """What a stream does after its last message, before it waits for outcomes."""

    def _purge(self) -> None:
        """Messages without an outcome get one now."""
        self._producer.purge()
        flush(self._producer, 2.0)

    def _send(self, first: int, count: int) -> None:
        """Send messages that are due."""
        assert self._load is not None
        if self._ended_fatally and self._load.renewed:
            self._renew()
        self._hand_over(first, count)

    def _renew(self) -> None:
        """Go on with another producer."""
        self._purge()
        self._producer, self._ended_fatally = Producer(self._config), False

    def _hand_over(self, first: int, count: int) -> None:
        """Record messages, and hand them to the library."""
        assert self._load is not None
        targets, journal = self._load.targets, self._journal
        messages: dict[int, list[dict[str, Any]]] = {}
        timestamp_ms = self.spec.timestamp_ms()
        for seq in range(first, first + count):
            planned = self._messages.planned(seq)
            journal.begin(seq, planned.target, now_ns())
            message: dict[str, Any] = {"value": self._messages.value(seq, planned)}
            if planned.key is not None:
                message["key"] = planned.key
            if timestamp_ms is not None:
                message["timestamp"] = timestamp_ms
            messages.setdefault(planned.target, []).append(message)
        for target, batch in messages.items():
            self._produce(*targets[target], batch)

    def _produce(self, topic: str, partition: int, messages: list[dict[str, Any]]) -> None:
        """Hand messages of one partition over: the library ignores the `partition` of a single message."""
        try:
            self._producer.produce_batch(topic, messages, partition=partition, on_delivery=self._delivered)
        except KafkaException as error:
            for message in messages:
                message.setdefault("_error", error.args[0])
        for message in messages:
            refused = message.get("_error")
            if refused is not None:
                self._ended_fatally |= refused.code() == KafkaError._FATAL
                self._finish(self._seq(message["value"]), refused.code(), attempts=0)

    def _poll_until(self, deadline: float) -> None:
        while not self._stop.is_set():
            left_s = deadline - time.monotonic()
            poll(self._producer, max(0.0, left_s))
            self._journal.counters()
            if left_s <= 0:
                return

    def _delivered(self, error: KafkaError | None, report: Message) -> None:
        value = report.value()
        assert value is not None
        code = error.code() if error is not None else 0
        self._finish(self._seq(value), code, offset=stated_offset(report.offset()))

    def _seq(self, value: bytes) -> int:
        return int(value[self._seq_digits])

    def _finish(
        self, seq: int, error: int, *, offset: int | None = None, attempts: int | None = None
    ) -> None:
        outcome = classify(error, acks=self._acks, attempts=attempts, retries=self._retries)
        self._journal.complete(seq, done_ns=now_ns(), outcome=outcome, error=error, offset=offset)
