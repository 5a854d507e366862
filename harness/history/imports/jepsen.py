"""Histories of Jepsen's Kafka workload (`jepsen.tests.kafka`), which the tests of Redpanda and Bufstream use.

An operation is a map in EDN, or in JSON as `acked export` writes it. `:send`, `:poll` and `:txn` have
micro-operations: `[:send key value]`, completed as `[:send key [offset value]]`, and `[:poll]`, completed as
`[:poll {key [[offset value] ...]}]`. `:assign` and `:subscribe` change what a process polls. See the
docstring of `jepsen.tests.kafka`.

The log comes from the final polls: those of a process that was assigned keys with `:seek-to-beginning?`
after the last message was sent.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from harness.errors import BadDataError, UsageError, quoted
from harness.history.imports.edn import forms_of
from harness.history.imports.format import Format, GivenFile, refuse_named, unnamed
from harness.history.imports.json_lines import objects_of
from harness.history.imports.lines import LONGEST_LABEL, MAX_INT, MAX_LONG, MAX_NS, MAX_OFFSET, Place
from harness.history.imports.recording import Longs, Recording, Rows, find_rows, nullable

WRITER_STEP = 10**12
"""`acked export` writes a message as `writer * WRITER_STEP + seq`: one integer, unique in the run."""

TOPIC = "key"
BROKER = 0
"""The broker to which the log of the final polls is attributed: Jepsen does not name it."""

_TYPES = ("ok", "fail", "info")
_NO_WORKLOAD = "is this a history of jepsen.tests.kafka?"


@dataclass
class _Columns:
    """Integers by column, with -1 for what is not known."""

    names: tuple[str, ...]
    values: dict[str, array[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.values = {name: array("q") for name in self.names}

    def add(self, *row: int) -> None:
        for column, value in zip(self.values.values(), row, strict=True):
            column.append(value)

    def __getitem__(self, name: str) -> Longs:
        return np.frombuffer(self.values[name], np.int64) if self.values[name] else np.empty(0, np.int64)


@dataclass
class _Pass:
    """What one process polled since it was sent to the beginning of all keys."""

    index: int
    ends: Mapping[int, int]
    """Where the logs end, by key, if the assignment says so (`acked export` does)."""


class Jepsen(Format):
    """A history of Jepsen's Kafka workload."""

    name: ClassVar[str] = "jepsen"
    source: ClassVar[str] = "Jepsen's Kafka workload (tests of Redpanda, Bufstream, Kafka); `acked export`"
    files: ClassVar[str] = "one history.edn (or .json of `acked export`)"
    gives: ClassVar[str] = "sends with outcome and offset, reads, assignments, the log that final polls read"
    lacks: ClassVar[str] = (
        "names of topics, replicas, leader epochs, acks, the kind of errors, whether operations were "
        "transactions"
    )

    def read(self, files: Sequence[GivenFile]) -> Recording:
        refuse_named(files, Jepsen)
        paths = unnamed(files, Jepsen)
        if len(paths) > 1:
            raise UsageError(f"acked import {self.name} takes {self.files}, and {paths[1]} is a second file.")
        history = _History(paths[0])
        for place, op in _operations(paths[0]):
            history.take(place, op)
        if not history.operations:
            raise BadDataError(f"{paths[0]} has no operation; {_NO_WORKLOAD}")
        return history.recording()


def _operations(file: Path) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    forms = objects_of(file) if file.suffix == ".json" else forms_of(file)
    for place, form in forms:
        if not isinstance(form, dict) or "type" not in form or "f" not in form:
            raise place.refusal(
                f"{quoted(form)} is no operation, a map with :type, :f and :process", _NO_WORKLOAD
            )
        yield place, form


class _History:
    """Takes operation after operation."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._keys: dict[int | str, int] = {}
        self._names: list[int | str] = []
        self._values: dict[object, int] = {}
        """Numbers of values that are no integers, below -1."""
        self._sends = _Columns(("process", "key", "value", "sent", "done", "kind", "offset", "error"))
        self._reads = _Columns(("process", "key", "value", "ns", "offset", "poll", "in_pass"))
        self._groups = Rows("groups", "ns group reader event topic partition")
        self._marks = Rows("marks", "ns name text")
        self._invoked: dict[int, tuple[int, Any]] = {}
        self._assigned: dict[int, set[int]] = {}
        self._passes: dict[int, int] = {}
        """The pass of each process that is in one."""
        self._all_passes: list[_Pass] = []
        self._polls = self._index = self._last_send = 0
        self._without_offset = 0
        self._is_export = False
        """`acked export` wrote it, whose values name writers and numbers."""

    def take(self, place: Place, op: Mapping[str, Any]) -> None:
        """One operation: its invocation or its completion."""
        self._index += 1
        process, function = op.get("process"), op["f"]
        ns = place.number(op.get("time", self._index), ":time", least=-MAX_NS, most=MAX_NS)
        if not isinstance(process, int):
            if op["type"] == "info":
                value = op.get("value")
                self._marks.add(
                    ns, str(function)[:LONGEST_LABEL], None if value is None else str(value)[:1000]
                )
            return
        place.number(process, ":process", most=MAX_INT)
        if function in ("r", "append", "read", "write", "cas"):
            raise place.refusal(f"operation {quoted(function)} is none of the Kafka workload", _NO_WORKLOAD)
        if op["type"] == "invoke":
            self._invoked[process] = ns, op
            if function in ("send", "txn") and any(m and m[0] == "send" for m in self._mops(place, op)):
                self._last_send = self._index
            return
        if op["type"] not in _TYPES:
            raise place.refusal(f":type {quoted(op['type'])} is none of invoke, ok, fail, info", _NO_WORKLOAD)
        sent_ns, _ = self._invoked.pop(process, (ns, op))
        if function in ("send", "txn", "poll"):
            self._complete(place, op, process, sent_ns, ns)
        elif function in ("assign", "subscribe") and op["type"] == "ok":
            self._assign(place, op, process, ns)
        if op["type"] == "info":
            self._passes.pop(process, None)

    def _complete(
        self, place: Place, op: Mapping[str, Any], process: int, sent_ns: int, done_ns: int
    ) -> None:
        kind = _TYPES.index(op["type"])
        error = op.get("error")
        code = error if isinstance(error, int) and abs(error) <= MAX_INT else 0
        for mop in self._mops(place, op):
            if mop[0] == "send":
                self._send(place, mop, (process, sent_ns, done_ns, kind, code))
            elif kind == 0 and len(mop) > 1:
                self._poll(place, mop[1], process, done_ns)
        self._rebalanced(place, op, process, done_ns)

    def _mops(self, place: Place, op: Mapping[str, Any]) -> Sequence[Any]:
        mops = op.get("value")
        if mops is None:
            return ()
        if not isinstance(mops, list) or not all(
            isinstance(mop, list) and mop and mop[0] in ("send", "poll") for mop in mops
        ):
            raise place.refusal(f":value {quoted(mops)} is no list of sends and polls", _NO_WORKLOAD)
        return mops

    def _send(self, place: Place, mop: Sequence[Any], op: tuple[int, int, int, int, int]) -> None:
        if len(mop) != 3:
            raise place.refusal(f"{quoted(mop)} is not [:send key value]", _NO_WORKLOAD)
        process, sent_ns, done_ns, kind, error = op
        _, key, value = mop
        offset = None
        if isinstance(value, list):
            if len(value) != 2:
                raise place.refusal(f"{quoted(mop)} is not [:send key [offset value]]", _NO_WORKLOAD)
            offset, value = value
        at = -1 if offset is None else place.number(offset, "an offset", most=MAX_OFFSET)
        row = (process, self._key(place, key), self._value(value), sent_ns, done_ns, kind, at, error)
        self._sends.add(*row)

    def _poll(self, place: Place, polled: Any, process: int, ns: int) -> None:
        if not isinstance(polled, dict):
            raise place.refusal(
                f"{quoted(polled)} is not what [:poll {{key [[offset value]]}}] returns", _NO_WORKLOAD
            )
        self._polls += 1
        in_pass = self._passes.get(process, -1)
        for name, pairs in polled.items():
            key = self._key(place, name)
            if not isinstance(pairs, list):
                raise place.refusal(f"{quoted(pairs)} is no list of [offset value]", _NO_WORKLOAD)
            for pair in pairs:
                if not isinstance(pair, list) or len(pair) != 2:
                    raise place.refusal(f"{quoted(pair)} is not [offset value]", _NO_WORKLOAD)
                if pair[0] is None:
                    self._without_offset += 1
                    continue
                offset = place.number(pair[0], "an offset", most=MAX_OFFSET)
                self._reads.add(process, key, self._value(pair[1]), ns, offset, self._polls, in_pass)

    def _assign(self, place: Place, op: Mapping[str, Any], process: int, ns: int) -> None:
        self._passes.pop(process, None)
        names = op.get("value") or []
        if not isinstance(names, list):
            raise place.refusal(f":value {quoted(names)} is no list of keys", _NO_WORKLOAD)
        keys = {self._key(place, key) for key in names}
        if op["f"] == "subscribe":
            self._groups.add(ns, "", process, "sought", None, None)
            return
        earlier = self._assigned.get(process, set())
        back = op.get("seek-to-beginning?") is True
        for key in sorted(keys if back else keys - earlier):
            self._groups.add(ns, "", process, "sought", *self._place_of(key))
        self._assigned[process] = keys
        if back:
            ends = op.get("log-ends")
            self._is_export |= ends is not None
            stated = {
                self._key(place, name): place.number(end, "the end of a log", most=MAX_OFFSET)
                for name, end in (ends.items() if isinstance(ends, dict) else ())
            }
            self._passes[process] = len(self._all_passes)
            self._all_passes.append(_Pass(self._index, stated))

    def _rebalanced(self, place: Place, op: Mapping[str, Any], process: int, ns: int) -> None:
        """A process that subscribed may continue anywhere in a partition that it is given anew."""
        log = op.get("rebalance-log")
        for event in log if isinstance(log, list) else ():
            for name in event.get("keys") or () if isinstance(event, dict) else ():
                self._groups.add(ns, "", process, "sought", *self._place_of(self._key(place, name)))

    def _key(self, place: Place, name: Any) -> int:
        if isinstance(name, str) and name.isascii() and name.isdigit() and len(name) < 10:
            name = int(name)
        if isinstance(name, bool) or not isinstance(name, int | str):
            raise place.refusal(f"key {quoted(name)} is neither a number nor a name", _NO_WORKLOAD)
        if isinstance(name, int):
            place.number(name, "a key", most=MAX_INT)
        else:
            place.topic(f"{TOPIC}-{name}")
        if name not in self._keys:
            self._keys[name] = len(self._names)
            self._names.append(name)
        return self._keys[name]

    def _value(self, value: Any) -> int:
        """An integer for a message's value; other values than small integers are numbered below -1."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_LONG:
            return value
        return self._values.setdefault(str(value), -2 - len(self._values))

    def _place_of(self, key: int) -> tuple[str, int]:
        name = self._names[key]
        return (TOPIC, name) if isinstance(name, int) else (f"{TOPIC}-{name}", 0)

    @property
    def operations(self) -> int:
        """The number of operations so far."""
        return self._index

    # ---- at the end

    def recording(self) -> Recording:
        """The tables of the history."""
        for process, (sent_ns, op) in self._invoked.items():
            place = Place(self._file)
            if op["f"] in ("send", "txn"):
                for mop in self._mops(place, op):
                    if mop[0] == "send":
                        self._send(place, mop, (process, sent_ns, -1, len(_TYPES), 0))
        sends, reads = self._sends, self._reads
        places = [self._place_of(key) for key in range(len(self._keys))]
        writer, seq, names, labels = self._identities()
        row = find_rows((reads["key"], reads["value"]), (sends["key"], sends["value"]))
        in_log, complete, ends = self._final_log(row)
        identities = np.append(writer, -1)[row], np.append(seq, -1)[row]

        def where(key: Longs) -> dict[str, pa.Array]:
            topics = pa.array([topic for topic, _ in places], pa.string())
            numbers = pa.array([number for _, number in places], pa.int32())
            return {"topic": topics.take(pa.array(key)), "partition": numbers.take(pa.array(key))}

        done = Recording()
        done.tables["sends"] = pa.table(
            {
                **where(sends["key"]),
                "writer": pa.array(writer),
                "seq": pa.array(seq),
                "sent_ns": pa.array(sends["sent"]),
                "done_ns": nullable(np.where(sends["kind"] < len(_TYPES), sends["done"], -1)),
                "outcome": pa.array([*_TYPES, None], pa.string()).take(pa.array(sends["kind"])),
                "offset": nullable(sends["offset"]),
                "error": pa.array(sends["error"], mask=sends["error"] == 0),
                "label": labels,
            }
        )
        read = np.flatnonzero(~in_log)
        done.tables["reads"] = pa.table(
            {
                **where(reads["key"][read]),
                "reader": pa.array(reads["process"][read]),
                "ns": pa.array(reads["ns"][read]),
                "offset": pa.array(reads["offset"][read]),
                "writer": nullable(identities[0][read]),
                "seq": nullable(identities[1][read]),
                "poll": pa.array(reads["poll"][read]),
            }
        )
        held = np.flatnonzero(in_log)
        held = held[
            np.unique(np.stack([reads["key"][held], reads["offset"][held]]), axis=1, return_index=True)[1]
        ]
        done.tables["copies"] = pa.table(
            {
                **where(reads["key"][held]),
                "broker": pa.array(np.full(len(held), BROKER)),
                "offset": pa.array(reads["offset"][held]),
                "writer": nullable(identities[0][held]),
                "seq": nullable(identities[1][held]),
            }
        )
        keys = np.flatnonzero(ends >= 0)
        done.tables["replicas"] = pa.table(
            {
                **where(keys),
                "broker": pa.array(np.full(len(keys), BROKER)),
                "complete": pa.array(complete[keys]),
                "leo": pa.array(ends[keys]),
                "leader": pa.array(np.ones(len(keys), np.bool_)),
            }
        )
        done.tables["groups"], done.tables["marks"] = self._groups.table(), self._marks.table()
        done.tables["writers"] = names
        self._say(done, complete)
        return done

    def _identities(self) -> tuple[Longs, Longs, pa.Table, pa.Array]:
        """Writer and number of each message, the table `writers`, and the messages' labels."""
        sends = self._sends
        count = len(sends["key"])
        value = sends["value"]
        order = np.lexsort((np.arange(count), value, sends["key"]))
        again = np.flatnonzero((np.diff(value[order]) == 0) & (np.diff(sends["key"][order]) == 0))
        if len(again):
            row = int(order[again[0] + 1])
            raise Place(self._file).refusal(
                f"value {value[row]} is sent twice to key {self._names[int(sends['key'][row])]!r}",
                "the messages of a key must differ",
            )
        writer, seq = np.divmod(value, WRITER_STEP)
        by_seq = np.lexsort((seq, writer))
        rising = (np.diff(sends["sent"][by_seq]) >= 0) | (np.diff(writer[by_seq]) != 0)
        exported = bool(count) and int(value.min()) >= 0 and int(writer.max()) <= MAX_INT
        exported = exported and len(np.unique(value)) == count and int(value.max()) >= WRITER_STEP
        if exported and (self._is_export or bool(rising.all())):
            numbers = np.unique(writer)
            names = [f"writer {number}" for number in numbers.tolist()]
            labels: pa.Array = pa.nulls(count, pa.string())
        else:
            writer = sends["process"].copy()
            by_time = np.lexsort((np.arange(count), sends["sent"], writer))
            first = np.flatnonzero(np.append(True, np.diff(writer[by_time]) != 0)) if count else by_time
            seq = np.empty(count, np.int64)
            sizes = np.diff(np.append(first, count))
            seq[by_time] = np.arange(count) - np.repeat(first, sizes)
            numbers = np.unique(writer)
            names = [f"process {number}" for number in numbers.tolist()]
            texts = {code: text for text, code in self._values.items()}
            labels = pa.array(value).cast(pa.string())
            if texts:
                labels = pa.array(
                    [str(texts.get(code, code))[:LONGEST_LABEL] for code in value.tolist()], pa.string()
                )
        table = pa.table({"writer": pa.array(numbers, pa.int32()), "name": pa.array(names, pa.string())})
        return writer, seq, table, labels

    def _final_log(self, row: Longs) -> tuple[Any, Any, Longs]:
        """Which reads are the final log, for which keys it was read to its end, and its ends (-1: no log).

        ``row`` is the message of each read. A final poll has read a log to its end if it has reached the
        highest offset that any operation names, and has every acknowledged message without an offset.
        """
        sends, reads = self._sends, self._reads
        keys = len(self._keys)
        highest = np.full(keys, -1, np.int64)
        acked = sends["kind"] == 0
        np.maximum.at(highest, sends["key"][acked], sends["offset"][acked])
        np.maximum.at(highest, reads["key"], reads["offset"])
        complete, ends = np.zeros(keys, np.bool_), np.full(keys, -1, np.int64)
        unplaced = np.flatnonzero(acked & (sends["offset"] < 0))
        order = np.argsort(reads["in_pass"], kind="stable")
        passes = range(len(self._all_passes))
        bounds = np.searchsorted(reads["in_pass"][order], np.arange(len(passes) + 1))
        best: dict[int, tuple[bool, int, int]] = {}
        for number in passes:
            if self._all_passes[number].index <= self._last_send:
                continue
            polled = order[bounds[number] : bounds[number + 1]]
            by_key = polled[np.argsort(reads["key"][polled], kind="stable")]
            polled_keys, first = np.unique(reads["key"][by_key], return_index=True)
            last_offsets = np.maximum.reduceat(reads["offset"][by_key], first) if len(by_key) else first
            reached = dict(zip(polled_keys.tolist(), last_offsets.tolist(), strict=True))
            lacking = set(sends["key"][unplaced[~np.isin(unplaced, row[polled])]].tolist())
            stated = self._all_passes[number].ends
            for key in reached.keys() | stated.keys():
                last = reached.get(key, -1)
                whole = key in stated or (last >= highest[key] and key not in lacking)
                end = stated.get(key, last + 1)
                best[key] = max(best.get(key, (False, -1, -1)), (bool(whole), end, number))
        chosen = np.full(keys, -2, np.int64)
        for key, (whole, end, number) in best.items():
            chosen[key], complete[key], ends[key] = number, whole, end
        in_log = (reads["in_pass"] >= 0) & (chosen[reads["key"]] == reads["in_pass"])
        return in_log, complete, ends

    def _say(self, done: Recording, complete: Any) -> None:
        if not self._all_passes:
            done.notes.append("No process polled from the beginning after the last send, so no log is known")
        else:
            done.notes.append(f"The log of the final polls stands as that of broker {BROKER}")
            unread = int((~complete).sum())
            if unread:
                done.notes.append(
                    f"The final polls did not reach the end of {unread} of {len(complete)} keys: what they "
                    f"lack is not known to be lost"
                )
        if self._without_offset:
            done.left_out["records that were polled without an offset"] = self._without_offset
