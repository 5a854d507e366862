"""What a client reports to the harness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from harness.kafka.model import TopicPartition

Outcome = Literal["ok", "fail", "info"]
"""Acknowledged, definitely not written, or unknown."""


@dataclass(frozen=True, kw_only=True)
class SendResult:
    """The outcome of one message."""

    writer: int
    """Number of the producer in the history."""
    seq: int
    """Number of the message among those of its producer."""
    topic: str
    """Its topic."""
    partition: int
    """Its partition."""
    label: str
    """The name that the scenario gave it."""
    outcome: Outcome
    """Acknowledged, definitely not written, or unknown."""
    error: int
    """Kafka's error code, or librdkafka's (negative); 0 for none."""
    offset: int | None
    """The offset that the acknowledgement named."""
    attempts: int | None
    """ProduceRequests that carried the message; None if the client does not know."""
    broker: int | None
    """Node id of the broker that answered, if it is known."""
    sent_ns: int
    """When it was given to the client, in ns of the run's clock."""
    done_ns: int
    """When its outcome was known."""

    @property
    def ok(self) -> bool:
        """Whether the message was acknowledged."""
        return self.outcome == "ok"

    @property
    def latency_s(self) -> float:
        """Time from giving the message to the client until its outcome."""
        return (self.done_ns - self.sent_ns) / 1e9


@dataclass(frozen=True)
class Configuration:
    """A client's configuration by the names of its library."""

    values: Mapping[str, str]
    refused: str = ""
    """Why the library does not accept it."""


@dataclass(frozen=True, kw_only=True)
class ProgramDescription:
    """What a client program states about itself, its start-up time and its memory."""

    client: str
    version: str
    features: tuple[str, ...]
    ready_s: float
    """From its start to its first line."""
    memory_mib: float
    """Most resident memory so far."""


@dataclass(frozen=True, kw_only=True)
class StreamCounts:
    """A stream's messages; ``sent`` is ``ok`` + ``fail`` + ``info`` + those without an outcome."""

    sent: int
    ok: int
    fail: int
    info: int
    running: bool
    throttled_ms: int = 0
    """By how much quotas delayed answers to it, as brokers state it; librdkafka's producers only."""


@dataclass(frozen=True, kw_only=True)
class PinnedWritesResult:
    """Progress of a series of raw writes to one broker."""

    sent: int
    """Writes so far."""
    ok: int
    """Acknowledged writes."""
    last_error: int
    """Error code of the last write; 0 for none."""
    first_ok_ns: int | None
    """When the first was acknowledged, in ns of the run's clock."""
    last_ok_ns: int | None
    """When the last was acknowledged."""
    offsets: tuple[int, ...]
    """Offsets of the acknowledged writes."""
    running: bool
    """Whether the series continues."""


@dataclass(frozen=True, kw_only=True)
class PartitionRead:
    """A consumer's progress in one partition."""

    partition: TopicPartition
    start: int | None
    end: int | None
    """The offset to reach; None for a consumer that reads until it is stopped."""
    position: int | None
    """Offset of the next record to fetch."""
    count: int
    complete: bool


@dataclass(frozen=True, kw_only=True)
class ReadResult:
    """What a consumer has read: ``count`` records in all, and its distinct errors as (code, text)."""

    partitions: tuple[PartitionRead, ...]
    """Progress by partition."""
    count: int
    """Records in all."""
    errors: tuple[tuple[int, str], ...]
    """Distinct errors, as code and text."""
    held: int = 0
    """Of a member of a share group: records that it has not acknowledged."""
    unanswered: int = 0
    """Of a member of a share group: acknowledgements that were not answered."""

    @property
    def complete(self) -> bool:
        """Whether every partition was read to its end."""
        return bool(self.partitions) and all(part.complete for part in self.partitions)


@dataclass(frozen=True)
class ApplicationState:
    """How an instance of an application of Kafka Streams is."""

    state: str
    """The newest state that it reported; empty: none yet."""
    partitions: tuple[int, ...]
    """The partitions of the source that it processed then."""
    errors: tuple[tuple[int, str], ...]
    """Distinct errors, as code and text."""


@dataclass(frozen=True)
class TransactionEnd:
    """How a transaction ended for its producer; without an answer the outcome is unknown."""

    outcome: Literal["committed", "aborted", "unknown"]
    """The answer to the producer; `unknown` without a definite answer."""
    error: int
    """Kafka's error code, or librdkafka's (negative); 0 for none."""

    @property
    def ok(self) -> bool:
        """Whether the producer knows how it ended."""
        return self.outcome != "unknown"


@dataclass(frozen=True)
class OffsetAnswer:
    """What a broker answered to a commit or a fetch of a group's offset."""

    error: int
    """Kafka's error code, negative where the connection failed; 0 for none."""
    offset: int | None
    """The offset to commit, or the fetched offset; None: there is none."""

    @property
    def ok(self) -> bool:
        """Whether the broker answered without an error."""
        return self.error == 0


@dataclass(frozen=True, kw_only=True)
class Held:
    """A request that is held back."""

    number: int
    """Its number among its producer's held requests."""
    connection: str
    """Both ends of the connection that was opened for it."""


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """What a broker answered to a request that had been held back."""

    error: int
    """Kafka's error code; 0 for none, negative without an answer."""
    offset: int | None
    """The offset that the answer to a ProduceRequest named."""
