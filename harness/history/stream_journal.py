"""The journal of one stream of load: a file of fixed rows, one per message, completed in place.

A stream sends its messages with the numbers 0, 1, 2, ..., so the number of a message is that of its row. The
row is begun before the message leaves and is completed when its outcome is known. All fields of a row are
stored before the state that says so, and the file is mapped into memory: after a SIGKILL every row is absent,
begun or complete. A row that is begun only is a message with an unknown outcome.

The file begins with a header of whole pages. All numbers are little-endian.

| bytes | content |
|---|---|
| 0–7 | `MAGIC` |
| 8–11 | bytes of the header, a multiple of 4096 |
| 12–15 | bytes of its JSON |
| 16–47 | four counters of 64 bits: messages begun, and those that ended as `ok`, `fail` and `info` |
| 48– | JSON: ``{"writer": 3, "targets": [["orders", 0], ["orders", 1]], "transaction": 100}`` |

With `transaction`, message n is in the writer's transaction n divided by it.

The counters are for those who watch a run; the rows decide. Each row has 40 bytes:

| bytes | content |
|---|---|
| 0–7 | when the message was handed to the client, in ns |
| 8–15 | when its outcome was known, in ns |
| 16–23 | offset in the acknowledgement; -1: none |
| 24–27 | its topic partition: an index into `targets` |
| 28–31 | broker that answered; -1: not known |
| 32–35 | error code; 0: none |
| 36–37 | ProduceRequests that carried it; -1: not known |
| 38–39 | `STATES`, stored last: 0 absent, 1 begun, 2 `ok`, 3 `fail`, 4 `info` |

The file grows by `ROWS_AT_ONCE` rows, which are
zero until they are used, and what is left of them is cut off when the stream ends.

Runs in the harness and in agents. Imports what agents may import. `harness.history.sends` reads whole files.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BadDataError, json_object

SUFFIX = ".sends"
"""The end of the names of these files."""
MAGIC = b"ackedst1"
PAGE_BYTES = 4096
ROW_BYTES = 40
ROWS_AT_ONCE = 1 << 12
"""Rows by which the file grows: whole pages of them."""
STATES = ("absent", "begun", "ok", "fail", "info")
BEGUN, ACKNOWLEDGED = STATES.index("begun"), STATES.index("ok")
_ENDED = {outcome: state for state, outcome in enumerate(STATES) if state > BEGUN}
_HEAD = struct.Struct("<8sII")
_COUNTERS = struct.Struct("<qqqq")
COUNTERS_AT, JSON_AT = _HEAD.size, _HEAD.size + _COUNTERS.size
COUNTERS_BYTES = _COUNTERS.size
LONGEST_HEADER_BYTES = 1 << 24
_SENT_NS, _TARGET = struct.Struct("<q"), struct.Struct("<i")
_ANSWER, _PLACE = struct.Struct("<qq"), struct.Struct("<ii")
_STATE = struct.Struct("<hh")
_UNKNOWN = -1
_MOST_ATTEMPTS = (1 << 15) - 1


@dataclass(frozen=True, kw_only=True)
class Counters:
    """A stream's messages: all that were begun, and those with an outcome."""

    begun: int = 0
    ok: int = 0
    fail: int = 0
    info: int = 0

    @classmethod
    def parse(cls, data: bytes) -> Counters:
        """The counters of a header, from its `COUNTERS_BYTES` at `COUNTERS_AT`; none of a shorter text."""
        if len(data) < COUNTERS_BYTES:
            return cls()
        begun, ok, fail, info = _COUNTERS.unpack_from(data)
        return cls(begun=begun, ok=ok, fail=fail, info=info)


@dataclass(frozen=True, kw_only=True)
class StreamHeader:
    """What a journal says of its stream."""

    writer: int
    targets: tuple[tuple[str, int], ...]
    """Topic and partition of each target."""
    transaction: int = 0
    """Messages of each transaction; 0: they are in none."""
    header_bytes: int
    """Where the rows begin."""


def beside(journal: Path, writer: int) -> Path:
    """The journal of a writer's stream beside that of its process: `client.3.sends`, `client.jsonl`."""
    return journal.with_suffix(f".{writer}{SUFFIX}")


def create(path: Path, writer: int, targets: Sequence[tuple[str, int]], transaction: int = 0) -> int:
    """Make a journal without rows; returns the bytes of its header. Raises FileExistsError, OSError.

    ``transaction``: messages of each transaction.
    """
    about = {"writer": writer, "targets": targets, **({"transaction": transaction} if transaction else {})}
    text = json.dumps(about, separators=(",", ":")).encode()
    header_bytes = -(-(JSON_AT + len(text)) // PAGE_BYTES) * PAGE_BYTES
    head = _HEAD.pack(MAGIC, header_bytes, len(text)) + bytes(COUNTERS_BYTES) + text
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(head.ljust(header_bytes, b"\0"))
    return header_bytes


def read_header(path: Path) -> StreamHeader:
    """The header of a journal. Raises BadDataError, OSError."""
    with path.open("rb") as file:
        return parse_header(file.read, str(path))


def parse_header(read: Callable[[int], bytes], path: str) -> StreamHeader:
    """The header of a journal at whose beginning ``read`` reads. Raises BadDataError, OSError."""
    head = read(JSON_AT)
    if len(head) < JSON_AT or not head.startswith(MAGIC):
        raise BadDataError(f"{path} is no journal of a stream: it does not begin with {MAGIC.decode()}.")
    _, header_bytes, json_bytes = _HEAD.unpack_from(head)
    if not JSON_AT + json_bytes <= header_bytes <= LONGEST_HEADER_BYTES or header_bytes % PAGE_BYTES:
        raise BadDataError(f"{path} has a header of {header_bytes} bytes with {json_bytes} of JSON.")
    data = json_object(read(json_bytes), f"the header of {path}")
    writer, targets = data.get("writer"), data.get("targets")
    if type(writer) is not int or not 0 <= writer < 1 << 31:
        raise BadDataError(f"The header of {path} names the writer {str(writer)[:40]!r}, which is no number.")
    if not isinstance(targets, list) or not targets or not all(map(_is_target, targets)):
        raise BadDataError(f"The header of {path} names no targets, each a topic and a partition.")
    transaction = data.get("transaction", 0)
    if type(transaction) is not int or not 0 <= transaction < 1 << 31:
        raise BadDataError(
            f"The header of {path} says that a transaction has {str(transaction)[:40]!r} messages; that is "
            "no number."
        )
    places = tuple((str(topic), int(partition)) for topic, partition in targets)
    return StreamHeader(writer=writer, targets=places, transaction=transaction, header_bytes=header_bytes)


def _is_target(target: object) -> bool:
    if not isinstance(target, list) or len(target) != 2:
        return False
    topic, partition = target
    return isinstance(topic, str) and type(partition) is int and 0 <= partition < 1 << 31


def read_counters(path: Path) -> Counters:
    """The present counters of a journal. Raises OSError."""
    with path.open("rb") as file:
        file.seek(COUNTERS_AT)
        return Counters.parse(file.read(COUNTERS_BYTES))


class StreamJournal:
    """The journal of a stream whose client runs in this process, open for writing.

    One thread begins messages; any thread may complete them.
    """

    def __init__(
        self, path: Path, writer: int, targets: Sequence[tuple[str, int]], transaction: int = 0
    ) -> None:
        """Create the file (`create`). Raises FileExistsError, OSError."""
        self._first = create(path, writer, targets, transaction)
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._rows = 0
        self._room = 0
        self._map = mmap.mmap(self._file, self._first)
        self._ended = dict.fromkeys(_ENDED.values(), 0)

    def begin(self, seq: int, target: int, sent_ns: int) -> None:
        """Record that message ``seq``, the next one, is about to leave. Raises OSError on a full disk."""
        if seq >= self._room:
            self._grow()
        at = self._first + seq * ROW_BYTES
        _SENT_NS.pack_into(self._map, at, sent_ns)
        _TARGET.pack_into(self._map, at + 24, target)
        _STATE.pack_into(self._map, at + 36, _UNKNOWN, BEGUN)
        self._rows = seq + 1

    def complete(
        self,
        seq: int,
        *,
        done_ns: int,
        outcome: str,
        error: int = 0,
        offset: int | None = None,
        attempts: int | None = None,
        broker: int | None = None,
    ) -> None:
        """Record the outcome of a message that was begun."""
        at = self._first + seq * ROW_BYTES
        _ANSWER.pack_into(self._map, at + 8, done_ns, _UNKNOWN if offset is None else offset)
        _PLACE.pack_into(self._map, at + 28, _UNKNOWN if broker is None else broker, error)
        state = _ENDED[outcome]
        tried = _UNKNOWN if attempts is None else min(attempts, _MOST_ATTEMPTS)
        _STATE.pack_into(self._map, at + 36, tried, state)
        self._ended[state] += 1

    def counters(self) -> Counters:
        """The messages so far, which are also put into the header for those who watch."""
        ok, fail, info = self._ended.values()
        if not self._map.closed:
            _COUNTERS.pack_into(self._map, COUNTERS_AT, self._rows, ok, fail, info)
        return Counters(begun=self._rows, ok=ok, fail=fail, info=info)

    def close(self) -> None:
        """Cut off what was not used. Nothing may be recorded afterwards. Safe to call twice."""
        if not self._map.closed:
            self.counters()
            self._map.close()
            os.truncate(self._file, self._first + self._rows * ROW_BYTES)
            os.close(self._file)

    def _grow(self) -> None:
        size, more = len(self._map), ROWS_AT_ONCE * ROW_BYTES
        os.posix_fallocate(self._file, size, more)  # a full disk is an error here, and a SIGBUS in the map
        self._map.resize(size + more)
        self._room += ROWS_AT_ONCE
