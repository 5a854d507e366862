"""The client protocol, version 1: the JSON lines that the agent and a client program exchange.

`docs/client-protocol.md` describes them for those who write a client program. The program first prints a
`Hello`. Then it reads requests (`{"id": 1, "op": "flush", ...}`) from its standard input and prints answers
(`{"id": 1, "result": {...}}`) and events. An event is an object with one key, its kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from harness.errors import printable, shortened
from harness.secrets import shown_line
from workloads.protocol.codec import Json, from_json

VERSION = 1
HELLO_S = 20.0
"""How long a program may take until its `Hello`."""
LONGEST_LINE = 16 << 20
"""Bytes of a line of a program, with its end."""
SHOWN = 60
"""Characters of a bad line or a bad name that an error quotes."""
_LONGEST_READ = 1 << 12
"""Characters of them in which a secret is looked for."""
STREAMS = "streams"
SHARES = "shares"
APPLICATIONS = "applications"
TIMESTAMPS = "timestamps"
FEATURES = ("idempotence", "transactions", "groups", STREAMS, SHARES, APPLICATIONS, TIMESTAMPS)
"""Features that a program may have beyond plain producers and consumers; words of `Hello.features`."""
LACKS = ("assign",)
"""Features of a plain client that a program may lack; words of `Hello.lacks`."""


Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
LongNumber = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Name = Annotated[str, Meta(max_length=300)]
"""These types have the ranges of the columns that hold the values (`harness.history.schema`)."""


class Hello(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line of a program."""

    protocol: int
    client: Name
    """Name of the client library."""
    version: Name
    """Version of the client library."""
    features: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    ns: LongNumber | None = None
    """CLOCK_MONOTONIC at the time of the line, in ns. A program that states it times its events itself."""


class Failure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a message or a request failed."""

    exception: Name = ""
    """Class of the exception, without its package."""
    code: Int32 | None = None
    """Error code of the Kafka protocol, if there is one."""
    text: str = ""
    abortable: bool = False
    """The transaction must be aborted; after that the producer can continue."""


class OutcomeEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of one message."""

    producer: Number
    seq: LongNumber
    outcome: Literal["ok", "fail", "info"] | None = None
    """None: the harness decides by `error.exception`, which is one of the Java client's."""
    offset: Int64 | None = None
    """Negative: the acknowledgement named none."""
    broker: Int32 | None = None
    attempts: Number | None = None
    """ProduceRequests that carried the message; None: the program does not know."""
    error: Failure | None = None
    ns: LongNumber | None = None


class RecordsEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Records that one poll of a consumer returned."""

    consumer: Number
    records: tuple[tuple[str, Number, LongNumber, Int32 | None, str | None], ...]
    """Topic, partition, offset, leader epoch, value."""
    ns: LongNumber | None = None


class GroupEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Partitions were assigned to or taken from a member of a group, or it committed offsets."""

    consumer: Number
    event: Literal["assigned", "revoked", "lost", "committed"]
    partitions: tuple[tuple[str, Number, Int64 | None], ...]
    """Topic, partition, committed offset; a negative one means that none is committed."""
    ns: LongNumber | None = None
    generation: Int32 | None = None
    """With `assigned`: generation of the group, or with KIP-848 the member's epoch."""
    member_id: Name | None = None
    """With `assigned`: the id under which the group's coordinator knows the member."""


class AcquiredEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Records that one poll of a share consumer returned."""

    consumer: Number
    records: tuple[tuple[str, Number, LongNumber, Number | None, str | None], ...]
    """Topic, partition, offset, delivery count, value."""
    lock_ms: Number | None = None
    """How long the broker keeps them for the consumer."""
    ns: LongNumber | None = None


class AcknowledgedEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A share consumer is about to acknowledge records."""

    consumer: Number
    answer: Literal["accept", "release", "reject", "renew"]
    partitions: tuple[tuple[str, Number, tuple[LongNumber, ...]], ...]
    """Topic, partition, offsets."""
    ns: LongNumber | None = None


class AnsweredEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of acknowledgements of a share consumer."""

    consumer: Number
    partitions: tuple[tuple[str, Number, tuple[LongNumber, ...]], ...]
    """Topic, partition, offsets."""
    error: Failure | None = None
    """None: the broker has carried them out."""
    ns: LongNumber | None = None


class StateEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An instance of an application of Kafka Streams has another state."""

    consumer: Number
    state: Literal[
        "CREATED", "REBALANCING", "RUNNING", "PENDING_SHUTDOWN", "NOT_RUNNING", "PENDING_ERROR", "ERROR"
    ]
    partitions: tuple[Number, ...] = ()
    """Those of the source that it processes."""
    ns: LongNumber | None = None


class StoredEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an instance's store holds of one partition of the source."""

    consumer: Number
    partition: Number
    entries: tuple[tuple[Name, LongNumber], ...]
    """Word and count."""
    ns: LongNumber | None = None


class ProblemEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An error after which the consumer continues."""

    consumer: Number
    error: Failure


ShareEvent: TypeAlias = AcquiredEvent | AcknowledgedEvent | AnsweredEvent
ApplicationEvent: TypeAlias = StateEvent | StoredEvent
Event: TypeAlias = OutcomeEvent | RecordsEvent | GroupEvent | ShareEvent | ApplicationEvent | ProblemEvent
_EVENTS: Mapping[str, type[Event]] = {
    "outcome": OutcomeEvent,
    "records": RecordsEvent,
    "group": GroupEvent,
    "acquired": AcquiredEvent,
    "acknowledged": AcknowledgedEvent,
    "answered": AnsweredEvent,
    "state": StateEvent,
    "stored": StoredEvent,
    "problem": ProblemEvent,
}


class ProgramAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to a request."""

    id: Int64
    result: Mapping[str, Any] | None = None
    error: Failure | None = None


def request_line(number: int | None, op: str, fields: Mapping[str, Json]) -> str:
    """A request as a line, with its end. A request without a number (`send`) has no answer."""
    head: dict[str, Json] = {"op": op} if number is None else {"id": number, "op": op}
    return json.dumps({**head, **fields}, separators=(",", ":")) + "\n"


def parse_hello(line: bytes) -> Hello:
    """Read the first line of a program. Raises ValueError with the reason if it is not a valid one."""
    data = _object(line)
    if set(data) != {"hello"}:
        raise ValueError('the first line must be {"hello": {...}}')
    hello = from_json(Hello, data["hello"])
    if hello.protocol != VERSION:
        raise ValueError(
            f"it speaks version {str(hello.protocol)[:20]} of the protocol, and this is version {VERSION}"
        )
    for stated, names, what in ((hello.features, FEATURES, "has"), (hello.lacks, LACKS, "lacks")):
        unknown = [name for name in stated if name not in names]
        if unknown:
            raise ValueError(
                f"there is no feature {quoted(unknown[0])} that a program {what}; there is {', '.join(names)}"
            )
    return hello


def parse_line(line: bytes) -> ProgramAnswer | Event:
    """Read any later line of a program. Raises ValueError with the reason if it is not a valid one."""
    data = _object(line)
    if "id" in data:
        answer = from_json(ProgramAnswer, data)
        if (answer.result is None) == (answer.error is None):
            raise ValueError("an answer has an id and either a result or an error, both of them objects")
        return answer
    if len(data) != 1:
        raise ValueError("a line holds an answer, with an id, or one event")
    ((kind, content),) = data.items()
    if kind not in _EVENTS:
        raise ValueError(f"there is no event {quoted(kind)}; the events are {', '.join(_EVENTS)}")
    return from_json(_EVENTS[kind], content)


_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise ValueError(f"it is longer than {LONGEST_LINE >> 20} MiB")
    try:
        data = msgspec.json.decode(line)
        keys = _keys(data)
    except RecursionError:
        raise ValueError("it is JSON that is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(data, dict):
        raise ValueError("it is not a JSON object")
    # Outside strings, JSON has one colon for each key; the decoder keeps the last of several equal keys.
    if _STRING.sub(b"", line).count(b":") != keys:
        raise ValueError("an object has the same key twice")
    return data


def _keys(data: object) -> int:
    """The number of keys of all objects in ``data``."""
    if isinstance(data, dict):
        return len(data) + sum(map(_keys, data.values()))
    return sum(map(_keys, data)) if isinstance(data, list) else 0


def quoted(text: str) -> str:
    """A text of a program as an error quotes it."""
    return f"'{shown(text)}'"


def quoted_line(line: bytes) -> str:
    """The beginning of a line of a program as an error quotes it."""
    return quoted(line[: 4 * SHOWN].decode(errors="replace").strip())


def shown(text: str, longest: int = SHOWN) -> str:
    """A text of a program as an error shows it: on one line, printable, without secrets, shortened."""
    text = shown_line(shortened(text, _LONGEST_READ))
    return printable(shortened(" ".join(text.split()), longest))


def value_text(value: bytes) -> str:
    """A record value as the protocol carries it: each byte as the character of that number."""
    return value.decode("latin-1")


def value_bytes(text: str | None) -> bytes | None:
    """The inverse of `value_text`; None for text that holds other characters."""
    try:
        return None if text is None else text.encode("latin-1")
    except UnicodeEncodeError:
        return None
