"""The commands of an agent, each with the type of its result, and the JSON lines that carry them.

A request is ``{"id": 1, "command": "Send", "arguments": {...}}``. Its answer is ``{"id": 1, "result": ...}``
or ``{"id": 1, "error": "..."}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, cast, get_args

from harness.errors import InvalidRunError, UsageError
from harness.kafka.model import Endpoint
from workloads.protocol.codec import Json, from_json, to_json
from workloads.protocol.lines import HELLO_S
from workloads.protocol.results import (
    ApplicationState,
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
from workloads.protocol.spec import (
    ApplicationSpec,
    ClientProgram,
    ConsumerSpec,
    ProducerSpec,
    Route,
    ShareAnswer,
    StreamLoad,
    Via,
)

R_co = TypeVar("R_co", covariant=True)


class Command(Generic[R_co]):
    """A command to an agent; ``R_co`` is the type of the result."""

    @classmethod
    def result_from_json(cls, data: Json) -> R_co:
        """The result in an answer to this command."""
        (kind,) = get_args(cls.__orig_bases__[0])  # type: ignore[attr-defined]  # Command[kind]
        return cast(R_co, None if kind is type(None) else from_json(kind, data))

    @property
    def limit_s(self) -> float:
        """The longest time that it may take by its own arguments, in seconds."""
        return float(getattr(self, "within_s", 0.0))


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
    within_s: float = HELLO_S


@dataclass(frozen=True)
class Quit(Command[None]):
    """Close all producers and consumers, and end."""


@dataclass(frozen=True)
class ShowConfiguration(Command[Configuration]):
    """Create a librdkafka producer, and report the configuration that the library itself states."""

    spec: ProducerSpec


@dataclass(frozen=True, kw_only=True)
class ProducerCommand(Command[R_co], Generic[R_co]):
    """A command to one producer, which the agent creates with its first command."""

    producer: ProducerSpec


@dataclass(frozen=True, kw_only=True)
class RequestCommand(ProducerCommand[R_co], Generic[R_co]):
    """A command that sends requests."""

    connection: str = ""
    """Of a raw producer: name of the connection to use; empty: one for each request alone."""

    def __post_init__(self) -> None:
        if self.connection and self.producer.via != "raw":
            raise InvalidRunError(
                f"{self.producer.name} uses {self.producer.via}, which opens and chooses its connections "
                f"itself; a named connection ({self.connection!r}) needs via='raw'."
            )


@dataclass(frozen=True, kw_only=True)
class Prepare(RequestCommand[None]):
    """Connect a producer in advance: metadata, producer id, fencing of older producers.

    A librdkafka producer waits until it knows the topic and, if idempotent, its producer id. A raw idempotent
    producer gets its producer id.
    """

    topic: str
    within_s: float = 10.0

    @property
    def limit_s(self) -> float:
        return self.within_s + self.producer.creation_s


@dataclass(frozen=True, kw_only=True)
class Send(RequestCommand[SendResult]):
    """Send one message; the result is its outcome.

    Messages are numbered in the order of the commands. A librdkafka producer sends its messages in that
    order; raw messages are sent concurrently, unless they name the same connection.
    """

    topic: str
    partition: int = 0
    label: str = ""
    sequence: int | None = None
    """Sequence number of the message; only for a raw idempotent producer."""
    route: Route | None = None
    """Of a raw transactional producer: the brokers that its requests go to."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.sequence is not None) != self.producer.names_sequences:
            raise UsageError(
                f"{self.producer.name} sends a message with the sequence number {self.sequence}; give one "
                "with each message of a raw idempotent producer, and none with others."
            )

    @property
    def limit_s(self) -> float:
        return self.producer.effective_delivery_timeout_s + self.producer.creation_s


@dataclass(frozen=True, kw_only=True)
class StartStream(ProducerCommand[None]):
    """Start a background stream."""

    load: StreamLoad


@dataclass(frozen=True, kw_only=True)
class CountStream(ProducerCommand[StreamCounts]):
    """Count a stream's messages."""


@dataclass(frozen=True, kw_only=True)
class StopStream(ProducerCommand[StreamCounts]):
    """Stop a stream; messages without an outcome after ``flush_s`` end as `info`."""

    flush_s: float

    @property
    def limit_s(self) -> float:
        return self.flush_s + 5.0


@dataclass(frozen=True, kw_only=True)
class StartPinnedWrites(ProducerCommand[None]):
    """Start a series of raw writes to the producer's one broker, one every ``every_s`` seconds."""

    topic: str
    partition: int = 0
    every_s: float = 0.1
    max_count: int = 10_000
    stop_on: tuple[int, ...] | None = None
    """Error codes that end the series; None: any error; empty: none."""


@dataclass(frozen=True, kw_only=True)
class WaitPinnedWrites(ProducerCommand[PinnedWritesResult]):
    """Wait until the series has ended by itself, for at most ``within_s``."""

    within_s: float


@dataclass(frozen=True, kw_only=True)
class StopPinnedWrites(ProducerCommand[PinnedWritesResult]):
    """End the series after the write in progress."""

    @property
    def limit_s(self) -> float:
        return self.producer.effective_delivery_timeout_s


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
class HoldRecords(Command[None]):
    """Let a share consumer keep the records of its next poll, and poll no more until `AnswerRecords`."""

    reader: int


@dataclass(frozen=True, kw_only=True)
class AnswerRecords(Command[None]):
    """Let a share consumer acknowledge the records that it holds, wait for the answers, and go on."""

    reader: int
    answer: ShareAnswer
    within_s: float = 10.0


@dataclass(frozen=True)
class StartApplication(Command[None]):
    """Start an instance of an application of Kafka Streams; `StopApplication` stops it."""

    spec: ApplicationSpec


@dataclass(frozen=True)
class ApplicationProgress(Command[ApplicationState]):
    """Report the state of an instance of an application."""

    reader: int


@dataclass(frozen=True)
class DumpStore(Command[None]):
    """Record what an instance's store holds."""

    reader: int
    within_s: float = 10.0


@dataclass(frozen=True)
class StopApplication(Command[ApplicationState]):
    """Stop an instance of an application."""

    reader: int
    within_s: float


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
class InitTransactions(RequestCommand[int]):
    """Get a producer id, which fences older producers of its transactional id; the result is the error code.

    A raw producer asks the broker ``coordinator``, and repeats requests that may succeed later.
    """

    within_s: float
    coordinator: Endpoint | None = None
    """Of a raw producer: the broker to ask."""


@dataclass(frozen=True, kw_only=True)
class BeginTransaction(ProducerCommand[int]):
    """Begin a transaction of a prepared producer; the result is its number."""


@dataclass(frozen=True, kw_only=True)
class AddPartition(RequestCommand[int]):
    """Add a partition to a raw producer's transaction before it writes there; returns the error code."""

    topic: str
    partition: int = 0
    coordinator: Endpoint
    within_s: float = 5.0


@dataclass(frozen=True, kw_only=True)
class SendOffsets(RequestCommand[int]):
    """Let a producer's transaction commit an offset of a group; the result is the error code.

    A librdkafka producer needs a member of the group in the same client.
    """

    group: str
    reader: int
    topic: str
    partition: int = 0
    offset: int
    within_s: float = 10.0
    member: bool = False
    """The request carries the id and generation of the member ``reader``, which must use the same library."""
    coordinator: Endpoint | None = None
    """Of a raw producer: the coordinator of its transactions."""
    group_coordinator: Endpoint | None = None
    """Of a raw producer: the coordinator of the group."""

    @property
    def limit_s(self) -> float:
        return 2 * self.within_s


@dataclass(frozen=True, kw_only=True)
class EndTransaction(RequestCommand[TransactionEnd]):
    """Commit or abort a producer's transaction."""

    commit: bool
    within_s: float = 10.0
    coordinator: Endpoint | None = None
    """Of a raw producer: the broker to ask."""

    @property
    def limit_s(self) -> float:
        return 2 * self.within_s


@dataclass(frozen=True, kw_only=True)
class OpenConnection(RequestCommand[int]):
    """Open the connection with this name, unless it is open; the result is its port at the client's end.

    It stays open until `CloseConnection`, or until it breaks. Operations with this name use it one after
    another, and fail once it has broken.
    """

    broker: Endpoint

    @property
    def limit_s(self) -> float:
        return self.producer.effective_delivery_timeout_s


@dataclass(frozen=True, kw_only=True)
class CloseConnection(RequestCommand[None]):
    """Close the connections with this name; the next request with it opens another one."""

    @property
    def limit_s(self) -> float:
        return self.producer.effective_delivery_timeout_s


@dataclass(frozen=True, kw_only=True)
class HoldSend(ProducerCommand[Held]):
    """Make a raw transactional producer's request for one message and open its connection; do not send it."""

    topic: str
    partition: int = 0
    label: str
    route: Route

    @property
    def limit_s(self) -> float:
        return self.producer.effective_delivery_timeout_s


@dataclass(frozen=True, kw_only=True)
class HoldEnd(ProducerCommand[Held]):
    """Make the request that ends a raw producer's transaction, but do not send it."""

    commit: bool
    coordinator: Endpoint


@dataclass(frozen=True, kw_only=True)
class Deliver(ProducerCommand[Delivered]):
    """Send a request that was held back, over the connection that was opened for it."""

    number: int
    within_s: float = 5.0


@dataclass(frozen=True, kw_only=True)
class CommitOffset(Command[OffsetAnswer]):
    """Commit an offset of a group without being a member; the result is the broker's answer."""

    reader: int
    group: str
    topic: str
    partition: int = 0
    offset: int
    coordinator: Endpoint
    """The broker to ask."""
    within_s: float = 10.0


@dataclass(frozen=True, kw_only=True)
class FetchOffset(Command[OffsetAnswer]):
    """Ask one broker for the committed offset of a group."""

    reader: int
    group: str
    topic: str
    partition: int = 0
    coordinator: Endpoint
    """The broker to ask."""
    within_s: float = 2.0
    stable: bool = False
    """Request an error as long as a transaction that commits offsets of the partition has no marker."""


def _concrete(kind: type[Command[object]]) -> Iterator[type[Command[object]]]:
    for below in kind.__subclasses__():
        yield from _concrete(below) if below in (ProducerCommand, RequestCommand) else (below,)


COMMANDS: Mapping[str, type[Command[object]]] = {kind.__name__: kind for kind in _concrete(Command)}


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
