"""What every librdkafka consumer here has: a thread that polls until it is stopped, and its progress."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from harness.clock import now_ns
from harness.errors import InvalidRunError
from harness.history.journal import Journal
from workloads.agent.consumers.progress import ReadProgress
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import ConsumerSpec

POLL_MESSAGES = 1000


class LibrdkafkaConsumer:
    """One librdkafka consumer, with a thread of its own."""

    def __init__(
        self, journal: Journal, spec: ConsumerSpec, settings: Mapping[str, object] | None = None
    ) -> None:
        """Connect in the background; ``settings`` override those of ``spec``."""
        self._journal = journal
        self._spec = spec
        self._progress = ReadProgress(spec, journal)
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._consumer = Consumer({**spec.librdkafka_config(), **(settings or {})})
        self._thread = threading.Thread(target=self._run, name=f"consumer-{spec.reader}", daemon=True)

    def start(self) -> None:
        """Read until `stop`."""
        self._thread.start()

    def stop(self, within_s: float) -> ReadResult:
        """Stop reading, without another commit."""
        self._stop.set()
        self._thread.join(within_s)
        return self.progress()

    def progress(self) -> ReadResult:
        """What it has read so far. Raises InvalidRunError if it has ended without `stop`."""
        if self._failure is not None:
            what = f"{type(self._failure).__name__}: {self._failure}"
            raise InvalidRunError(f"The consumer {self._spec.name} ended by itself: {what}.")
        return self._progress.result()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._poll()
        except Exception as error:
            if isinstance(error, KafkaException) and error.args[0].fatal():
                self._note(error.args[0])  # For example: another member has its group.instance.id.
                return
            self._failure = error
            raise  # The thread prints it to the client's log.
        finally:
            self._close()

    def _poll(self) -> None:
        """Consume once and record what was received."""
        self._received(self._consumer.consume(POLL_MESSAGES, 0.2))

    def _close(self) -> None:
        """Close the consumer; a member leaves its group."""
        self._consumer.close()

    def _received(self, messages: list[Message]) -> bool:
        """Record what one poll returned; returns whether there were records."""
        ns = now_ns()  # librdkafka has handed over all of them
        records, failed = [], []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            else:
                failed.append((message, error))
        self._progress.poll += bool(records)
        self._progress.received_all(
            (
                (one.topic(), one.partition(), one.offset(), one.leader_epoch(), one.value())
                for one in records
            ),
            ns,
        )
        for message, error in failed:  # the end of a partition lies behind its records
            self._failed(message, error)
        return bool(records)

    def _failed(self, message: Message, error: KafkaError) -> None:
        """An error in the place of a record."""
        self._note(error)

    def _note(self, error: KafkaError) -> None:
        self._progress.note(error.code(), error.str())
