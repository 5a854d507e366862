"""Writes the operations of a Jepsen history as EDN or JSON; the text is built column by column.

EDN has one operation on each line; JSON is an array of them, one on each line.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Longs = npt.NDArray[np.int64]

_EVENTS_AT_ONCE = 1 << 17
_STRING = pa.large_string()

OPERATION_KINDS = ("ok", "fail", "info", "invoke")
OPERATION_FUNCTIONS = ("send", "poll", "assign")
OK, FAIL, INFO, _INVOKE = range(len(OPERATION_KINDS))
SEND, POLL, ASSIGN = range(len(OPERATION_FUNCTIONS))
NEMESIS = -2
"""The owner of faults. Its process is `nemesis`, and both events of its operations are `info`."""


@dataclass(frozen=True, kw_only=True)
class Operations:
    """Operations as columns of equal length; events of the same moment and rank keep their order."""

    owner: Longs
    """Who invokes it. An owner has one process, and further ones where its operations overlap."""
    function: Longs
    """Index in `OPERATION_FUNCTIONS`, or in the functions that follow it in `Form.lines`."""
    kind: Longs
    """The kind of the completion, as an index in `OPERATION_KINDS`. After `info` the process ends."""
    invoked_ns: Longs
    completed_ns: Longs
    invoked_rank: Longs
    completed_rank: Longs
    """Order among events of one moment, lowest first."""
    invocation: pa.Array
    completion: pa.Array
    """The value at both events, as text of the form; further fields may follow it (`Form.field`)."""


def operations(*, function: int, ranks: tuple[int, int], **columns: Any) -> Operations:
    """Operations of one function, whose events have the same ranks."""
    count = len(columns["owner"])
    return Operations(
        function=np.full(count, function),
        invoked_rank=np.full(count, ranks[0]),
        completed_rank=np.full(count, ranks[1]),
        **columns,
    )


def concat(parts: list[Operations]) -> Operations:
    """All operations of some parts, in their order."""

    def column(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        return pa.concat_arrays(values) if isinstance(values[0], pa.Array) else np.concatenate(values)

    return Operations(**{field.name: column(field.name) for field in fields(Operations)})


@dataclass(frozen=True, kw_only=True)
class Form:
    """How EDN or JSON writes an operation; methods take Arrow columns or scalars and return a column."""

    null: str
    comma: str
    """Between the elements of a vector."""
    word: tuple[str, str]
    """Around a keyword."""
    key: tuple[str, str]
    """Around an integer that is the key of a map, with what separates it from its value."""
    label: tuple[str, str]
    """Around the name of a field, with what separates it from its value."""
    first: str
    between: str
    last: str
    """Text before the first operation, between two operations, and after the last; includes the brackets."""
    empty: str
    """A history without operations."""

    def field(self, name: str) -> str:
        """A field of an operation that is not its first, up to the field's value."""
        return ", " + name.join(self.label)

    def quoted(self, word: str) -> str:
        """A keyword."""
        return word.join(self.word)

    def vector(self, *parts: Any) -> pa.Array:
        """A vector of some elements."""
        spaced = [item for part in parts for item in (self.comma, part)][1:]
        return text("[", *spaced, "]")

    def vectors(self, elements: pa.Array, starts: Longs) -> pa.Array:
        """Vectors of consecutive elements; ``starts`` are their first indexes, and the end of the last."""
        return text("[", self._joined(elements, starts, self.comma), "]")

    def maps(self, keys: pa.Array, values: pa.Array, starts: Longs) -> pa.Array:
        """Maps of consecutive entries."""
        entries = text(self.key[0], keys, self.key[1], values)
        return text("{", self._joined(entries, starts, ", "), "}")

    def lines(self, ops: Operations, others: Sequence[str] = ()) -> Iterator[list[str]]:
        """The operations' events in order of time, as text to be written one after the other.

        ``others`` are functions besides `OPERATION_FUNCTIONS`.
        """
        events = _in_order(ops)
        process = _processes(ops, events)
        count = len(ops.owner)
        kinds = pa.array([self.quoted(kind) for kind in OPERATION_KINDS], _STRING)
        functions = pa.array([self.quoted(function) for function in (*OPERATION_FUNCTIONS, *others)], _STRING)
        times = np.concatenate([ops.invoked_ns, ops.completed_ns])
        origin = times[events[0]] if len(events) else 0
        for low in range(0, len(events), _EVENTS_AT_ONCE):
            now = events[low : low + _EVENTS_AT_ONCE]
            op = now % count
            begins, rows = pa.array(now < count), pa.array(op)
            by_nemesis = ops.owner[op] == NEMESIS
            kind = np.where((now < count) & ~by_nemesis, _INVOKE, ops.kind[op])
            number = pa.array(process[op]).cast(_STRING)
            yield text(
                self._separators(low, len(now)),
                "index".join(self.label),
                pa.array(np.arange(low, low + len(now))),
                self.field("type"),
                kinds.take(pa.array(kind)),
                self.field("f"),
                functions.take(pa.array(ops.function[op])),
                self.field("value"),
                pc.if_else(begins, ops.invocation.take(rows), ops.completion.take(rows)),
                self.field("time"),
                pa.array(times[now] - origin),
                self.field("process"),
                pc.if_else(pa.array(by_nemesis), pa.scalar(self.quoted("nemesis"), _STRING), number),
            ).to_pylist()

    def _separators(self, low: int, count: int) -> pa.Array:
        places = np.ones(count, np.int64)
        places[0] = 0 if low == 0 else 1
        return pa.array([self.first, self.between], _STRING).take(pa.array(places))

    def _joined(self, elements: pa.Array, starts: Longs, separator: str) -> pa.Array:
        lists = pa.LargeListArray.from_arrays(pa.array(starts, pa.int64()), elements)
        return pc.binary_join(lists, pa.scalar(separator, _STRING))


EDN = Form(
    null="nil",
    comma=" ",
    word=(":", ""),
    key=("", " "),
    label=(":", " "),
    first="{",
    between="}\n{",
    last="}\n",
    empty="",
)
JSON = Form(
    null="null",
    comma=", ",
    word=('"', '"'),
    key=('"', '": '),
    label=('"', '": '),
    first="[\n{",
    between="},\n{",
    last="}\n]\n",
    empty="[\n]\n",
)


def text(*parts: Any) -> pa.Array:
    """Columns and scalars side by side as one column of text."""
    return pc.binary_join_element_wise(
        *(pa.scalar(part, _STRING) if isinstance(part, str) else part.cast(_STRING) for part in parts),
        pa.scalar("", _STRING),
    )


def write(ops: Operations, out: TextIO, form: Form, others: Sequence[str] = ()) -> int:
    """Write the operations; returns how many events were written. ``others`` as in `Form.lines`."""
    written = 0
    for lines in form.lines(ops, others):
        out.writelines(lines)
        written += len(lines)
    out.write(form.last if written else form.empty)
    return written


def _in_order(ops: Operations) -> Longs:
    """Events in order: n is the invocation of operation n, count + n its completion."""
    count = len(ops.owner)
    rows = np.tile(np.arange(count), 2)
    ranks = np.concatenate([ops.invoked_rank, ops.completed_rank])
    times = np.concatenate([ops.invoked_ns, ops.completed_ns])
    return np.lexsort((rows, ranks, times))


def _processes(ops: Operations, events: Longs) -> Longs:
    """The process of each operation: the owner's lowest idle one, or a new one."""
    count = len(ops.owner)
    owner, is_open = ops.owner.tolist(), (ops.kind == INFO).tolist()
    process = [0] * count
    idle: dict[int, list[int]] = {}
    created = 0
    for event in events.tolist():
        if owner[event % count] == NEMESIS:
            continue
        if event < count:
            free = idle.get(owner[event])
            if free:
                process[event] = heapq.heappop(free)
            else:
                process[event], created = created, created + 1
        elif not is_open[event - count]:
            heapq.heappush(idle.setdefault(owner[event - count], []), process[event - count])
    return np.array(process, np.int64)
