"""What goes on in a client until it is stopped, as the harness holds it: streams, pinned writes, readers."""

from __future__ import annotations

from typing import Any

from workloads.client.link import AgentLink
from workloads.protocol.results import PartitionRead, ReadResult, StreamCounts, ZombieResult
from workloads.protocol.spec import Reader, Writer

_SLACK_S = 5.0


class Stream:
    """A background stream that runs in a client."""

    def __init__(self, link: AgentLink, writer: Writer) -> None:
        self.writer = writer
        self._link = link

    def counts(self) -> StreamCounts:
        """How it fares."""
        return StreamCounts(**self._link.call("stream_counts", _SLACK_S, number=self.writer.number))

    def stop(self, flush_s: float = 5.0) -> StreamCounts:
        """Stop it; messages still unanswered after ``flush_s`` end as `info`."""
        result = self._link.call("stream_stop", flush_s + 15.0, number=self.writer.number, flush_s=flush_s)
        return StreamCounts(**result)


class ZombieWrites:
    """A pinned series of raw writes that runs in a client."""

    def __init__(self, link: AgentLink, writer: Writer) -> None:
        self.writer = writer
        self._link = link

    def progress(self) -> ZombieResult:
        """What was written so far."""
        return self.wait_end(0.0)

    def wait_end(self, within_s: float) -> ZombieResult:
        """What was written once it ended by itself, or after ``within_s``."""
        return self._result("zombie_wait", within_s, within_s)

    def stop(self) -> ZombieResult:
        """End it after the attempt under way."""
        return self._result("zombie_stop", self.writer.limit_s, self.writer.limit_s)

    def _result(self, name: str, within_s: float, wait_s: float) -> ZombieResult:
        answer = self._link.call(name, wait_s + _SLACK_S, number=self.writer.number, within_s=within_s)
        return ZombieResult(**{**answer, "offsets": tuple(answer["offsets"])})


class Follower:
    """A consumer that reads on in a client."""

    def __init__(self, link: AgentLink, reader: Reader) -> None:
        self.reader = reader
        self._link = link

    def result(self) -> ReadResult:
        """How far it came."""
        return read_result(self._link.call("follow_result", _SLACK_S, number=self.reader.number))

    def stop(self, within_s: float = 5.0) -> ReadResult:
        """Stop it; a group member leaves."""
        call = self._link.call
        return read_result(
            call("follow_stop", within_s + _SLACK_S, number=self.reader.number, within_s=within_s)
        )


def read_result(answer: dict[str, Any]) -> ReadResult:
    """The `ReadResult` in an agent's answer."""
    parts = tuple(PartitionRead(**part) for part in answer["partitions"])
    return ReadResult(parts, answer["count"], tuple((code, text) for code, text in answer["errors"]))
