"""A client of the lab, as scenarios use it: one process in one client host, spoken to from the harness."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from harness.lab.model import Lab
from harness.waiting import wait_until
from workloads.client.handles import Follower, Stream, ZombieWrites, read_result
from workloads.client.link import AgentLink
from workloads.protocol.results import ReadResult, SendResult
from workloads.protocol.spec import Load, Reader, Writer, as_json

__all__ = ["NOT_YET_LEADER", "Client", "Follower", "Stream", "ZombieWrites"]

_SLACK_S = 5.0
NOT_YET_LEADER = (3, 6)
"""What a just elected leader answers until the controller's request reached it."""
R = TypeVar("R")


class Client:
    """One agent process. Thread-safe. Raises ProcessDiedError with the agent's last words when it is gone."""

    def __init__(self, lab: Lab, host: str, journal_path: Path, *, start_within_s: float = 20.0) -> None:
        """Start the agent in ``host``; its journal is ``journal_path``, its stderr stands beside (`.err`)."""
        self.host = host
        self._topology = lab.topology
        self.journal_path = journal_path
        journal_path.parent.mkdir(parents=True, exist_ok=True)
        journal_inside = lab.inside(host, journal_path)
        arguments = ["--host", host, "--az", lab.topology.host(host).az, "--journal", journal_inside]
        pipe = lab.open_module(host, "workloads.agent.main", arguments)
        self._link = AgentLink(pipe, host, journal_path.with_suffix(".err"))
        try:
            self._link.call("ping", start_within_s)
        except BaseException:
            self._link.kill()
            raise

    @property
    def alive(self) -> bool:
        """The agent runs."""
        return self._link.alive

    def prepare(self, writer: Writer, topic: str, within_s: float = 10.0) -> None:
        """Connect a librdkafka writer before it is needed: metadata, producer id, transactional fencing."""
        self._link.call(
            "prepare", within_s + _SLACK_S, writer=self._spec(writer), topic=topic, within_s=within_s
        )

    def send_later(self, topic: str, label: str, writer: Writer, *, partition: int = 0) -> Future[SendResult]:
        """Send one message; several may be under way, numbered in the order of calls.

        Those of one librdkafka writer leave in that order, raw ones at the same time.
        """
        answer = self._link.submit(
            "send", writer=self._spec(writer), topic=topic, partition=partition, label=label
        )
        return _mapped(answer, lambda result: SendResult(**result))

    def send(
        self, topic: str, label: str, writer: Writer, *, partition: int = 0, within_s: float | None = None
    ) -> SendResult:
        """Send one message and wait for its outcome (never raises for a refused or unanswered message)."""
        future = self.send_later(topic, label, writer, partition=partition)
        limit_s = writer.limit_s + _SLACK_S if within_s is None else within_s
        result: SendResult = self._link.wait(future, f"send {label}", limit_s)
        return result

    def send_all(
        self, topic: str, labels: Sequence[str], writer: Writer, *, partition: int = 0
    ) -> list[SendResult]:
        """Send messages one after the other, each when the one before has its outcome."""
        return [self.send(topic, label, writer, partition=partition) for label in labels]

    def wait_writable(
        self, topic: str, writer: Writer, *, partition: int = 0, within_s: float = 10.0, label: str = "_"
    ) -> SendResult:
        """Send probe messages by a raw writer until its broker takes one: it knows that it leads.

        Each probe is recorded like any message. Raises WaitTimeoutError.
        """
        return wait_until(
            lambda: self.send(topic, label, writer, partition=partition),
            within_s=within_s,
            awaiting=f"{', '.join(writer.brokers)} to take a write to {topic}-{partition}",
            accept=lambda result: result.error not in NOT_YET_LEADER,
        )

    def start_stream(self, writer: Writer, load: Load) -> Stream:
        """Start a background stream by librdkafka; it gets a producer of its own."""
        writer = replace(writer, via="librdkafka", role="stream")
        self._link.call("stream_start", _SLACK_S, writer=self._spec(writer), load=as_json(load))
        return Stream(self._link, writer)

    def zombie_writes(
        self,
        topic: str,
        writer: Writer,
        *,
        partition: int = 0,
        every_s: float = 0.1,
        max_count: int = 10_000,
        stop_on: Collection[int] | None = None,
    ) -> ZombieWrites:
        """Start raw writes to the writer's one broker; see how long it still takes them.

        It ends at the first error in ``stop_on`` (None: any error; empty: never by itself).
        """
        self._link.call(
            "zombie_start",
            _SLACK_S,
            writer=self._spec(writer),
            topic=topic,
            partition=partition,
            every_s=every_s,
            max_count=max_count,
            stop_on=None if stop_on is None else list(stop_on),
        )
        return ZombieWrites(self._link, writer)

    def read(self, reader: Reader, within_s: float = 20.0) -> ReadResult:
        """Read partitions from the start to their ends of now; ``complete`` says whether it got there."""
        spec = self._reader_spec(reader)
        return read_result(self._link.call("read", within_s + _SLACK_S, reader=spec, within_s=within_s))

    def follow(self, reader: Reader) -> Follower:
        """Start a reader that goes on until stopped: by hand, or as a member of its group."""
        self._link.call("follow_start", _SLACK_S, reader=self._reader_spec(reader))
        return Follower(self._link, reader)

    def begin(self, writer: Writer) -> int:
        """Open a transaction of a prepared transactional writer; sends belong to it until its end."""
        number: int = self._link.call("transaction_begin", _SLACK_S, number=writer.number)
        return number

    def end(self, writer: Writer, *, commit: bool = True, within_s: float = 10.0) -> tuple[str, int]:
        """Commit or abort; returns `committed`, `aborted` or `unknown`, and the error code."""
        wait_s = 2 * within_s + _SLACK_S
        answer = self._link.call(
            "transaction_end", wait_s, number=writer.number, commit=commit, within_s=within_s
        )
        return str(answer[0]), int(answer[1])

    def kill(self) -> None:
        """SIGKILL the client, as a fault would: outcomes it was not told yet stay unknown."""
        self._link.kill()

    def close(self, within_s: float = 10.0) -> None:
        """End streams and producers in order, then the process. Safe to call twice, and when it is dead."""
        self._link.close(within_s)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _broker(self, name: str) -> str:
        if ":" in name:
            return name
        return f"{self._topology.host(name).address}:9092"

    def _spec(self, writer: Writer) -> dict[str, Any]:
        node = writer.node
        if writer.via == "raw" and node is None and ":" not in writer.brokers[0]:
            node = self._topology.host(writer.brokers[0]).node_id
        return as_json(replace(writer, brokers=tuple(map(self._broker, writer.brokers)), node=node))

    def _reader_spec(self, reader: Reader) -> dict[str, Any]:
        return as_json(replace(reader, brokers=tuple(map(self._broker, reader.brokers))))


def _mapped(source: Future[Any], shape: Callable[[Any], R]) -> Future[R]:
    """A future with the shaped result of another."""
    target: Future[R] = Future()

    def settle(done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            target.set_exception(error)
        else:
            target.set_result(shape(done.result()))

    source.add_done_callback(settle)
    return target
