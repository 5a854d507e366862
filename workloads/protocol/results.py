"""What a client tells the harness: plain data that crosses the agent's pipe as JSON."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SendResult:
    """What became of one message."""

    writer: int
    seq: int
    topic: str
    partition: int
    label: str
    outcome: str
    error: int
    offset: int | None
    attempts: int | None
    broker: int | None
    sent_ns: int
    done_ns: int

    @property
    def ok(self) -> bool:
        """It was acknowledged."""
        return self.outcome == "ok"

    @property
    def latency_s(self) -> float:
        """From handing over to the outcome."""
        return (self.done_ns - self.sent_ns) / 1e9


@dataclass(frozen=True)
class StreamCounts:
    """How a stream fared: ``sent`` = ``ok`` + ``fail`` + ``info`` + still waiting."""

    sent: int
    ok: int
    fail: int
    info: int
    running: bool


@dataclass(frozen=True)
class ZombieResult:
    """How a pinned series of raw writes ended; ``last_error`` is the code that stopped it, or 0."""

    sent: int
    ok: int
    last_error: int
    first_ok_ns: int | None
    last_ok_ns: int | None
    offsets: tuple[int, ...]
    running: bool = False


@dataclass(frozen=True)
class PartitionRead:
    """How far a reader came in one partition; ``end`` is the offset it was to reach."""

    topic: str
    partition: int
    start: int | None
    end: int | None
    position: int | None
    count: int
    complete: bool


@dataclass(frozen=True)
class ReadResult:
    """What a reader was handed; ``errors`` are error events (`code`, text) in order, without repeats."""

    partitions: tuple[PartitionRead, ...]
    count: int
    errors: tuple[tuple[int, str], ...]

    @property
    def complete(self) -> bool:
        """Every partition was read to its end."""
        return bool(self.partitions) and all(part.complete for part in self.partitions)
