"""A background stream that sends its messages in transactions of a fixed size, one after the other.

Message n is in transaction n divided by the size, whatever happens: what cannot be sent in a transaction that
must be aborted has failed. So the journal needs no column for it.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError

from harness.clock import now_ns
from workloads.agent.producers.recorder import Recorder
from workloads.agent.producers.stream import StreamProducer
from workloads.agent.producers.transactional import ended, error_of
from workloads.protocol.spec import ProducerSpec

_ASKED_S = 2.0
"""How long one request to begin or to end may take; then it is made again."""
_AFTER_FAILURE_S = 0.5
"""How long a producer that got no id is followed by none."""


class TransactionalStream(StreamProducer):
    """One transactional librdkafka producer after the other, and the thread that feeds them."""

    def __init__(self, recorder: Recorder, spec: ProducerSpec) -> None:
        """Record the producer, then connect in the background."""
        super().__init__(recorder, spec)
        self._initialised = False
        self._open: int | None = None
        """The transaction that has begun and not ended."""

    def _send(self, first: int, count: int) -> None:
        assert self._load is not None
        size, end = self._load.transaction, first + count
        while first < end:
            txn = first // size
            if self._open is None and not self._begin(txn):
                return  # it is being stopped; what was not begun was never sent
            until = min(end, (txn + 1) * size)
            self._hand_over(first, until - first)
            if until == (txn + 1) * size:
                self._end()
            first = until

    def _begin(self, txn: int) -> bool:
        """Begin a transaction; returns False if the stream is stopped before there is a producer id."""
        while not self._initialised or error_of(self._producer.begin_transaction) is not None:
            if self._stop.is_set():
                return False
            if self._initialised:
                self._give_up()
            self._initialise()
        self._open = txn
        self.recorder.transaction(self.spec.writer, txn, "begin")
        return True

    def _initialise(self) -> None:
        """Try to get a producer id, with another producer after a fatal error."""
        if self._ended_fatally:
            self._renew()
        asked_ns = now_ns()
        error = error_of(lambda: self._producer.init_transactions(_ASKED_S))
        if error is not None and error.retriable():
            return
        code = 0 if error is None else int(error.code())
        self.recorder.initialised(self.spec.writer, asked_ns=asked_ns, error=code)
        self._initialised = error is None
        if error is not None:
            self._give_up()
            self._stop.wait(_AFTER_FAILURE_S)

    def _give_up(self) -> None:
        """Only another producer goes on."""
        self._initialised, self._ended_fatally = False, True

    def _end(self) -> None:
        """Commit or abort the open transaction; a commit that fails may require that it is aborted."""
        assert self._load is not None and self._open is not None
        every = self._load.abort_every
        commit = not every or self._open % every != every - 1
        self._note("committing" if commit else "aborting")
        end = ended(self._producer, self._answered, commit=commit)
        if end.outcome == "unknown":
            self._give_up()
        self._note(end.outcome, end.error)
        self._open = None

    def _answered(self, ask: Callable[[float], object]) -> KafkaError | None:
        """Ask until there is an answer; returns its error, or that of the last try before the stream ends."""
        while True:
            error = error_of(lambda: ask(_ASKED_S))
            if error is None or not error.retriable() or (self._stop.is_set() and not self._left_s):
                return error

    def _note(self, event: str, error: int = 0) -> None:
        self.recorder.transaction(self.spec.writer, self._open, event, error)

    def _finish_sending(self) -> None:
        if self._open is not None:
            self._end()
