"""A librdkafka consumer of a share group (KIP-932), which acknowledges each record.

confluent-kafka has share consumers from 2.16 on. They cannot renew a lock (KIP-1222), nor tell its duration.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from harness.clock import now_ns
from harness.errors import InvalidRunError, UnfitError, text_of
from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from workloads.agent.consumers.share_history import SharedOffset, ShareHistory
from workloads.protocol.commands import AnswerRecords
from workloads.protocol.java_names import OF_CONSUMER_GROUPS
from workloads.protocol.results import ReadResult
from workloads.protocol.spec import ConfigValue, ConsumerSpec, ShareAnswer

_POLL_S = 0.2
_FIRST = "2.16"


class LibrdkafkaShareConsumer:
    """A share consumer with a thread of its own: what it is handed, and answers, go into `shares`."""

    def __init__(self, journal: Journal, spec: ConsumerSpec) -> None:
        """Connect in the background. Raises UnfitError if the library lacks what ``spec`` needs."""
        if not hasattr(confluent_kafka, "ShareConsumer"):
            raise UnfitError(
                f"confluent-kafka {confluent_kafka.__version__} has no share consumers like {spec.name}; "
                f"install {_FIRST} or later, or let the member use the Java client."
            )
        if "renew" in spec.answers:
            raise _cannot_renew(spec)
        self._spec = spec
        self._history = ShareHistory(journal, spec)
        self._changed = threading.Condition()
        self._hold = self._stop = False
        self._told: tuple[AnswerRecords, Future[None]] | None = None
        self._handed: set[SharedOffset] = set()
        """What any poll returned."""
        self._failure: Exception | None = None
        self._consumer = confluent_kafka.ShareConsumer(_config(spec))
        self._consumer.set_acknowledgement_commit_callback(self._answered)
        self._thread = threading.Thread(target=self._run, name=f"consumer-{spec.reader}", daemon=True)

    def start(self) -> None:
        """Join the group, and read until `stop`."""
        self._consumer.subscribe(sorted({part.topic for part in self._spec.partitions}))
        self._history.started()
        self._thread.start()

    def hold(self) -> None:
        """Keep the records of the next poll, and poll no more until `answer`."""
        with self._changed:
            self._hold = True

    def answer(self, command: AnswerRecords) -> None:
        """Acknowledge the records that are held, and go on. Refusals by brokers go into the history."""
        if command.answer == "renew":
            raise _cannot_renew(self._spec)
        done: Future[None] = Future()
        with self._changed:
            if not self._hold or self._told is not None:
                raise InvalidRunError(f"{self._spec.name} holds no records.")
            self._told = command, done
            self._changed.notify_all()
        try:
            done.result(command.within_s + 2 * _POLL_S)
        except TimeoutError:
            with self._changed:
                self._told = None
            raise InvalidRunError(
                f"{self._spec.name} has not answered within {command.within_s:g} s; it was handed no records."
            ) from None
        except Exception as error:
            raise InvalidRunError(f"{self._spec.name} cannot answer: {text_of(error)}.") from error

    def stop(self, within_s: float) -> ReadResult:
        """Stop reading; the member leaves its group, which releases what it has not acknowledged."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        self._thread.join(within_s)
        if self._failure is None and not self._thread.is_alive():
            self._history.stopped()
        return self.progress()

    def progress(self) -> ReadResult:
        """The records that it was handed so far, repeated ones included. Raises InvalidRunError."""
        if self._failure is not None:
            what = f"{type(self._failure).__name__}: {self._failure}"
            raise InvalidRunError(f"The share consumer {self._spec.name} ended by itself: {what}.")
        return self._history.result()

    def _run(self) -> None:
        try:
            try:
                while not self._stop:
                    self._poll()
            finally:
                self._consumer.close()  # what it holds is released, and outstanding answers arrive
        except Exception as error:
            self._failure = error
            raise  # The thread prints it to the client's log.

    def _poll(self) -> None:
        try:
            polled = list(self._consumer.poll(_POLL_S))
        except KafkaException as error:
            self._history.note(error.args[0].code(), error.args[0].str())
            with self._changed:  # an error that persists must not keep a processor busy
                self._changed.wait_for(lambda: self._stop, _POLL_S)
            return
        ns = now_ns()
        records = [one for one in polled if one.error() is None]
        for one in polled:
            if (failed := one.error()) is not None:
                self._history.note(failed.code(), failed.str())
        if not records:
            return
        handed = [
            (TopicPartition(one.topic(), one.partition()), one.offset(), one.delivery_count(), one.value())
            for one in records
        ]
        self._handed.update((part, offset) for part, offset, _, _ in handed)
        self._history.acquired(handed, ns)
        told = self._wait_told()
        if self._stop and told is None:
            return
        given: defaultdict[ShareAnswer, list[SharedOffset]] = defaultdict(list)
        for part, offset, count, _ in handed:
            answers = self._spec.answers if (count or 1) == 1 else ("accept",)
            answer = answers[offset % len(answers)] if told is None else told[0].answer
            given[answer].append((part, offset))
        if told is None:
            self._acknowledge(given)
            self._consumer.commit_async()
            return
        command, done = told
        try:
            self._acknowledge(given)
            self._consumer.commit_sync(command.within_s)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT:
                done.set_result(None)  # no broker has answered yet, which is an outcome
            else:
                done.set_exception(error)
        except Exception as error:
            done.set_exception(error)
            raise
        else:
            done.set_result(None)

    def _wait_told(self) -> tuple[AnswerRecords, Future[None]] | None:
        """How to answer what was to be held; None if nothing was, or it ends meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: not self._hold or self._told is not None or self._stop)
            told, self._told = self._told, None
            self._hold = self._hold and told is None
            return told

    def _acknowledge(self, given: Mapping[ShareAnswer, list[SharedOffset]]) -> None:
        for answer, offsets in given.items():
            self._history.acknowledged(offsets, answer, now_ns())
            kind = confluent_kafka.AcknowledgeType[answer.upper()]
            for part, offset in offsets:
                self._consumer.acknowledge_offset(*part, offset, kind)

    def _answered(
        self,
        offsets: Mapping[confluent_kafka.TopicPartition, set[int]],
        error: KafkaException | None,
    ) -> None:
        """The commit callback: what the leaders of partitions answered.

        It may name offsets that no poll returned, such as markers of transactions, which the library
        acknowledges by itself.
        """
        named = [
            (part, offset)
            for partition, of_partition in offsets.items()
            for part in [TopicPartition(partition.topic, partition.partition)]
            for offset in sorted(of_partition)
            if (part, offset) in self._handed
        ]
        self._history.answered(named, 0 if error is None else error.args[0].code(), now_ns())


def _cannot_renew(spec: ConsumerSpec) -> UnfitError:
    return UnfitError(
        f"librdkafka cannot renew the lock of a record, as {spec.name} is to do; let it use the Java "
        "client, or leave out the answer `renew`."
    )


def _config(spec: ConsumerSpec) -> dict[str, ConfigValue]:
    left_out = (*OF_CONSUMER_GROUPS, "fetch.error.backoff.ms")
    config = {key: value for key, value in spec.librdkafka_config().items() if key not in left_out}
    return {"max.poll.records": 100, **config, "share.acknowledgement.mode": "explicit"}
