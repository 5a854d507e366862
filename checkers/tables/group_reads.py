"""Where the members of groups continued: the few reads around events of `groups`, and around steps back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.partition.messages import Ints
from checkers.tables.source import Source, numbers, read_rows, read_small
from harness.kafka.model import TopicPartition

GROUP_READS = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("reader", pa.int32()),
        ("ns", pa.int64()),
        ("offset", pa.int64()),
        ("uncommitted", pa.bool_()),
        ("before_ns", pa.int64()),
        ("before_offset", pa.int64()),
    ]
)
"""Reads of group members; `before_ns` and `before_offset` are of the member's previous read, null: none."""
_COLUMNS = ("reader", "ns", "offset", "group", "isolation")


def watermarks_of(source: Source, groups: pa.Table) -> pa.Table:
    """The rows of `watermarks` about the partitions that ``groups`` (rows of that table) names."""
    watermarks = (
        read_small(source, "watermarks") if groups.num_rows else read_small(source, "watermarks").slice(0, 0)
    )
    keep = np.zeros(watermarks.num_rows, dtype=bool)
    for where in _partitions(groups):
        keep |= _about(watermarks, where)
    return watermarks.filter(pa.array(keep))


def group_reads(source: Source, groups: pa.Table, watermarks: pa.Table) -> pa.Table:
    """The reads of members next to their events in ``groups``, and at their steps.

    A step ahead counts if the log may have begun above the position. Holds the reads of one partition at a
    time.
    """
    parts = [GROUP_READS.empty_table()]
    for where in _partitions(groups):
        reads = read_rows(source.files.get("reads", ()), "reads", _COLUMNS, where)
        reads = reads.filter(pc.is_valid(reads["group"]))
        if reads.num_rows:
            begins = numbers(watermarks.filter(pa.array(_about(watermarks, where))), "log_start")
            highest_start = int(begins.max()) if len(begins) else -1
            parts.append(
                _of_partition(where, reads, groups.filter(pa.array(_about(groups, where))), highest_start)
            )
    return pa.concat_tables(parts)


def _of_partition(where: TopicPartition, reads: pa.Table, events: pa.Table, highest_start: int) -> pa.Table:
    reader, ns, offset = (numbers(reads, name) for name in ("reader", "ns", "offset"))
    order = np.lexsort((ns, reader))
    reader, ns, offset = reader[order], ns[order], offset[order]
    first = np.append(True, reader[1:] != reader[:-1])
    before_ns, before_offset = (np.append(-1, values[:-1]) for values in (ns, offset))
    keep = (
        first
        | (offset <= before_offset)
        | ((offset > before_offset + 1) & (before_offset + 1 < highest_start))
    )
    keep |= np.append(first[1:], True)
    event_reader, event_ns = numbers(events, "reader"), numbers(events, "ns")
    for number in np.unique(reader).tolist():
        rows = np.flatnonzero(reader == number)
        places = np.searchsorted(ns[rows], event_ns[event_reader == number], side="right")
        keep[rows[places[places < len(rows)]]] = True
        keep[rows[places[places > 0] - 1]] = True
    chosen = np.flatnonzero(keep)
    kept = reads.take(pa.array(order[chosen]))
    isolation = kept["isolation"].cast(pa.string())
    columns = {
        "group": kept["group"].cast(pa.string()),
        "topic": pa.repeat(pa.scalar(where.topic), len(chosen)),
        "partition": pa.repeat(pa.scalar(where.partition, pa.int32()), len(chosen)),
        "reader": kept["reader"].cast(pa.int32()),
        "ns": kept["ns"],
        "offset": kept["offset"],
        "uncommitted": pc.fill_null(pc.equal(isolation, "read_uncommitted"), False),
        "before_ns": _or_null(before_ns[chosen], first[chosen]),
        "before_offset": _or_null(before_offset[chosen], first[chosen]),
    }
    return pa.table([columns[field.name] for field in GROUP_READS], schema=GROUP_READS)


def _or_null(values: Ints, absent: Ints) -> pa.Array:
    return pa.array(values, pa.int64(), mask=absent)


def _partitions(groups: pa.Table) -> list[TopicPartition]:
    pairs = zip(groups["topic"].to_pylist(), groups["partition"].to_pylist(), strict=True)
    return sorted(
        {TopicPartition(topic, number) for topic, number in pairs if topic is not None and number is not None}
    )


def _about(table: pa.Table, where: TopicPartition) -> np.ndarray:
    same = pc.and_(pc.equal(table["topic"], where.topic), pc.equal(table["partition"], where.partition))
    return np.asarray(pc.fill_null(same, False).to_numpy())
