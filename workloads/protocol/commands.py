"""The commands of an agent, each with the type of its result, and the JSON lines that carry them.

A request is ``{"id": 1, "command": "Send", "arguments": {...}}``. Its answer is ``{"id": 1, "result": ...}``
or ``{"id": 1, "error": "..."}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, cast, get_args

from harness.errors import UsageError
from workloads.protocol.codec import Json, from_json, to_json
from workloads.protocol.results import (
    Configuration,
    Delivered,
    Held,
    OffsetAnswer,
    PinnedWritesResult,
    ProgramDescription,
    ReadResult,
    SendResult,
    StreamCounts,
    TransactionEnd,
)
from workloads.protocol.spec import ClientProgram, ConsumerSpec, ProducerSpec, StreamLoad, Via

R_co = TypeVar("R_co", covariant=True)


class Command(Generic[R_co]):
    """A command to an agent; ``R_co`` is the type of the result."""

    @classmethod
    def result_from_json(cls, data: Json) -> R_co:
        """The result in an answer to this command."""
        (kind,) = get_args(cls.__orig_bases__[0])  # type: ignore[attr-defined]  # Command[kind]
        return cast(R_co, None if kind is type(None) else from_json(kind, data))


@dataclass(frozen=True)
class Ping(Command[None]):
    """Show that the agent runs."""


@dataclass(frozen=True)
class UseProgram(Command[None]):
    """Start a client program; the producers and consumers with its ``via`` run in it."""

    program: ClientProgram


@dataclass(frozen=True)
class DescribeProgram(Command[ProgramDescription]):
    """Wait until a client program is ready; the result is what it states about itself."""

    via: Via


@dataclass(frozen=True)
class Quit(Command[None]):
    """Close all producers and consumers, and end."""


@dataclass(frozen=True, kw_only=True)
class Prepare(Command[None]):
    """Connect a librdkafka producer; wait until it knows the topic and, if idempotent, its producer id.

    A raw idempotent producer gets its producer id.
    """

    producer: ProducerSpec
    topic: str
    within_s: float
    connection: str = ""
    """Of a raw producer: name of the connection to use; empty: one for this request alone."""


@dataclass(frozen=True)
class ShowConfiguration(Command[Configuration]):
    """Create a librdkafka producer, and report the configuration that the library itself states."""

    producer: ProducerSpec


@dataclass(frozen=True, kw_only=True)
class Send(Command[SendResult]):
    """Send one message; the result is its outcome."""

    producer: ProducerSpec
    topic: str
    partition: int
    label: str
    sequence: int | None = None
    """Sequence number of the message; only for a raw idempotent producer."""
    connection: str = ""
    """Of a raw producer: name of the connection to use; empty: one for this request alone."""


@dataclass(frozen=True)
class StartStream(Command[None]):
    """Start a background stream."""

    producer: ProducerSpec
    load: StreamLoad


@dataclass(frozen=True)
class CountStream(Command[StreamCounts]):
    """Count a stream's messages."""

    writer: int


@dataclass(frozen=True)
class StopStream(Command[StreamCounts]):
    """Stop a stream; messages without an outcome after ``flush_s`` end as `info`."""

    writer: int
    flush_s: float


@dataclass(frozen=True, kw_only=True)
class StartPinnedWrites(Command[None]):
    """Start a series of raw writes to one broker, one every ``every_s`` seconds."""

    producer: ProducerSpec
    topic: str
    partition: int
    every_s: float
    max_count: int
    stop_on: tuple[int, ...] | None
    """Error codes that end the series; None: any error; empty: none."""


@dataclass(frozen=True)
class WaitPinnedWrites(Command[PinnedWritesResult]):
    """Wait until the series has ended by itself, for at most ``within_s``."""

    writer: int
    within_s: float


@dataclass(frozen=True)
class StopPinnedWrites(Command[PinnedWritesResult]):
    """End the series after the write in progress."""

    writer: int
    within_s: float


@dataclass(frozen=True)
class Read(Command[ReadResult]):
    """Read partitions from their start to their present end offsets."""

    consumer: ConsumerSpec
    within_s: float


@dataclass(frozen=True)
class StartConsumer(Command[None]):
    """Start a consumer, or a group member, that reads until it is stopped."""

    consumer: ConsumerSpec


@dataclass(frozen=True, kw_only=True)
class StartProcessor(Command[None]):
    """Start an application that writes a message for each that it receives from its group.

    `ConsumerProgress` and `StopConsumer` name it by its consumer.
    """

    consumer: ConsumerSpec
    producer: ProducerSpec
    """With a transactional id, its transactions commit the offsets too."""
    output: str
    """The topic that it writes to; the partition numbers are those of the input."""
    every_s: float
    """Length of a unit, after which offsets are committed."""


@dataclass(frozen=True)
class ConsumerProgress(Command[ReadResult]):
    """Report what a started consumer has read."""

    reader: int


@dataclass(frozen=True)
class StopConsumer(Command[ReadResult]):
    """Stop a consumer; a group member leaves its group."""

    reader: int
    within_s: float


@dataclass(frozen=True, kw_only=True)
class InitTransactions(Command[int]):
    """Get a producer id for a transactional producer; the result is the error code, 0 for none."""

    producer: ProducerSpec
    within_s: float
    coordinator: str = ""
    """Of a raw producer: `address:port` of the broker to ask."""
    connection: str = ""
    """Of a raw producer: name of the connection to use; empty: one for this request alone."""


@dataclass(frozen=True, kw_only=True)
class AddPartition(Command[int]):
    """Add a partition to a raw producer's transaction before it writes there; returns the error code."""

    writer: int
    topic: str
    partition: int
    coordinator: str
    within_s: float
    connection: str = ""
    """Of a raw producer: name of the connection to use; empty: one for this request alone."""


@dataclass(frozen=True, kw_only=True)
class PinnedMessage:
    """A message of a raw transactional producer, and the brokers that its requests go to."""

    writer: int
    topic: str
    partition: int
    label: str
    leader: str
    """`address:port` of the broker to write to."""
    coordinator: str
    broker_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class SendPinned(Command[SendResult], PinnedMessage):
    """Send one message of a raw transactional producer; the result is its outcome."""

    connection: str = ""
    """Of a raw producer: name of the connection to use; empty: one for this request alone."""


@dataclass(frozen=True, kw_only=True)
class HoldSend(Command[Held], PinnedMessage):
    """Make the request for such a message and open its connection, but do not send it."""


@dataclass(frozen=True, kw_only=True)
class HoldEnd(Command[Held]):
    """Make the request that ends a raw producer's transaction, but do not send it."""

    writer: int
    commit: bool
    coordinator: str


@dataclass(frozen=True, kw_only=True)
class OpenConnection(Command[int]):
    """Open a raw producer's connection, unless it is open; the result is its port at the client's end."""

    producer: ProducerSpec
    broker: str
    """`address:port`."""
    name: str


@dataclass(frozen=True, kw_only=True)
class CloseConnection(Command[None]):
    """Close a raw producer's connections with this name; the next request with it opens another one."""

    producer: ProducerSpec
    name: str


@dataclass(frozen=True, kw_only=True)
class Deliver(Command[Delivered]):
    """Send a request that was held back."""

    writer: int
    number: int
    within_s: float


@dataclass(frozen=True)
class BeginTransaction(Command[int]):
    """Begin a transaction of a prepared producer; the result is its number."""

    writer: int


@dataclass(frozen=True, kw_only=True)
class SendOffsets(Command[int]):
    """Let a producer's transaction commit an offset of a group; the result is the error code.

    A librdkafka producer needs a member of the group in the same client.
    """

    writer: int
    group: str
    reader: int
    topic: str
    partition: int
    offset: int
    within_s: float
    member: bool = False
    """The request carries the id and generation of the member ``reader``, which must use the same library."""
    coordinator: str = ""
    """Of a raw producer: `address:port` of the coordinator of its transactions."""
    group_coordinator: str = ""
    """Of a raw producer: `address:port` of the coordinator of the group."""
    broker_id: int | None = None
    """Node id of that coordinator of the group."""
    connection: str = ""
    """Of a raw producer: name of the connection to use; empty: one for this request alone."""


@dataclass(frozen=True, kw_only=True)
class EndTransaction(Command[TransactionEnd]):
    """Commit or abort a producer's transaction."""

    writer: int
    commit: bool
    within_s: float
    coordinator: str = ""
    """Of a raw producer: `address:port` of the broker to ask."""
    connection: str = ""
    """Of a raw producer: name of the connection to use; empty: one for this request alone."""


@dataclass(frozen=True, kw_only=True)
class CommitOffset(Command[OffsetAnswer]):
    """Commit an offset of a group without being a member; the result is the broker's answer."""

    reader: int
    group: str
    topic: str
    partition: int
    offset: int
    coordinator: str
    """`address:port` of the broker to ask."""
    within_s: float
    broker_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class FetchOffset(Command[OffsetAnswer]):
    """Ask one broker for the committed offset of a group."""

    reader: int
    group: str
    topic: str
    partition: int
    coordinator: str
    """`address:port` of the broker to ask."""
    within_s: float
    broker_id: int | None = None
    stable: bool = False
    """Request an error as long as a transaction that commits offsets of the partition has no marker."""


COMMANDS: Mapping[str, type[Command[object]]] = {kind.__name__: kind for kind in Command.__subclasses__()}


@dataclass(frozen=True)
class Request:
    """One line to an agent."""

    number: int
    name: str
    arguments: Json

    @classmethod
    def of(cls, number: int, command: Command[object]) -> Request:
        """The request that carries ``command``."""
        return cls(number, type(command).__name__, to_json(command))

    @classmethod
    def parse(cls, line: str) -> Request:
        """Read a line of the pipe."""
        data = json.loads(line)
        return cls(data["id"], data["command"], data["arguments"])

    def line(self) -> str:
        """The line, with its end."""
        return json.dumps({"id": self.number, "command": self.name, "arguments": self.arguments}) + "\n"

    def command(self) -> Command[object]:
        """The command it carries. Raises UsageError for an unknown one, ValueError for bad arguments."""
        kind = COMMANDS.get(self.name)
        if kind is None:
            raise UsageError(
                f"There is no command {self.name!r}; the agent's commands are {', '.join(COMMANDS)}."
            )
        return from_json(kind, self.arguments)


Ends = Literal["", "invalid", "unfit"]
"""The consequence of an error for the whole run, if it has one."""


@dataclass(frozen=True)
class AgentAnswer:
    """One line of an agent: the result of a request, or why it failed."""

    number: int
    result: Json = None
    error: str | None = None
    ends: Ends = ""
    """With an error that ends the run: a client program broke the protocol, or lacks a feature."""

    @classmethod
    def parse(cls, line: str) -> AgentAnswer:
        """Read a line of the pipe. Raises ValueError for a line that was cut short."""
        data = json.loads(line)
        return cls(data["id"], data.get("result"), data.get("error"), data.get("ends", ""))

    def line(self) -> str:
        """The line, with its end."""
        content: dict[str, Json] = {"result": self.result} if self.error is None else {"error": self.error}
        if self.ends:
            content["ends"] = self.ends
        return json.dumps({"id": self.number, **content}) + "\n"
