#!/usr/bin/env python3
"""A client program for acked on kafka-python: `acked client check examples/clients/python_client.py`.

It speaks the client protocol (docs/client-protocol.md) and imports nothing from acked. Each producer and each
consumer has a thread of its own, because a client that is cut off may block.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import kafka
from kafka.errors import KafkaError

REFUSED = frozenset({2, 3, 5, 10, 17, 18, 19, 21, 29, 35, 87})
"""Error codes with which a broker says that it has appended nothing. NOT_LEADER_OR_FOLLOWER (6) is among them
unless acks=all: a leader may lose its leadership after the append."""
BLOCK_MS = 1000
"""How long a call of the library may wait for a broker; after that the program checks whether it must end."""
POLL_S = 0.05
_output = threading.Lock()


def say(line: dict[str, Any]) -> None:
    """Write one line of the protocol."""
    with _output:
        sys.__stdout__.write(json.dumps(line) + "\n")
        sys.__stdout__.flush()


def failure(error: BaseException) -> dict[str, Any]:
    """An exception as the protocol describes it."""
    found: dict[str, Any] = {"exception": type(error).__name__, "text": str(error)[:200]}
    code = getattr(error, "errno", -1)
    if isinstance(code, int) and code > 0:
        found["code"] = code
    return found


class Worker:
    """A thread that carries out requests in their order."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def later(self, work: Callable[[], None]) -> None:
        """Do something on the thread."""
        self._work.put(work)

    def answer(self, request: dict[str, Any], work: Callable[[], object]) -> None:
        """Do something on the thread, then answer the request."""

        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - whatever the library raises is the answer
                say({"id": request["id"], "error": failure(error)})
                return
            say({"id": request["id"], "result": {}})

        self.later(run)

    def _run(self) -> None:
        while True:
            self._work.get()()


class Producer(Worker):
    """One producer of kafka-python."""

    def __init__(self, number: int, properties: dict[str, str], age_ms: int | None) -> None:
        super().__init__()
        self.number = number
        self.age_ms = age_ms
        self.acks = int(properties["acks"].replace("all", "-1"))
        self.retries = int(properties["retries"])
        self.idempotent = properties.get("enable.idempotence") == "true"
        self.properties = properties
        self.pending: dict[int, object] = {}
        self.producer: kafka.KafkaProducer | None = None
        self.closing = threading.Event()

    def check(self) -> None:
        """Refuse what this program cannot do."""
        if "transactional.id" in self.properties:
            raise ValueError("this program has no transactions")

    def start(self) -> None:
        """Create the library's producer, which kafka-python does only if a broker answers."""
        while self.producer is None and not self.closing.is_set():
            try:
                self.producer = self.created()
            except KafkaError:
                self.closing.wait(POLL_S)

    def created(self) -> kafka.KafkaProducer:
        """The library's producer. Settings that are left out have no equivalent, or no effect on outcomes."""
        given = self.properties
        return kafka.KafkaProducer(
            bootstrap_servers=given["bootstrap.servers"].split(","),
            client_id=given.get("client.id", "python"),
            acks="all" if self.acks == -1 else self.acks,
            retries=self.retries,
            enable_idempotence=self.idempotent,
            max_in_flight_requests_per_connection=1,
            request_timeout_ms=int(given["request.timeout.ms"]),
            delivery_timeout_ms=int(given["delivery.timeout.ms"]),
            bootstrap_timeout_ms=BLOCK_MS,
            max_block_ms=BLOCK_MS,
            retry_backoff_ms=100,
            reconnect_backoff_ms=50,
            reconnect_backoff_max_ms=500,
            metadata_max_age_ms=1000,
            linger_ms=0,
            batch_size=0,
        )

    def knows(self, topic: str, deadline: float) -> bool:
        """Wait until the topic's partitions are known; returns False if they are not in time."""
        while True:
            try:
                if self.producer is not None and self.producer.partitions_for(topic):
                    return True
            except KafkaError:
                pass
            if time.monotonic() > deadline or self.closing.wait(POLL_S):
                return False

    def send(self, message: dict[str, Any], handed_over: float) -> None:
        """Send one message and report its outcome when it is known."""
        seq = message["seq"]
        self.pending[seq] = None
        if not self.knows(message["topic"], handed_over + int(self.properties["delivery.timeout.ms"]) / 1000):
            self.report(seq, "fail", error=TimeoutError("the topic is not known"))
            return
        assert self.producer is not None
        try:
            future = self.producer.send(
                message["topic"],
                message["value"].encode("latin-1"),
                partition=message["partition"],
                timestamp_ms=None if self.age_ms is None else int(time.time() * 1000) - self.age_ms,
            )
        except Exception as error:  # noqa: BLE001 - it never reached the queue
            self.report(seq, "fail", error=error)
            return
        # With acks=0 no broker names an offset, whatever the library says.
        future.add_callback(
            lambda record: self.report(seq, "ok", offset=None if self.acks == 0 else record.offset)
        )
        future.add_errback(lambda error: self.report(seq, self.outcome(error), error=error))

    def outcome(self, error: BaseException) -> str:
        """`fail` only if the one attempt was answered with a refusal."""
        code = getattr(error, "errno", -1)
        once = self.retries == 0 and not self.idempotent
        refused = code in REFUSED or (code == 6 and self.acks != -1)
        return "fail" if once and refused and isinstance(error, KafkaError) else "info"

    def report(
        self, seq: int, outcome: str, offset: int | None = None, error: BaseException | None = None
    ) -> None:
        """Report an outcome, once."""
        if self.pending.pop(seq, self) is self:
            return
        line: dict[str, Any] = {
            "producer": self.number,
            "seq": seq,
            "outcome": outcome,
            "ns": time.monotonic_ns(),
        }
        if offset is not None and offset >= 0:
            line["offset"] = offset
        if error is not None:
            line["error"] = failure(error)
        say({"outcome": line})

    def connect(self, topic: str, within_ms: int) -> None:
        """Wait until the topic's partitions are known."""
        if not self.knows(topic, time.monotonic() + within_ms / 1000):
            raise TimeoutError(f"{topic} is not known")

    def flush(self, within_ms: int) -> None:
        """Wait until every message has an outcome."""
        if self.producer is not None:
            self.producer.flush(within_ms / 1000)

    def close(self, within_ms: int) -> None:
        """Close, and report messages that have no outcome by then."""
        if self.producer is not None:
            self.producer.close(timeout=within_ms / 1000)
        for seq in list(self.pending):
            self.report(seq, "info", error=TimeoutError("the producer was closed"))


class Consumer:
    """One consumer of kafka-python and its thread."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.number = request["consumer"]
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        """Read until it is stopped."""
        try:
            consumer = self.create()
        except Exception as error:  # noqa: BLE001 - whatever the library raises is the answer
            say({"id": self.request["id"], "error": failure(error)})
            return
        say({"id": self.request["id"], "result": {}})
        while not self.stop.is_set():
            try:
                self.poll(consumer)
            except KafkaError as error:
                say({"problem": {"consumer": self.number, "error": failure(error)}})
                self.stop.wait(0.1)
        consumer.close(autocommit=False)

    def create(self) -> kafka.KafkaConsumer:
        """Create the consumer and point it at its partitions."""
        given = self.request["properties"]
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=given["bootstrap.servers"].split(","),
            client_id=given.get("client.id", "python"),
            group_id=given.get("group.id"),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=given.get("isolation.level", "read_uncommitted"),
        )
        if "subscribe" in self.request:
            consumer.subscribe(self.request["subscribe"])
        else:
            consumer.assign([kafka.TopicPartition(*one) for one in self.request["assign"]])
            consumer.seek_to_beginning()
        return consumer

    def poll(self, consumer: kafka.KafkaConsumer) -> None:
        """Report what one poll returns, then commit."""
        batches = consumer.poll(timeout_ms=200)
        records = [
            [one.topic, one.partition, one.offset, None, one.value.decode("latin-1")]
            for batch in batches.values()
            for one in batch
        ]
        if not records:
            return
        say({"records": {"consumer": self.number, "ns": time.monotonic_ns(), "records": records}})
        if self.request["commit"]:
            consumer.commit()

    def close(self, within_ms: int) -> None:
        """Stop, and wait."""
        self.stop.set()
        self.thread.join(within_ms / 1000)


class Program:
    """Reads requests until the input ends."""

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, Consumer] = {}

    def run(self) -> None:
        """Greet and serve."""
        say(
            {
                "hello": {
                    "protocol": 1,
                    "client": "kafka-python",
                    "version": kafka.__version__,
                    "features": ["idempotence", "groups", "timestamps"],
                    "ns": time.monotonic_ns(),
                }
            }
        )
        for line in sys.stdin:
            request = json.loads(line)
            self.carry_out(request)
            if request["op"] == "quit":
                return

    def carry_out(self, request: dict[str, Any]) -> None:
        """Carry out one request. All except `quit` continue in a thread."""
        op = request["op"]
        if op == "create_producer":
            producer = Producer(request["producer"], request["properties"], request.get("event_age_ms"))
            self.producers[producer.number] = producer
            producer.answer(request, producer.check)
            producer.later(producer.start)
        elif op == "create_consumer":
            self.consumers[request["consumer"]] = Consumer(request)
        elif op == "close_consumer":
            consumer = self.consumers[request["consumer"]]
            Worker().answer(request, lambda: consumer.close(request["within_ms"]))
        elif op == "quit":
            self.quit(request)
        else:
            self.ask(self.producers[request["producer"]], request)

    def ask(self, producer: Producer, request: dict[str, Any]) -> None:
        """Carry out a request about a producer."""
        op = request["op"]
        if op == "send":
            now = time.monotonic()
            for message in request["messages"]:
                producer.later(lambda message=message: producer.send(message, now))
        elif op == "connect":
            Worker().answer(request, lambda: producer.connect(request["topic"], request["within_ms"]))
        elif op == "flush":
            producer.answer(request, lambda: producer.flush(request["within_ms"]))
        elif op == "close_producer":
            producer.closing.set()  # requests that still wait for a broker are no longer sent
            producer.answer(request, lambda: producer.close(request["within_ms"]))
        else:
            say({"id": request["id"], "error": {"text": f"this program has no operation {op}"}})

    def quit(self, request: dict[str, Any]) -> None:
        """Close everything, side by side."""
        within_ms = request["within_ms"]
        for producer in self.producers.values():
            producer.closing.set()
        closing = [
            threading.Thread(target=one.close, args=(within_ms,), daemon=True)
            for one in (*self.producers.values(), *self.consumers.values())
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(within_ms / 1000 + 0.5)
        say({"id": request["id"], "result": {}})


if __name__ == "__main__":
    sys.stdout = sys.stderr  # standard output is for lines of the protocol only
    Program().run()
