"""What readers were handed, against the final log: aborted reads, conflicts, skips, steps back, replays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.columns import FINDING, build
from checkers.evidence import Evidence
from checkers.kernel import FATE, Context, Fates, Log, Sends
from checkers.source import numbers


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
    settled = known & np.isin(
        fate, [FATE[n] for n in ("kept", "unknown_kept", "duplicated", "moved", "phantom")]
    )
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


def sequence_rows(context: Context, evidence: Evidence, logs: list[Log], reads: Reads) -> Any:
    """Findings about the order of delivery, per reader or group: skips, steps back, replays."""
    if len(reads.row) < 2:
        return FINDING.empty_table()
    reference = next((log for log in logs if log.broker == context.reference), None)
    stream = np.where(reads.group >= 0, -1 - reads.group.astype(np.int64), reads.reader.astype(np.int64))
    order = np.lexsort((reads.ns, stream))
    before, after = order[:-1], order[1:]
    same = stream[before] == stream[after]
    step = reads.offset[after] - reads.offset[before]
    back = np.flatnonzero(same & (step <= 0) & ~_vanished(reference, reads, before))
    ahead = np.flatnonzero(same & (step > 1))
    parts = []
    if len(back):
        kept = back[~_moved_by_request(context, evidence, reads, before[back], after[back])]
        grouped = reads.group[after[kept]] >= 0
        parts.append(_rows(context, "non_monotonic", reads, after[kept[~grouped]]))
        replayed = after[kept[grouped]]
        replayed = replayed[_committed(context, evidence, reads, replayed)]
        parts.append(_rows(context, "replay", reads, replayed))
    if len(ahead) and reference is not None:
        first, count = _between(reference, reads, before[ahead], after[ahead], evidence)
        real = count > 0
        real &= ~_moved_by_request(context, evidence, reads, before[ahead], after[ahead])
        rows, first = after[ahead[real]], first[real]
        parts.append(
            _rows(
                context,
                "skip",
                reads,
                rows,
                offset=reference.offset[first],
                writer=pa.array(reference.writer[first], mask=reference.writer[first] < 0),
                seq=pa.array(reference.seq[first], mask=reference.seq[first] < 0),
                count=count[real],
            )
        )
    return pa.concat_tables([part for part in parts if part.num_rows] or [FINDING.empty_table()])


def _vanished(log: Log | None, reads: Reads, rows: Any) -> Any:
    """The record read before is no longer there: the reader had to go back."""
    if log is None:
        return np.ones(len(rows), dtype=bool)
    place = log.at(reads.offset[rows])
    there = place >= 0
    if len(log.offset):
        there &= (log.writer[place] == reads.writer[rows]) & (log.seq[place] == reads.seq[rows])
    return ~there


def _between(log: Log, reads: Reads, before: Any, after: Any, evidence: Evidence) -> tuple[Any, Any]:
    """First message that was jumped over, and how many were."""
    messages = log.good & ~log.foreign & (log.seq >= 0)
    total = np.concatenate([[0], np.cumsum(messages)])
    low = np.searchsorted(log.offset, reads.offset[before], side="right")
    high = np.searchsorted(log.offset, reads.offset[after], side="left")
    count = total[high] - total[low]
    places = np.flatnonzero(messages)
    at = np.minimum(np.searchsorted(places, low), max(0, len(places) - 1))
    first = places[at] if len(places) else np.zeros(len(low), dtype=np.int64)
    if evidence.aborted:
        count = np.where(reads.committed[after], 0, count)
    return first, count


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
