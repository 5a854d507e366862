"""One task of the fast path: a topic partition, or a bounded piece of it, from files to life and findings.

A partition that fits is judged whole. A large one is judged in pieces of two kinds: by sequence (the fate of
every message sent in that range) and by offset (replicas against each other). What two pieces say about the
same record is put right afterwards (`checkers.fast.cut`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.evidence import Evidence, Sightings, sightings_of
from checkers.fast.rows import difference_rows, flagged, life_table, of_messages, stray_rows, undetermined_row
from checkers.partition.consumers import (
    Edge,
    content_rows,
    read_arrays,
    read_edges,
    reads_of_edges,
    sequence_rows,
)
from checkers.partition.fates import FATE_NAMES, OK, Context, Fates, Log, Sends, decide, split_logs
from checkers.partition.keys import KeyIndex
from checkers.partition.replicas import Edge as OrderEdge
from checkers.partition.replicas import differences, out_of_order
from checkers.tables.arrays import context_of, copy_arrays, send_arrays, write
from checkers.tables.output import FINDING, TALLY, build
from checkers.tables.source import (
    Source,
    TopicPartition,
    Window,
    numbers,
    read_findings,
    read_rows,
    row_groups,
)
from harness.history.schema import OUTCOMES

SEND_COLUMNS = (
    "writer", "seq", "sent_ns", "done_ns", "outcome", "error", "offset", "attempts", "broker", "label", "txn",
)  # fmt: skip
COPY_COLUMNS = ("broker", "offset", "epoch", "writer", "seq", "intact", "home", "control")
SIGHTING_COLUMNS = ("broker", "offset", "seen_ns", "epoch", "writer", "seq", "gone_ns")
READ_COLUMNS = ("reader", "ns", "offset", "writer", "seq", "poll", "group", "isolation")
UNNAMED = (np.iinfo(np.int64).min, 0)


@dataclass(frozen=True)
class Job:
    """Everything a task needs, pickled to the workers."""

    source: Source
    evidence: Evidence
    life: str | None
    """Folder for the parts of `life`; None: not wanted."""
    findings: str


@dataclass(frozen=True)
class Piece:
    """What one task judges: all of a partition (`whole`), or of a large one messages by sequence (`keys`),
    replicas by `offsets`, the order of `reads` in a window of time, or that across windows (`joints`)."""

    holds: TopicPartition
    part: str
    kind: str = "whole"
    low: int = 0
    high: int = 0
    """Up to below here."""
    first: bool = True
    last: bool = True
    context: Context | None = None
    later_low: Mapping[int, int] = field(default_factory=dict)
    """Lowest offset of each writer in later pieces (see `out_of_order`)."""
    strays: tuple[str, ...] = ()
    """Findings of the pieces by sequence, which tell whose records nobody sent."""
    edges: tuple[tuple[int, Edge], ...] = ()
    """Reads at the edges of windows of time, with the number of each."""


def judge_piece(job: Job, piece: Piece) -> Iterator[Any]:
    """Judge a piece, write its parts of life and findings, and yield tallies."""
    if piece.kind == "offsets":
        yield from _by_offset(job, piece)
    elif piece.kind in ("reads", "joints"):
        yield from _reads(job, piece)
    else:
        yield from _by_sequence(job, piece)


def _by_sequence(job: Job, piece: Piece) -> Iterator[Any]:
    whole = piece.kind == "whole"
    name = f"{piece.holds[0]}/{piece.holds[1]}"
    table = _rows(job, piece, "sends", SEND_COLUMNS)
    sends = send_arrays(table, name)
    index = KeyIndex(sends.writer, sends.seq, name)
    copies = copy_arrays(_rows(job, piece, "copies", COPY_COLUMNS), name)
    context = piece.context or context_of(job.source, job.evidence, piece.holds, copies)
    seqs = None if whole else (piece.low, piece.high)
    logs = split_logs(context, index, copies, seqs)
    read_table = _rows(job, piece, "reads", READ_COLUMNS)
    read_row = index.find(numbers(read_table, "writer"), numbers(read_table, "seq"))
    read = np.bincount(read_row[read_row >= 0], minlength=len(sends))
    fates = decide(context, sends, logs, read)
    if not whole:
        again = _with_offsets(job, piece, copies, _absent_offsets(sends, fates))
        if again is not None:
            logs = split_logs(context, index, again, seqs)
            fates = decide(context, sends, logs, read)
    seen_table = _rows(job, piece, "sightings", SIGHTING_COLUMNS)
    seen_row = index.find(numbers(seen_table, "writer"), numbers(seen_table, "seq"))
    seen = sightings_of(len(sends), seen_row, seen_table)
    late, edges = out_of_order(sends, fates, dict(piece.later_low))
    mine = flagged(context, fates, logs)
    rows, place = _chosen(len(sends), mine, late, everything=job.life is not None)
    if len(rows) < len(sends):
        part = (table.take(pa.array(rows)), *_narrow(rows, sends, fates, read, seen))
    else:
        part = (table, sends, fates, read, seen)
    life = life_table(context, job.evidence, part[0], part[1], logs, part[2], part[3], part[4])
    reads = read_arrays(read_table, read_row)
    strays, told = stray_rows(context, sends, fates, logs, None if whole else (piece.low, piece.high))
    found = [
        of_messages(life, place[mine], part[2]),
        of_messages(life, place[late], part[2], "out_of_order"),
        strays,
        content_rows(context, job.evidence, sends, numbers(table, "txn"), fates, logs, reads),
    ]
    if piece.first:
        found.append(undetermined_row(context, fates))
    if whole:
        found.append(difference_rows(context, differences(context, logs), told))
        reference = [log for log in logs if log.broker == context.reference]
        found.append(sequence_rows(context, job.evidence, lambda low, high: reference, reads))
    if job.life is not None:
        write(job.life, piece.part, life)
    yield _fate_tally(piece, sends, fates)
    yield _put(job, piece, context, found)
    if not whole:
        yield _edge_tally(piece, edges)


def _chosen(count: int, mine: Any, late: Any, *, everything: bool) -> tuple[Any, Any]:
    """Messages that become rows of life, and at which row each of them is."""
    if everything:
        rows = np.arange(count)
        return rows, rows
    wanted = np.zeros(count, dtype=bool)
    wanted[mine] = True
    wanted[late] = True
    return np.flatnonzero(wanted), np.cumsum(wanted) - 1


def _rows(job: Job, piece: Piece, table: str, columns: tuple[str, ...]) -> Any:
    files = job.source.files.get(table, ())
    if piece.kind == "whole":
        return read_rows(files, table, columns, piece.holds)
    window = Window("seq", piece.low, piece.high - 1)
    found = read_rows(files, table, columns, piece.holds, (window,))
    seq = numbers(found, "seq")
    inside = (seq >= piece.low) & (seq < piece.high)
    return found if inside.all() else found.filter(pa.array(inside))


def _absent_offsets(sends: Sends, fates: Fates) -> Any:
    return np.unique(sends.offset[(sends.outcome == OK) & (fates.holders == 0) & (sends.offset >= 0)])


def _with_offsets(job: Job, piece: Piece, copies: Mapping[str, Any], offsets: Any) -> Any:
    """The copies and, besides, whatever stands at the offsets of messages that are absent."""
    if not len(offsets):
        return None
    window = Window("offset", int(offsets[0]), int(offsets[-1]))
    table = read_rows(job.source.files["copies"], "copies", COPY_COLUMNS, piece.holds, (window,))
    seq, offset = numbers(table, "seq"), numbers(table, "offset")
    more = np.isin(offset, offsets) & ((seq < piece.low) | (seq >= piece.high))
    if not more.any():
        return None
    extra = copy_arrays(table.filter(pa.array(more)), f"{piece.holds[0]}/{piece.holds[1]}")
    return {name: np.concatenate([values, extra[name]]) for name, values in copies.items()}


def _narrow(
    rows: Any, sends: Sends, fates: Fates, read: Any, seen: Sightings
) -> tuple[Sends, Fates, Any, Sightings]:
    return (
        Sends(*(values[rows] for values in vars(sends).values())),
        Fates(*(values[rows] for values in vars(fates).values())),
        read[rows],
        Sightings(*(values[rows] for values in vars(seen).values())),
    )


def _by_offset(job: Job, piece: Piece) -> Iterator[Any]:
    assert piece.context is not None
    name = f"{piece.holds[0]}/{piece.holds[1]}"
    window = Window("offset", piece.low, piece.high - 1)
    table = read_rows(job.source.files["copies"], "copies", COPY_COLUMNS, piece.holds, (window,))
    offset = numbers(table, "offset")
    inside = (offset >= piece.low) & (offset < piece.high)
    copies = copy_arrays(table if inside.all() else table.filter(pa.array(inside)), name)
    del table
    nobody = np.empty(0, dtype=np.int64)
    logs = split_logs(piece.context, KeyIndex(nobody, nobody, name), copies)
    empty = Sends(nobody, nobody, nobody, nobody)
    none = Fates(*(nobody for _ in range(7)))
    strays, told = stray_rows(piece.context, empty, none, logs, UNNAMED)
    compared = differences(piece.context, logs, first=piece.first)
    yield _put(job, piece, piece.context, [strays, difference_rows(piece.context, compared, told)])


def _reads(job: Job, piece: Piece) -> Iterator[Any]:
    """The order of the reads of one window of time; of all windows, what their edges tell."""
    assert piece.context is not None
    windows = None
    if piece.kind == "joints":
        reads = reads_of_edges([edge for _, edge in piece.edges])
        windows = np.array([window for window, _ in piece.edges], dtype=np.int64)
    else:
        window = Window("ns", piece.low, piece.high - 1)
        table = read_rows(job.source.files["reads"], "reads", READ_COLUMNS, piece.holds, (window,))
        ns = numbers(table, "ns")
        table = table.filter(pa.array((ns >= piece.low) & (ns < piece.high)))
        reads = read_arrays(table, np.full(table.num_rows, -1, dtype=np.int32))

    def slices(low: int, high: int) -> Iterator[Log]:
        return _reference(job, piece, low, high)

    yield _put(
        job, piece, piece.context, [sequence_rows(piece.context, job.evidence, slices, reads, windows)]
    )
    if piece.kind == "reads":
        row = {"kind": "reads", "topic": piece.holds[0], "partition": piece.holds[1], "name": piece.part}
        yield build(TALLY, {**row, "count": 0, "text": json.dumps(read_edges(reads))}, 1)


def _reference(job: Job, piece: Piece, low: int, high: int) -> Iterator[Log]:
    """The reference log between two offsets, a row group at a time."""
    context = piece.context
    assert context is not None
    name, nobody = context.name, np.empty(0, dtype=np.int64)
    index = KeyIndex(nobody, nobody, name)
    windows = (Window("offset", low, high), Window("broker", context.reference, context.reference))
    files = job.source.files.get("copies", ())
    for table in row_groups(files, "copies", COPY_COLUMNS, piece.holds, windows):
        mine = table.filter(pc.equal(table["broker"], context.reference))
        if mine.num_rows:
            (log,) = split_logs(context, index, copy_arrays(mine, name), (0, 0))
            strays = _strays(job, piece, int(log.offset[0]), int(log.offset[-1]))
            yield replace(log, foreign=np.isin(log.offset, strays))


def _strays(job: Job, piece: Piece, low: int, high: int) -> Any:
    """Offsets of the reference log at which stands what nobody sent, as the pieces by sequence found it."""
    assert piece.context is not None
    found = [np.empty(0, dtype=np.int64)]
    for path in piece.strays:
        table = read_findings(path, ("class", "offset", "brokers"))
        inside = pc.and_(pc.greater_equal(table["offset"], low), pc.less_equal(table["offset"], high))
        table = table.filter(inside).combine_chunks()
        mine = np.zeros(table.num_rows, dtype=bool)
        if table.num_rows:
            holders = table["brokers"].combine_chunks()
            here = pc.equal(pc.list_flatten(holders), piece.context.reference)
            mine[pc.list_parent_indices(holders).filter(here).to_numpy()] = True
        stray = pc.is_in(table["class"], pa.array(["foreign", "misrouted"])).to_numpy()
        over = pc.equal(table["class"], "overwritten").to_numpy()
        found.append(table["offset"].to_numpy()[(stray & mine) | over])
    return np.concatenate(found)


def _put(job: Job, piece: Piece, context: Context, found: list[Any]) -> Any:
    findings = pa.concat_tables([part for part in found if part.num_rows] or [FINDING.empty_table()])
    if findings.num_rows:
        write(job.findings, piece.part, findings)
    classes = findings.group_by(["class"]).aggregate([([], "count_all")])
    return build(
        TALLY,
        {
            "kind": "finding",
            "topic": context.topic,
            "partition": context.partition,
            "name": classes["class"],
            "count": classes["count_all"],
            "text": piece.part,
        },
        classes.num_rows,
    )


def _fate_tally(piece: Piece, sends: Sends, fates: Fates) -> Any:
    writers, place = (
        np.unique(sends.writer, return_inverse=True) if len(sends) else (sends.writer, sends.writer)
    )
    width = len(FATE_NAMES)
    code = (place.astype(np.int64) * 3 + sends.outcome) * width + fates.fate
    counts = np.bincount(code) if len(code) else np.empty(0, dtype=np.int64)
    used = np.flatnonzero(counts)
    return build(
        TALLY,
        {
            "kind": "fate",
            "topic": piece.holds[0],
            "partition": piece.holds[1],
            "text": piece.part,
            "writer": writers[used // (3 * width)],
            "outcome": pa.array(OUTCOMES).take(pa.array(used // width % 3)),
            "name": pa.array(FATE_NAMES).take(pa.array(used % width)),
            "count": counts[used],
        },
        len(used),
    )


def _edge_tally(piece: Piece, edges: list[OrderEdge]) -> Any:
    return build(
        TALLY,
        {
            "kind": "edge",
            "topic": piece.holds[0],
            "partition": piece.holds[1],
            "writer": pa.array([edge.writer for edge in edges], pa.int32()),
            "name": piece.part,
            "text": piece.part,
            "count": pa.array([edge.low for edge in edges], pa.int64()),
            "value": pa.array([edge.high for edge in edges], pa.int64()),
        },
        len(edges),
    )
