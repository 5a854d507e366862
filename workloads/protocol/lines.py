"""The client protocol, version 1: the JSON lines that the agent and a client program exchange.

`docs/client-protocol.md` describes them for those who write a client program. The program first prints a
`Hello`. Then it reads requests (`{"id": 1, "op": "flush", ...}`) from its standard input and prints answers
(`{"id": 1, "result": {...}}`) and events. An event is an object with one key, its kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from workloads.protocol.codec import Json, from_json

VERSION = 1
HELLO_S = 20.0
"""How long a program may take until its `Hello`."""
SHOWN = 120
"""Characters of a bad line that an error quotes."""
FEATURES = ("idempotence", "transactions", "groups")
"""Features that a program may have beyond plain producers and consumers; words of `Hello.features`."""
LACKS = ("assign",)
"""Features of a plain client that a program may lack; words of `Hello.lacks`."""


@dataclass(frozen=True, kw_only=True)
class Hello:
    """The first line of a program."""

    protocol: int
    client: str
    """Name of the client library."""
    version: str
    """Version of the client library."""
    features: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    ns: int | None = None
    """CLOCK_MONOTONIC at the time of the line, in ns. A program that states it times its events itself."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a message or a request failed."""

    exception: str = ""
    """Class of the exception, without its package."""
    code: int | None = None
    """Error code of the Kafka protocol, if there is one."""
    text: str = ""
    abortable: bool = False
    """The transaction must be aborted; after that the producer can continue."""


@dataclass(frozen=True, kw_only=True)
class OutcomeEvent:
    """The outcome of one message."""

    producer: int
    seq: int
    outcome: Literal["ok", "fail", "info"] | None = None
    """None: the harness decides by `error.exception`, which is one of the Java client's."""
    offset: int | None = None
    broker: int | None = None
    attempts: int | None = None
    """ProduceRequests that carried the message; None: the program does not know."""
    error: Failure | None = None
    ns: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecordsEvent:
    """Records that one poll of a consumer returned."""

    consumer: int
    records: tuple[tuple[str, int, int, int | None, str | None], ...]
    """Topic, partition, offset, leader epoch, value."""
    ns: int | None = None


@dataclass(frozen=True, kw_only=True)
class GroupEvent:
    """Partitions were assigned to or taken from a member of a group, or it committed offsets."""

    consumer: int
    event: Literal["assigned", "revoked", "lost", "committed"]
    partitions: tuple[tuple[str, int, int | None], ...]
    """Topic, partition, committed offset."""
    ns: int | None = None
    generation: int | None = None
    """With `assigned`: generation of the group, or with KIP-848 the member's epoch."""
    member_id: str | None = None
    """With `assigned`: the id under which the group's coordinator knows the member."""


@dataclass(frozen=True, kw_only=True)
class ProblemEvent:
    """An error after which the consumer continues."""

    consumer: int
    error: Failure


Event: TypeAlias = OutcomeEvent | RecordsEvent | GroupEvent | ProblemEvent
_EVENTS: Mapping[str, type[Event]] = {
    "outcome": OutcomeEvent,
    "records": RecordsEvent,
    "group": GroupEvent,
    "problem": ProblemEvent,
}


@dataclass(frozen=True)
class ProgramAnswer:
    """The answer to a request."""

    number: int
    result: Mapping[str, Json]
    error: Failure | None


def request_line(number: int | None, op: str, fields: Mapping[str, Json]) -> str:
    """A request as a line, with its end. A request without a number (`send`) has no answer."""
    head: dict[str, Json] = {"op": op} if number is None else {"id": number, "op": op}
    return json.dumps({**head, **fields}, separators=(",", ":")) + "\n"


def parse_hello(line: str) -> Hello:
    """Read the first line of a program. Raises ValueError with the reason if it is not a valid one."""
    data = _object(line)
    if set(data) != {"hello"}:
        raise ValueError('the first line must be {"hello": {...}}')
    hello = from_json(Hello, data["hello"])
    if hello.protocol != VERSION:
        raise ValueError(f"it speaks version {hello.protocol} of the protocol, and this is version {VERSION}")
    for stated, known, what in ((hello.features, FEATURES, "has"), (hello.lacks, LACKS, "lacks")):
        unknown = [name for name in stated if name not in known]
        if unknown:
            raise ValueError(
                f"there is no feature {unknown[0]!r} that a program {what}; there is {', '.join(known)}"
            )
    return hello


def parse_line(line: str) -> ProgramAnswer | Event:
    """Read any later line of a program. Raises ValueError with the reason if it is not a valid one."""
    data = _object(line)
    if "id" in data:
        number, result, error = data["id"], data.get("result", {}), data.get("error")
        if not isinstance(number, int) or not isinstance(result, dict) or ("result" in data) == bool(error):
            raise ValueError("an answer has an id and either a result or an error, both of them objects")
        return ProgramAnswer(number, result, None if error is None else from_json(Failure, error))
    if len(data) != 1:
        raise ValueError("a line holds an answer, with an id, or one event")
    ((kind, content),) = data.items()
    if kind not in _EVENTS:
        raise ValueError(f"there is no event {kind!r}; the events are {', '.join(_EVENTS)}")
    return from_json(_EVENTS[kind], content)


def _object(line: str) -> dict[str, Json]:
    try:
        data = json.loads(line)
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(data, dict):
        raise ValueError("it is not a JSON object")
    return data


def value_text(value: bytes) -> str:
    """A record value as the protocol carries it: each byte as the character of that number."""
    return value.decode("latin-1")


def value_bytes(text: str | None) -> bytes | None:
    """The inverse of `value_text`; None for text that holds other characters."""
    try:
        return None if text is None else text.encode("latin-1")
    except UnicodeEncodeError:
        return None
