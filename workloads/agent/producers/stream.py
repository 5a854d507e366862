"""The background stream: messages at a steady rate. They add volume to a run and show when writes succeed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer, ThrottleEvent

from harness.clock import now_ns
from harness.history.identity import encode
from workloads.agent.producers.outcomes import QUEUE_FULL, classify
from workloads.agent.producers.producer import AgentProducer, Reply, Work
from workloads.agent.producers.recorder import Recorder
from workloads.agent.producers.serving import flush, poll
from workloads.protocol.commands import CountStream, ProducerCommand, StartStream, StopStream
from workloads.protocol.results import StreamCounts
from workloads.protocol.spec import ProducerSpec, StreamLoad

_MIN_WAIT_S = 0.01
_MAX_WAIT_S = 0.5


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
    send: Callable[[int], None],
    wait: Callable[[float], object],
) -> None:
    """Have ``send`` send the messages that are due, until the load is used up or ``stop`` is set.

    ``in_flight`` counts messages without an outcome; ``wait`` is called with seconds in between.
    """
    started, pacer, sent = time.monotonic(), Pacer(load.rate), 0
    while not stop.is_set():
        elapsed_s = time.monotonic() - started
        if elapsed_s > load.max_s or sent >= load.max_count:
            return
        room = load.max_in_flight - in_flight()
        count = pacer.take(elapsed_s, min(room, load.max_count - sent))
        if count:
            send(count)
            sent += count
        wait(min(max(_MIN_WAIT_S, pacer.next_s(time.monotonic() - started)), _MAX_WAIT_S))


class StreamProducer(AgentProducer):
    """One librdkafka producer, and the thread that feeds it until it is stopped."""

    def __init__(self, recorder: Recorder, spec: ProducerSpec) -> None:
        """Record the producer, then connect in the background."""
        super().__init__(recorder, spec)
        self._writer = spec.writer
        self._load: StreamLoad | None = None
        config = spec.librdkafka_config()
        self._config = {**config, "throttle_cb": self._throttled}
        self._throttled_ms = 0.0
        self._acks = int(config["acks"])
        self._retries = int(config["retries"])
        self._producer = Producer(self._config)
        self._ended_fatally = False
        self._sent = 0
        self._outcomes = {"ok": 0, "fail": 0, "info": 0}
        self._done_rows: list[dict[str, object]] = []
        self._flush_s = 5.0
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
        self._load = load
        self._thread.start()

    def close(self) -> None:
        """Stop without waiting for outcomes."""
        if self._load is not None:
            self.stop(0.0)

    def stop(self, flush_s: float) -> StreamCounts:
        """Stop sending and wait ``flush_s`` for outcomes; messages still without one end as `info`."""
        self._flush_s = flush_s
        self._stop.set()
        self._thread.join(flush_s + 10.0)
        return self.counts()

    def counts(self) -> StreamCounts:
        """The messages so far, by outcome."""
        return StreamCounts(
            sent=self._sent,
            **self._outcomes,
            running=self._thread.is_alive(),
            throttled_ms=round(self._throttled_ms),
        )

    def _throttled(self, event: ThrottleEvent) -> None:
        self._throttled_ms += event.throttle_time * 1000

    def _run(self) -> None:
        assert self._load is not None
        feed(
            self._load,
            self._stop,
            in_flight=lambda: len(self._producer),
            send=self._send,
            wait=lambda seconds: self._poll_until(time.monotonic() + seconds),
        )
        flush(self._producer, self._flush_s)
        self._purge()

    def _purge(self) -> None:
        """Messages without an outcome get one now."""
        self._producer.purge()
        flush(self._producer, 2.0)
        self._write_outcomes()

    def _send(self, count: int) -> None:
        assert self._load is not None
        if self._ended_fatally and self._load.renewed:
            self._purge()
            self._producer, self._ended_fatally = Producer(self._config), False
        topic, partitions, size_bytes = self._load.topic, self._load.partitions, self._load.size_bytes
        first = self.recorder.take_seqs(self._writer, count)
        messages = [(seq, partitions[seq % len(partitions)]) for seq in range(first, first + count)]
        self.recorder.journal.write_many(
            "sent",
            [
                {
                    "topic": topic,
                    "partition": partition,
                    "writer": self._writer,
                    "seq": seq,
                    "sent_ns": now_ns(),
                }
                for seq, partition in messages
            ],
        )
        self._sent += count
        for seq, partition in messages:
            value = encode(self._writer, seq, topic, partition, size_bytes=size_bytes)
            try:
                self._producer.produce(
                    topic, value, partition=partition, on_delivery=partial(self._delivered, seq)
                )
            except BufferError:
                self._finish(seq, QUEUE_FULL, attempts=0)
            except KafkaException as error:
                self._ended_fatally |= error.args[0].code() == KafkaError._FATAL
                self._finish(seq, error.args[0].code(), attempts=0)

    def _poll_until(self, deadline: float) -> None:
        while not self._stop.is_set():
            left_s = deadline - time.monotonic()
            poll(self._producer, max(0.0, left_s))
            self._write_outcomes()
            if left_s <= 0:
                return

    def _delivered(self, seq: int, _: object, report: Message) -> None:
        error = report.error()
        offset = report.offset()
        stated_offset = offset if offset is not None and offset >= 0 else None
        self._finish(seq, error.code() if error is not None else 0, offset=stated_offset)

    def _finish(
        self, seq: int, error: int, *, offset: int | None = None, attempts: int | None = None
    ) -> None:
        outcome = classify(error, acks=self._acks, attempts=attempts, retries=self._retries)
        self._outcomes[outcome] += 1
        self._done_rows.append(
            {
                "writer": self._writer,
                "seq": seq,
                "done_ns": now_ns(),
                "outcome": outcome,
                "error": error,
                "offset": offset,
            }
        )

    def _write_outcomes(self) -> None:
        if self._done_rows:
            rows, self._done_rows = self._done_rows, []
            self.recorder.journal.write_many("done", rows)
