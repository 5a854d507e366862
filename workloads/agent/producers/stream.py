"""The background stream: messages at a steady rate, so that a run has volume and availability shows."""

from __future__ import annotations

import threading
import time
from functools import partial

from confluent_kafka import KafkaException, Message, Producer

from harness.clock import now_ns
from harness.history.identity import encode
from workloads.agent.outcomes import classify
from workloads.agent.recorder import Recorder
from workloads.protocol.results import StreamCounts
from workloads.protocol.spec import Load, Writer

_TICK_S = 0.01


class Stream:
    """One librdkafka producer and the thread that feeds it until told to stop."""

    def __init__(self, recorder: Recorder, writer: Writer, load: Load) -> None:
        """Records ``writer`` and starts at once."""
        recorder.register(writer)
        self._recorder = recorder
        self._writer = writer
        self._load = load
        settings = writer.settings()
        self._acks = int(settings["acks"])
        self._retries = int(settings["retries"])
        self._producer = Producer(settings)
        self._sent = 0
        self._outcomes = {"ok": 0, "fail": 0, "info": 0}
        self._done_rows: list[dict[str, object]] = []
        self._flush_s = 5.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stream-{writer.number}", daemon=True)
        self._thread.start()

    def stop(self, flush_s: float) -> StreamCounts:
        """Stop sending, wait ``flush_s`` for answers, give up on the rest (they end as `info`)."""
        self._flush_s = flush_s
        self._stop.set()
        self._thread.join(flush_s + 10.0)
        return self.counts()

    def counts(self) -> StreamCounts:
        """How many messages were sent, and how they ended, up to now."""
        return StreamCounts(self._sent, **self._outcomes, running=self._thread.is_alive())

    def _run(self) -> None:
        started = time.monotonic()
        due_before = 0
        while not self._stop.is_set():
            now = time.monotonic()
            if now - started > self._load.max_s or self._sent >= self._load.max_count:
                break
            debt = int((now - started) * self._load.rate) - due_before
            forgiven = max(0, debt - max(1, int(self._load.rate)))
            due_before += forgiven
            room = self._load.max_in_flight - len(self._producer)
            count = max(0, min(debt - forgiven, room, self._load.max_count - self._sent))
            due_before += count
            if count:
                self._send(count)
            next_s = max(_TICK_S, (due_before + 1) / self._load.rate - (time.monotonic() - started))
            self._poll_until(time.monotonic() + min(next_s, 0.5))
        self._producer.flush(self._flush_s)
        self._producer.purge()
        self._producer.flush(2.0)
        self._write_done()

    def _send(self, count: int) -> None:
        number, load = self._writer.number, self._load
        first = self._recorder.take_seqs(number, count)
        spots = [load.partitions[seq % len(load.partitions)] for seq in range(first, first + count)]
        self._recorder.journal.write_many(
            "sent",
            [
                {
                    "topic": load.topic,
                    "partition": spot,
                    "writer": number,
                    "seq": first + i,
                    "sent_ns": now_ns(),
                }
                for i, spot in enumerate(spots)
            ],
        )
        self._sent += count
        for i, spot in enumerate(spots):
            seq = first + i
            value = encode(number, seq, load.topic, spot, size_bytes=load.size_bytes)
            delivered = partial(self._delivered, seq)
            try:
                self._producer.produce(load.topic, value, partition=spot, on_delivery=delivered)
            except BufferError:
                self._record(seq, -184, None, 0)
            except KafkaException as error:
                self._record(seq, error.args[0].code(), None, 0)

    def _poll_until(self, deadline: float) -> None:
        while not self._stop.is_set():
            left_s = deadline - time.monotonic()
            self._producer.poll(max(0.0, left_s))
            self._write_done()
            if left_s <= 0:
                return

    def _delivered(self, seq: int, _: object, message: Message) -> None:
        error = message.error()
        offset = message.offset()
        known = offset if offset is not None and offset >= 0 else None
        self._record(seq, error.code() if error is not None else 0, known, None)

    def _record(self, seq: int, code: int, offset: int | None, attempts: int | None) -> None:
        outcome = classify(code, acks=self._acks, attempts=attempts, retries=self._retries)
        self._outcomes[outcome] += 1
        self._done_rows.append(
            {
                "writer": self._writer.number,
                "seq": seq,
                "done_ns": now_ns(),
                "outcome": outcome,
                "error": code,
                "offset": offset,
            }
        )

    def _write_done(self) -> None:
        if self._done_rows:
            rows, self._done_rows = self._done_rows, []
            self._recorder.journal.write_many("done", rows)
