"""Background streams of client programs: run by the program itself, or message by message from here."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future

from harness.clock import now_ns
from harness.errors import InvalidRunError
from harness.history.identity import ValueTemplate
from harness.history.stream_journal import Counters, StreamJournal, beside, create, read_counters
from workloads.agent.producers.cycle import Messages
from workloads.agent.producers.outcomes import stated_offset
from workloads.agent.producers.producer import Reply, Work
from workloads.agent.producers.recorder import Recorder
from workloads.agent.producers.stream import FLUSH_S, counted, feed, unwritable
from workloads.agent.programs.exceptions import stream_rules
from workloads.agent.programs.process import ANSWER_S, Answered, RunningProgram
from workloads.agent.programs.producers import ProgramProducer, require_after
from workloads.agent.yielding import give_way
from workloads.protocol.codec import Json
from workloads.protocol.commands import CountStream, ProducerCommand, StartStream, StopStream
from workloads.protocol.lines import STREAMS, Event, OutcomeEvent, value_text
from workloads.protocol.results import StreamCounts
from workloads.protocol.spec import ProducerSpec, StreamLoad

_CLOSE_S = 2.0


class ProgramStream(ProgramProducer):
    """A producer in a program that sends a load.

    A program with the feature `streams` makes, paces and records the messages itself. To any other one a
    thread hands them over, and records them.
    """

    def __init__(self, recorder: Recorder, spec: ProducerSpec, program: RunningProgram) -> None:
        """Record the producer, and let the program create it."""
        super().__init__(recorder, spec, program)
        self._file = beside(recorder.journal.path.absolute(), spec.writer)
        self._load: StreamLoad | None = None
        self._journal: StreamJournal | None = None
        """That of a stream which is recorded here."""
        self._native: Future[Answered] | None = None
        """The answer at the end of a stream which the program runs."""
        self._open: dict[int, int] = {}
        """Number and time of the messages without an outcome."""
        self._guard = threading.Lock()
        self._flush_s = FLUSH_S
        self._problem: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stream-{spec.writer}", daemon=True)

    def dispatch(self, command: ProducerCommand[object], reply: Reply) -> Work | None:
        """Begin a command about the stream."""
        match command:
            case StartStream(load=load):
                self._load = load
                if load.yields:
                    give_way()
                self._thread.start()
                reply(None)
                return None
            case CountStream() if self._load is not None:
                reply(self.counts())
                return None
            case StopStream(flush_s=flush_s) if self._load is not None:
                return lambda: self.stop(flush_s)
        return super().dispatch(command, reply)

    def stop(self, flush_s: float) -> StreamCounts:
        """Stop sending, and wait ``flush_s`` for outcomes. Raises InvalidRunError if the program failed."""
        self._flush_s = flush_s
        with self._guard:
            self._stop.set()
        if self._native is not None and not self._native.done():
            self.require("stop_stream", flush_s)
        self._thread.join(flush_s + _CLOSE_S + ANSWER_S + 2.0)
        return self.counts()

    def counts(self) -> StreamCounts:
        """The messages so far, by outcome. Raises InvalidRunError if the program has failed."""
        if self._problem is not None:
            raise self._problem
        counters = Counters()
        if self._journal is not None:
            counters = self._journal.counters()
        elif self._native is not None:
            counters = read_counters(self._file)
        return counted(counters, running=self._thread.is_alive())

    def close(self) -> None:
        """Stop; messages without an outcome stay without one."""
        if self._load is not None:
            with contextlib.suppress(InvalidRunError):
                self.stop(0.0)
        if self._journal is not None:
            self._journal.close()

    def _run(self) -> None:
        assert self._load is not None
        try:
            self.wait_created()
            if STREAMS in self.program.hello().features:
                self._let_run(self._load)
            else:
                self._hand_over_all(self._load)
        except OSError as error:
            self._problem = unwritable(self.spec, error)
        except Exception as error:  # noqa: BLE001 - raised again by `stop` and `counts`
            self._problem = error

    def _let_run(self, load: StreamLoad) -> None:
        """Let the program run the stream, and wait for its end."""
        create(self._file, self.spec.writer, load.targets)
        writer = self.spec.writer
        messages = Messages(load, writer)
        targets: list[Json] = []
        for topic, partition in load.targets:
            tail = ValueTemplate.of(writer, topic, partition, load.size_bytes).tail
            if load.shaped:
                _, tail = ValueTemplate.unpadded(writer, topic, partition)
            targets.append({"topic": topic, "partition": partition, "tail": value_text(tail)})
        cycle: list[Json] = [[one.target, one.size_bytes, one.key] for one in messages.cycle]
        with self._guard:
            if self._stop.is_set():
                return
            self._native = self.program.submit(
                "start_stream",
                producer=self.spec.writer,
                journal=str(self._file),
                head=value_text(messages.head),
                targets=targets,
                **({"cycle": cycle} if load.shaped else {}),
                rate=load.rate,
                max_count=load.max_count,
                max_s=load.max_s,
                max_in_flight=load.max_in_flight,
                flush_ms=int(FLUSH_S * 1000),
                rules=stream_rules(acks=self._acks, retries=self._retries),
            )
        failure = self._native.result()
        if failure is not None:
            raise InvalidRunError(self.failed("start_stream", failure).message)

    def _hand_over_all(self, load: StreamLoad) -> None:
        """Pace and record the messages here, and hand them over."""
        targets, stream = load.targets, Messages(load, self.spec.writer)
        journal = StreamJournal(self._file, self.spec.writer, targets)
        self._journal = journal

        def send(first: int, count: int) -> None:
            messages = []
            for seq in range(first, first + count):
                planned = stream.planned(seq)
                self._open[seq] = now_ns()
                journal.begin(seq, planned.target, self._open[seq])
                messages.append((seq, *targets[planned.target], stream.value(seq, planned)))
            self.hand_over(messages)

        def wait(seconds: float) -> None:
            journal.counters()
            self._stop.wait(seconds)

        feed(load, self._stop, in_flight=self._open.__len__, send=send, wait=wait)
        self.program.request("close_producer", self._flush_s, producer=self.spec.writer)
        journal.counters()

    def done(self, event: Event, ns: int) -> None:
        """Take the outcome of a message. Raises ValueError for one that cannot be true."""
        assert isinstance(event, OutcomeEvent)
        name = f"message {event.producer}/{event.seq}"
        sent_ns = self._open.get(event.seq)
        if sent_ns is None or self._journal is None:
            raise ValueError(f"{name} is not waiting for an outcome")
        require_after(ns, sent_ns, name)
        outcome, code = self.outcome_of(event)
        del self._open[event.seq]
        self._journal.complete(
            event.seq,
            done_ns=ns,
            outcome=outcome,
            error=code,
            offset=stated_offset(event.offset),
            attempts=event.attempts,
            broker=event.broker,
        )
