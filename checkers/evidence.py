"""What the run itself tells about a message: who wrote it, during which fault, who led, who had it last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.tables.source import Source, numbers, read_small

SMALL = (
    "writers",
    "faults",
    "views",
    "log_events",
    "processes",
    "groups",
    "transactions",
    "replicas",
    "configs",
)
"""Tables that stay small however long the run; every task gets them whole."""

_FOREVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class FaultSpan:
    """One fault, from the moment it was in force until it was healed."""

    fault: int
    name: str
    kind: str
    targets: str
    from_ns: int
    until_ns: int


@dataclass(frozen=True)
class Evidence:
    """The small tables of a history, and what is derived from them once."""

    tables: Mapping[str, Any]
    faults: tuple[FaultSpan, ...] = ()
    writers: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    aborted: frozenset[tuple[int, int]] = frozenset()
    start_ns: int = 0
    """The first moment that any small table tells of; times are shown from here."""

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A small table as Python rows."""
        found: list[dict[str, Any]] = self.tables[table].to_pylist()
        return found


def gather(source: Source) -> Evidence:
    """Read the small tables of a history. Raises BadDataError for damaged ones."""
    return evidence_of({name: read_small(source, name) for name in SMALL})


def evidence_of(tables: Mapping[str, Any]) -> Evidence:
    """What follows from the small tables."""
    writers = {row["writer"]: row for row in tables["writers"].to_pylist()}
    aborted = frozenset(
        (row["writer"], row["txn"]) for row in tables["transactions"].to_pylist() if row["event"] == "aborted"
    )
    moments = [t["ns"][0].as_py() for t in tables.values() if "ns" in t.column_names and t.num_rows]
    start_ns = min((ns for ns in moments if ns is not None), default=0)
    return Evidence(tables, _fault_spans(tables["faults"]), writers, aborted, start_ns)


def _fault_spans(table: Any) -> tuple[FaultSpan, ...]:
    spans: dict[int, dict[str, Any]] = {}
    for row in sorted(table.to_pylist(), key=lambda row: int(row["ns"])):
        span = spans.setdefault(row["fault"], {"row": row, "from": None, "until": _FOREVER})
        if row["moment"] == "injected" or (row["moment"] == "injecting" and span["from"] is None):
            span["from"] = row["ns"]
        elif row["moment"] in ("healed", "failed"):
            span["until"] = row["ns"]
    return tuple(
        FaultSpan(
            number,
            span["row"]["name"],
            span["row"]["kind"],
            span["row"]["targets"] or "",
            span["from"],
            span["until"],
        )
        for number, span in sorted(spans.items(), key=lambda item: item[1]["from"] or 0)
        if span["from"] is not None
    )


def during(faults: tuple[FaultSpan, ...], at_ns: Any) -> Any:
    """Position of the newest fault in force at each time, -1 for none (or an unknown time)."""
    found = np.full(len(at_ns), -1, dtype=np.int32)
    for position, fault in enumerate(faults):
        found[(at_ns >= fault.from_ns) & (at_ns < fault.until_ns) & (at_ns >= 0)] = position
    return found


def fault_names(faults: tuple[FaultSpan, ...], positions: Any) -> Any:
    """Names of faults by position, null for -1."""
    return _pick([fault.name for fault in faults], positions, pa.string())


def fault_numbers(faults: tuple[FaultSpan, ...], positions: Any) -> Any:
    """Numbers of faults by position, null for -1."""
    return _pick([fault.fault for fault in faults], positions, pa.int32())


def writer_columns(evidence: Evidence, writer: Any) -> dict[str, Any]:
    """Columns of `life` that describe the writer of each message."""
    known = sorted(evidence.writers)
    lookup = np.array(known, dtype=np.int64)
    place = np.searchsorted(lookup, writer)
    place = np.minimum(place, max(0, len(known) - 1))
    place = np.where(lookup[place] == writer, place, -1) if known else np.full(len(writer), -1)
    names = {"writer_name": "name", "host": "host", "az": "az", "role": "role", "client": "client"}
    columns = {
        target: _pick([evidence.writers[w][name] for w in known], place, pa.string())
        for target, name in names.items()
    }
    columns["acks"] = _pick([evidence.writers[w]["acks"] for w in known], place, pa.int32())
    columns["idempotent"] = _pick([evidence.writers[w]["idempotent"] for w in known], place, pa.bool_())
    return columns


def _pick(values: list[Any], positions: Any, kind: Any) -> Any:
    if not values:
        return pa.nulls(len(positions), kind)
    return pa.array(values, kind).take(pa.array(positions, pa.int32(), mask=positions < 0))


def leader_at(evidence: Evidence, topic: str, partition: int, at_ns: Any) -> Any:
    """Who led by the newest view at each time; -1 where no view tells."""
    rows = [
        (row["ns"], row["leader"])
        for row in evidence.rows("views")
        if row["subject"] == "partition"
        and row["topic"] == topic
        and row["partition"] == partition
        and row["leader"] is not None
    ]
    if not rows:
        return np.full(len(at_ns), -1, dtype=np.int32)
    rows.sort()
    times = np.array([row[0] for row in rows], dtype=np.int64)
    leaders = np.array([-1, *(row[1] for row in rows)], dtype=np.int32)
    return leaders[np.searchsorted(times, at_ns, side="right")]


def own_epoch_at(evidence: Evidence, topic: str, partition: int, broker: Any, at_ns: Any) -> Any:
    """The leader epoch that each broker itself named last before a time; -1 where it never spoke."""
    found = np.full(len(at_ns), -1, dtype=np.int64)
    for number in np.unique(broker[broker >= 0]).tolist():
        rows = sorted(
            (row["ns"], row["epoch"])
            for row in evidence.rows("views")
            if row["source"] == f"broker{number}"
            and row["subject"] == "partition"
            and row["topic"] == topic
            and row["partition"] == partition
            and row["epoch"] is not None
        )
        times = np.array([row[0] for row in rows], dtype=np.int64)
        epochs = np.array([-1, *(row[1] for row in rows)], dtype=np.int64)
        mine = broker == number
        found[mine] = epochs[np.searchsorted(times, at_ns[mine], side="right")]
    return found


@dataclass(frozen=True)
class Sightings:
    """Per message: who was first seen to have it, and where it was last seen; -1 stands for never."""

    first_broker: Any
    last_broker: Any
    last_offset: Any
    last_epoch: Any
    gone_ns: Any


def sightings_of(count: int, row: Any, table: Any) -> Sightings:
    """Condense `sightings` (``row`` is the message of each) to one entry per message."""
    seen, gone = numbers(table, "seen_ns"), numbers(table, "gone_ns", -1)
    broker, offset, epoch = numbers(table, "broker"), numbers(table, "offset"), numbers(table, "epoch")
    empty = np.full(count, -1, dtype=np.int64)
    first, last_broker, last_offset, last_epoch, gone_ns = (empty.copy() for _ in range(5))
    mine = np.flatnonzero(row >= 0)
    by_first = mine[np.lexsort((seen[mine],))][::-1]
    first[row[by_first]] = broker[by_first]
    until = np.where(gone < 0, _FOREVER, gone)
    by_last = mine[np.lexsort((-seen[mine], until[mine]))]
    last_broker[row[by_last]] = broker[by_last]
    last_offset[row[by_last]] = offset[by_last]
    last_epoch[row[by_last]] = epoch[by_last]
    gone_ns[row[by_last]] = gone[by_last]
    return Sightings(first, last_broker, last_offset, last_epoch, gone_ns)


def hosts_in(targets: str) -> frozenset[str]:
    """Every name that a fault's targets mention."""
    try:
        found = json.loads(targets) if targets else []
    except ValueError:
        return frozenset({targets})
    names: set[str] = set()
    stack = [found]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            names.add(item)
        elif isinstance(item, Mapping):
            stack += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            stack += item
    return frozenset(names)
