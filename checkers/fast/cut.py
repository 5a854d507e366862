"""Cutting large partitions: into ranges of sequence numbers, of offsets and of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.fast.tasks import Job, KeyRange, OffsetRange, Range, ReadWindow, WholePartition
from checkers.tables.arrays import make_partition
from checkers.tables.source import Source, file_system, only
from harness.kafka.model import TopicPartition

PIECE_MESSAGES = 1_000_000
"""A partition with more sends is judged in pieces of about so many."""

_ROWS_A_SEND = 8
"""Copies, reads and sightings besides: up to so many rows of a partition go with one message."""

Piece = WholePartition | KeyRange | OffsetRange | ReadWindow
"""What a partition is cut into."""


def cut(
    job: Job, where: TopicPartition, name: str, *, sends: int, rows: int, size: int = PIECE_MESSAGES
) -> list[Piece]:
    """The pieces of one topic partition; a single whole one when it is small.

    ``rows`` counts those of every table of messages, where they may be out of proportion to ``sends``.
    ``name`` begins the names of its parts of life and findings.
    """
    if sends <= size and rows <= _ROWS_A_SEND * size:
        return [WholePartition(where=where, part=name)]
    few = max(1, size * _ROWS_A_SEND * sends // rows) if rows > _ROWS_A_SEND * sends else size
    ends, spans = _ends(job.source, where)
    partition = make_partition(job.source, job.evidence, where, ends, spans)
    by_seq = _ranges(_groups(job.source, where, "sends", "seq"), few)
    by_offset = _ranges(_groups(job.source, where, "copies", "offset"), size * max(1, len(ends)))
    read = _groups(job.source, where, "reads", "ns")
    pieces: list[Piece] = [
        KeyRange(where=where, part=f"{name}-seq-{number:06}", partition=partition, seqs=seqs)
        for number, seqs in enumerate(by_seq)
    ]
    pieces += [
        OffsetRange(where=where, part=f"{name}-offset-{number:06}", partition=partition, offsets=offsets)
        for number, offsets in enumerate(by_offset)
    ]
    if read:
        pieces += [ReadWindow(where=where, partition=partition, times=times) for times in _ranges(read, size)]
    return pieces


def _files(source: Source, where: TopicPartition, table: str) -> Iterator[tuple[pq.ParquetFile, bool]]:
    """The files that may hold rows of a partition, and whether they hold rows of others, too."""
    for file in source.files.get(table, ()):
        if file.topic_partition in (None, where):
            system, inner = file_system(file.path)
            with system.open_input_file(inner) as handle:
                yield pq.ParquetFile(handle), file.topic_partition is None


def _groups(source: Source, where: TopicPartition, table: str, column: str) -> list[tuple[int, int, int]]:
    """Lowest value, highest value and rows of each row group; from statistics, or from the data."""
    found = []
    for parquet, mixed in _files(source, where, table):
        place = parquet.schema_arrow.get_field_index(column)
        for number in range(parquet.metadata.num_row_groups):
            group = parquet.metadata.row_group(number)
            stats = group.column(place).statistics if place >= 0 else None
            if not mixed and stats is not None and stats.has_min_max:
                found.append((int(stats.min), int(stats.max), int(group.num_rows)))
                continue
            names = ["topic", "partition", column] if mixed else [column]
            read = parquet.read_row_group(number, columns=names)
            values = (only(read, where) if mixed else read)[column].drop_null()
            if len(values):
                low, high = pc.min_max(values).values()
                found.append((low.as_py(), high.as_py(), len(values)))
    return found


Ends = dict[int, tuple[int, int]]


def _ends(source: Source, where: TopicPartition) -> tuple[Ends, Ends]:
    """Last epoch and offset, and first and last offset, of each replica; from statistics where possible."""
    ends: Ends = {}
    spans: Ends = {}
    for parquet, mixed in _files(source, where, "copies"):
        columns = [c for c in ("broker", "epoch", "offset") if c in parquet.schema_arrow.names]
        for number in range(parquet.metadata.num_row_groups):
            for broker, epoch, low, high in _group_ends(parquet, number, columns, where, mixed):
                was = ends.get(broker, (-1, -1))
                ends[broker] = (epoch, high) if high > was[1] else was
                known = spans.get(broker, (low, high))
                spans[broker] = (min(known[0], low), max(known[1], high))
    return ends, spans


def _group_ends(
    parquet: pq.ParquetFile, number: int, columns: list[str], where: TopicPartition, mixed: bool
) -> Iterator[tuple[int, int, int, int]]:
    """Broker, last epoch, first and last offset of each replica in a row group."""
    group = parquet.metadata.row_group(number)
    names = parquet.schema_arrow.names
    stats = {c: group.column(names.index(c)).statistics for c in columns}
    known = all(s is not None and s.has_min_max for s in stats.values())
    # One epoch only: else the highest epoch of a damaged log need not be that of its last record.
    if not mixed and known and all(stats[c].min == stats[c].max for c in columns if c != "offset"):
        epoch = int(stats["epoch"].max) if "epoch" in stats and not stats["epoch"].null_count else -1
        if "epoch" not in stats or not stats["epoch"].null_count:
            yield int(stats["broker"].max), epoch, int(stats["offset"].min), int(stats["offset"].max)
            return
    read = parquet.read_row_group(number, columns=[*(["topic", "partition"] if mixed else []), *columns])
    table = only(read, where) if mixed else read
    for broker in pc.unique(table["broker"]).to_pylist():
        mine = table.filter(pc.equal(table["broker"], broker))
        last = mine.slice(pc.index(mine["offset"], pc.max(mine["offset"])).as_py(), 1).to_pylist()[0]
        epoch = last.get("epoch")
        low = pc.min(mine["offset"]).as_py()
        yield int(broker), -1 if epoch is None else int(epoch), int(low), int(last["offset"])


def _ranges(groups: Sequence[tuple[int, int, int]], limit: int) -> list[Range]:
    """Ranges that hold about ``limit`` rows each; together they hold every value there is."""
    if not groups:
        return [Range()]
    end = max(high for _, high, _ in groups) + 1
    points: list[tuple[int, float]] = []
    for low, high, rows in groups:
        steps = max(1, -(-rows // max(1, limit // 4)))
        points += [(low + (high + 1 - low) * (k + 1) // steps, rows / steps) for k in range(steps)]
    bounds: list[int | None] = [None]
    last, filled = min(low for low, _, _ in groups), 0.0
    for at, weight in sorted(points):
        filled += weight
        if filled >= limit and last < at < end:
            bounds.append(at)
            last, filled = at, 0.0
    return [Range(low=low, high=high) for low, high in zip(bounds, [*bounds[1:], None], strict=True)]
