"""What readers were handed, against the final log: aborted reads, conflicts, skips, steps back, replays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.evidence import Evidence
from checkers.partition.fates import FATE, Context, Fates, Log, Sends
from checkers.tables.output import FINDING, build
from checkers.tables.source import numbers

_SETTLED = [FATE[name] for name in ("kept", "unknown_kept", "duplicated", "moved", "phantom")]


@dataclass(frozen=True)
class Reads:
    """Reads of one partition: ``row`` is the message in `sends`, -1 if nobody sent it."""

    reader: Any
    ns: Any
    offset: Any
    writer: Any
    seq: Any
    row: Any
    group: Any
    """Position in ``groups``, -1 for a reader assigned by hand."""
    groups: tuple[str, ...]
    committed: Any
    """The reader asked for committed records only."""


def read_arrays(table: Any, row: Any) -> Reads:
    """Columns of `reads` as arrays."""
    coded = pc.dictionary_encode(table["group"]).combine_chunks()
    if isinstance(coded, pa.ChunkedArray):
        coded = pa.concat_arrays(coded.chunks) if coded.num_chunks else pa.array([], pa.string())
        coded = coded.dictionary_encode() if not pa.types.is_dictionary(coded.type) else coded
    group = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    committed = pc.fill_null(pc.equal(table["isolation"], "read_committed"), False)
    return Reads(
        numbers(table, "reader"),
        numbers(table, "ns"),
        numbers(table, "offset"),
        numbers(table, "writer"),
        numbers(table, "seq"),
        row,
        group,
        tuple(coded.dictionary.to_pylist()),
        committed.to_numpy(zero_copy_only=False).astype(bool),
    )


def content_rows(
    context: Context, evidence: Evidence, sends: Sends, txn: Any, fates: Fates, logs: list[Log], reads: Reads
) -> Any:
    """Findings about what was read: aborted reads and offset conflicts, one per message and offset."""
    if not len(reads.row):
        return FINDING.empty_table()
    reference = next((log for log in logs if log.broker == context.reference), None)
    known = reads.row >= 0
    row = np.where(known, reads.row, 0)
    fate = fates.fate[row] if len(sends) else np.zeros(len(row), dtype=np.int8)
    gone = known & np.isin(fate, [FATE["unknown_dropped"], FATE["failed"]])
    gone |= known & reads.committed & _aborted(evidence, sends, txn)[row]
    there = np.full(len(row), -1, dtype=np.int64)
    stray = np.zeros(len(row), dtype=bool)
    if reference is not None:
        place = reference.at(reads.offset)
        there = np.where(place >= 0, reference.row[place], -1)
        stray = ~known & (there >= 0)
    settled = known & np.isin(fate, _SETTLED)
    if len(sends):
        settled &= fates.found_offset[row] >= 0
    own = there == reads.row
    if len(sends):
        own |= (reads.offset == fates.found_offset[row]) | (reads.offset == sends.offset[row])
    conflict = ((settled & ~own) | stray) & ~gone
    aborted_rows = _first(np.flatnonzero(gone), reads, with_offset=False)
    conflict_rows = _first(np.flatnonzero(conflict), reads, with_offset=True)
    return pa.concat_tables(
        [
            _rows(context, "aborted_read", reads, aborted_rows),
            _rows(context, "offset_conflict", reads, conflict_rows),
        ]
    )


def _aborted(evidence: Evidence, sends: Sends, txn: Any) -> Any:
    if not evidence.aborted or not len(sends):
        return np.zeros(max(1, len(sends)), dtype=bool)
    found = np.zeros(len(sends), dtype=bool)
    for writer, number in evidence.aborted:
        found |= (sends.writer == writer) & (txn == number)
    return found


def _first(rows: Any, reads: Reads, *, with_offset: bool) -> Any:
    if not len(rows):
        return rows
    columns = [reads.writer[rows].astype(np.int64), reads.seq[rows]]
    columns += [reads.offset[rows]] if with_offset else []
    ordered = rows[np.lexsort((reads.ns[rows],))]
    table = np.stack([c[np.lexsort((reads.ns[rows],))] for c in columns], axis=1)
    _, first = np.unique(table, axis=0, return_index=True)
    return np.sort(ordered[first])


def _rows(context: Context, name: str, reads: Reads, rows: Any, **more: Any) -> Any:
    return build(
        FINDING,
        {
            "class": name,
            "topic": context.topic,
            "partition": context.partition,
            "offset": reads.offset[rows],
            "writer": pa.array(reads.writer[rows], mask=reads.writer[rows] < 0),
            "seq": pa.array(reads.seq[rows], mask=reads.seq[rows] < 0),
            "count": 1,
            "reader": pa.array(_names(reads, rows), pa.string()),
            **more,
        },
        len(rows),
    )


def _names(reads: Reads, rows: Any) -> list[str]:
    return [
        f"group {reads.groups[group]}" if group >= 0 else f"reader {reader}"
        for group, reader in zip(reads.group[rows].tolist(), reads.reader[rows].tolist(), strict=True)
    ]


Slices = Callable[[int, int], Iterable[Log]]
"""The reference log from one offset to another, in one slice or in several that follow each other."""


def sequence_rows(
    context: Context, evidence: Evidence, reference: Slices, reads: Reads, windows: Any = None
) -> Any:
    """Findings about the order of delivery, per reader or group: skips, steps back, replays.

    ``windows`` says which piece each read is of; then only steps from one piece into another count.
    """
    stream = np.where(reads.group >= 0, -1 - reads.group.astype(np.int64), reads.reader.astype(np.int64))
    order = np.lexsort((reads.ns, stream))
    before, after = order[:-1], order[1:]
    same = stream[before] == stream[after]
    if windows is not None:
        same &= windows[before] != windows[after]
    step = reads.offset[after] - reads.offset[before]
    back = np.flatnonzero(same & (step <= 0))
    ahead = np.flatnonzero(same & (step > 1))
    if not len(back) and not len(ahead):
        return FINDING.empty_table()
    stood = np.zeros(len(back), dtype=bool)
    over = _Jumps.none(len(ahead))
    touched = np.concatenate([before[back], before[ahead], after[ahead]])
    for log in reference(int(reads.offset[touched].min()), int(reads.offset[touched].max())):
        stood |= _holds(log, reads, before[back])
        over.add(log, reads.offset[before[ahead]], reads.offset[after[ahead]])
    back = back[stood]  # where it no longer stands, the reader had to go back
    back = back[~_moved_by_request(context, evidence, reads, before[back], after[back])]
    grouped = reads.group[after[back]] >= 0
    replayed = after[back[grouped]]
    replayed = replayed[_committed(context, evidence, reads, replayed)]
    real = over.count > 0
    real &= ~_moved_by_request(context, evidence, reads, before[ahead], after[ahead])
    if evidence.aborted:
        real &= ~reads.committed[after[ahead]]
    parts = [
        _rows(context, "non_monotonic", reads, after[back[~grouped]]),
        _rows(context, "replay", reads, replayed),
        _rows(
            context,
            "skip",
            reads,
            after[ahead[real]],
            offset=over.offset[real],
            writer=over.writer[real],
            seq=over.seq[real],
            count=over.count[real],
        ),
    ]
    return pa.concat_tables([part for part in parts if part.num_rows] or [FINDING.empty_table()])


def _holds(log: Log, reads: Reads, rows: Any) -> Any:
    """Whether the record that was read is in the log."""
    place = log.at(reads.offset[rows])
    if not len(log.offset):
        return place >= 0
    return (place >= 0) & (log.writer[place] == reads.writer[rows]) & (log.seq[place] == reads.seq[rows])


@dataclass
class _Jumps:
    """Per jump of a reader: how many messages it went over, and the first of them."""

    count: Any
    offset: Any
    writer: Any
    seq: Any

    @classmethod
    def none(cls, jumps: int) -> _Jumps:
        return cls(*(np.full(jumps, start, dtype=np.int64) for start in (0, -1, -1, -1)))

    def add(self, log: Log, start: Any, end: Any) -> None:
        """Count the messages of a slice that lie between."""
        places = np.flatnonzero(log.good & ~log.foreign & (log.seq >= 0))
        offsets = log.offset[places]
        low = np.searchsorted(offsets, start, side="right")
        found = np.searchsorted(offsets, end, side="left") - low
        some = np.flatnonzero(found > 0)
        first = places[low[some]]
        fresh = (self.offset[some] < 0) | (log.offset[first] < self.offset[some])
        some, first = some[fresh], first[fresh]
        self.offset[some], self.writer[some] = log.offset[first], log.writer[first]
        self.seq[some] = log.seq[first]
        self.count += np.maximum(found, 0)


Edge = tuple[int, int, int, int, int, str | None, bool]
"""A read at the edge of a piece: reader, ns, offset, writer, seq, group, committed only."""


def read_edges(reads: Reads) -> list[tuple[Edge, Edge]]:
    """The first and the last read of each reader or group: all that a later piece has to know."""
    stream = np.where(reads.group >= 0, -1 - reads.group.astype(np.int64), reads.reader.astype(np.int64))
    order = np.lexsort((reads.ns, stream))
    starts = np.flatnonzero(np.diff(stream[order]) != 0) + 1
    firsts = order[np.concatenate([[0], starts])] if len(order) else order
    lasts = order[np.concatenate([starts - 1, [len(order) - 1]])] if len(order) else order
    return [(_edge(reads, one), _edge(reads, other)) for one, other in zip(firsts, lasts, strict=True)]


def _edge(reads: Reads, row: int) -> Edge:
    group = int(reads.group[row])
    numbers_ = (
        int(values[row]) for values in (reads.reader, reads.ns, reads.offset, reads.writer, reads.seq)
    )
    reader, ns, offset, writer, seq = numbers_
    name = reads.groups[group] if group >= 0 else None
    return reader, ns, offset, writer, seq, name, bool(reads.committed[row])


def reads_of_edges(edges: Sequence[Sequence[Any]]) -> Reads:
    """The edges of pieces as reads again."""
    columns = list(zip(*edges, strict=True)) or [()] * 7
    reader, ns, offset, writer, seq = (np.array(values, dtype=np.int64) for values in columns[:5])
    groups = tuple(sorted({name for name in columns[5] if name is not None}))
    group = np.array([-1 if name is None else groups.index(name) for name in columns[5]], dtype=np.int64)
    nobody = np.full(len(reader), -1, dtype=np.int32)
    return Reads(reader, ns, offset, writer, seq, nobody, group, groups, np.array(columns[6], dtype=bool))


def _moved_by_request(context: Context, evidence: Evidence, reads: Reads, before: Any, after: Any) -> Any:
    """The reader sought (or was assigned) a position between the two reads."""
    explained = np.zeros(len(before), dtype=bool)
    for row in evidence.rows("groups"):
        if row["event"] != "sought" or (row["topic"], row["partition"]) not in (
            (context.topic, context.partition),
            (None, None),
        ):
            continue
        explained |= (
            (reads.reader[after] == row["reader"])
            & (reads.ns[before] <= row["ns"])
            & (row["ns"] <= reads.ns[after])
        )
    return explained


def _committed(context: Context, evidence: Evidence, reads: Reads, rows: Any) -> Any:
    """The group had committed beyond what it was handed (or no commit of it is recorded at all)."""
    guilty = np.ones(len(rows), dtype=bool)
    for position, name in enumerate(reads.groups):
        commits = sorted(
            (event["ns"], event["offset"])
            for event in evidence.rows("groups")
            if event["event"] == "committed"
            and event["group"] == name
            and (event["topic"], event["partition"]) == (context.topic, context.partition)
            and event["offset"] is not None
        )
        if not commits:
            continue
        times = np.array([ns for ns, _ in commits], dtype=np.int64)
        marks = np.array([0, *(offset for _, offset in commits)], dtype=np.int64)
        mine = reads.group[rows] == position
        newest = marks[np.searchsorted(times, reads.ns[rows], side="right")]
        guilty &= ~mine | (reads.offset[rows] < newest)
    return guilty
