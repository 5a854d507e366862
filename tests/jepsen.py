"""A model of the checker of Jepsen's Kafka workload, written from its definitions, for exports in JSON.

It finds what that checker finds in a history of sends, polls and assignments, and fails if that checker
fails.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Op = Mapping[str, Any]
NEMESIS = "nemesis"
"""The process of faults. Its operations begin and end as `info`, and no checker looks at them."""
Place = tuple[int, int]
"""Key and value."""


def writes(op: Op) -> list[tuple[int, int | None, int]]:
    """Key, offset and value of every message that an operation sends."""
    found = []
    for mop in op["value"] if op["f"] == "send" else ():
        _, key, value = mop
        offset, value = value if isinstance(value, list) else (None, value)
        found.append((key, offset, value))
    return found


def reads(op: Op) -> dict[int, list[tuple[int, int]]]:
    """Offsets and values that an operation returned, by key, in order."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for mop in op["value"] if op["f"] == "poll" else ():
        for key, pairs in (mop[1] if len(mop) > 1 else {}).items():
            found[int(key)] += [(offset, value) for offset, value in pairs]
    return dict(found)


class Log:
    """The order of a key's values, by the offsets in sends and polls."""

    def __init__(self) -> None:
        self.values: dict[int, list[int]] = defaultdict(list)

    def add(self, offset: int | None, value: int) -> None:
        if offset is not None and value not in self.values[offset]:
            self.values[offset].append(value)

    def places(self) -> dict[int, int]:
        """The dense place of each value, where it first appears."""
        found: dict[int, int] = {}
        for place, offset in enumerate(sorted(self.values)):
            for value in self.values[offset]:
                found.setdefault(value, place)
        return found


def analyse(ops: Sequence[Op]) -> dict[str, list[Any]]:
    """Anomalies by name. Raises AssertionError for a history that Jepsen's checker cannot take."""
    _well_formed(ops)
    ops = [op for op in ops if op["process"] != NEMESIS]
    ended = [op for op in ops if op["type"] != "invoke"]
    writer = {(key, value): op for op in ended for key, _, value in writes(op)}
    read = {
        (key, value)
        for op in ended
        if op["type"] == "ok"
        for key, pairs in reads(op).items()
        for _, value in pairs
    }
    missing = read - writer.keys()
    assert not missing, f"no writer of {missing}"
    logs: dict[int, Log] = defaultdict(Log)
    for op in ended:
        if _committed(op, read):
            for key, offset, value in writes(op):
                logs[key].add(offset, value)
        for key, pairs in reads(op).items():
            for offset, value in pairs:
                logs[key].add(offset, value)
    places = {key: log.places() for key, log in logs.items()}
    acknowledged = {(key, value) for op in ended if op["type"] == "ok" for key, _, value in writes(op)}
    found = {
        "inconsistent-offsets": [
            (key, offset)
            for key, log in logs.items()
            for offset, values in log.values.items()
            if len(values) > 1
        ],
        "duplicate": [
            (key, value)
            for key, log in logs.items()
            for value, count in Counter(v for values in log.values.values() for v in values).items()
            if count > 1
        ],
        "lost-write": list(_lost(logs, places, writer, read)),
        "G1a": sorted(place for place in read if writer[place]["type"] == "fail"),
        "unseen": sorted(acknowledged - read),
        "int-poll-skip": [],
        "int-nonmonotonic-poll": [],
        "poll-skip": [],
        "nonmonotonic-poll": [],
    }
    for name, place in [*_inside(ended, places), *_between(ops, places)]:
        found[name].append(place)
    return {name: cases for name, cases in found.items() if cases}


def _committed(op: Op, read: set[Place]) -> bool:
    """Its effects must be visible: it succeeded, or it is unknown and one of its messages was read."""
    known = any((key, value) in read for key, _, value in writes(op))
    return op["type"] == "ok" or (op["type"] == "info" and known)


def _lost(
    logs: Mapping[int, Log],
    places: Mapping[int, Mapping[int, int]],
    writer: Mapping[Place, Op],
    read: set[Place],
) -> Iterable[Place]:
    for key, log in logs.items():
        bound = max((places[key].get(value, -1) for k, value in read if k == key), default=-1)
        last = {value: n for n, offset in enumerate(sorted(log.values)) for value in log.values[offset]}
        for value, place in last.items():
            if place <= bound and (key, value) not in read and _committed(writer[key, value], read):
                yield key, value


def _step(key: int, before: int, after: int, places: Mapping[int, Mapping[int, int]]) -> int:
    known = places.get(key, {})
    return known[after] - known[before] if before in known and after in known else 1


def _inside(ended: Sequence[Op], places: Mapping[int, Mapping[int, int]]) -> Iterable[tuple[str, Any]]:
    """Skips and steps back inside one poll."""
    for op in ended:
        for key, pairs in reads(op).items():
            values = [value for _, value in pairs]
            for before, after in zip(values, values[1:], strict=False):
                step = _step(key, before, after, places)
                if step != 1:
                    yield "int-poll-skip" if step > 1 else "int-nonmonotonic-poll", (key, before, after)


def _between(ops: Sequence[Op], places: Mapping[int, Mapping[int, int]]) -> Iterable[tuple[str, Any]]:
    """Skips and steps back between two polls of a process; partitions that stay assigned keep their place."""
    last: dict[int, dict[int, int]] = defaultdict(dict)
    for op in ops:
        mine = last[op["process"]]
        if op["type"] == "invoke":
            continue
        if op["f"] == "assign":
            last[op["process"]] = {key: value for key, value in mine.items() if key in op["value"]}
        for key, pairs in reads(op).items():
            if not pairs:
                continue
            if key in mine:
                step = _step(key, mine[key], pairs[0][1], places)
                if step != 1:
                    yield "poll-skip" if step > 1 else "nonmonotonic-poll", (key, mine[key], pairs[0][1])
            mine[key] = pairs[-1][1]


def _well_formed(ops: Sequence[Op]) -> None:
    """Indexes count up, time does not go back, and a process does one thing at a time until it is over."""
    busy: dict[int | str, Op] = {}
    over: set[int | str] = set()
    assert [op["index"] for op in ops] == list(range(len(ops)))
    assert [op["time"] for op in ops] == sorted(op["time"] for op in ops)
    for op in ops:
        process = op["process"]
        assert process not in over
        if process not in busy:
            assert op["type"] == ("info" if process == NEMESIS else "invoke")
            busy[process] = op
        else:
            assert op["type"] != "invoke"
            assert busy.pop(process)["f"] == op["f"]
            over |= {process} if op["type"] == "info" and process != NEMESIS else set()
    assert not busy
