"""Messages across topic partitions: where one was sent that a log names, and whether one was sent twice.

A task judges one topic partition, or a range of one. What it cannot find among its own sends is looked up
among all of them: nobody sent it, or it was sent elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.fast.results import HOMES
from checkers.fast.tasks import IdentityLookup, Range, SharedWriters
from checkers.partition.messages import Homes, Ints, KeyIndex
from checkers.tables.source import Source, Window, file_system, meets, numbers, read_file
from harness.errors import BadDataError
from harness.kafka.model import TopicPartition

_ROWS = 2_000_000
"""One task looks through about so many rows of `sends`."""


def lookups(source: Source, wanted: Ints) -> list[IdentityLookup]:
    """Tasks that look up messages (writer and sequence number, one row each) among all sends."""
    low, high = int(wanted[:, 1].min()), int(wanted[:, 1].max())
    found = []
    for file in source.files["sends"]:
        system, inner = file_system(file.path)
        with system.open_input_file(inner) as handle:
            meta = pq.ParquetFile(handle).metadata
        groups: list[int] = []
        rows = 0
        for group in range(meta.num_row_groups):
            if not meets(meta.row_group(group), (Window("seq", low, high),)):
                continue
            if groups and rows + meta.row_group(group).num_rows > _ROWS:
                found.append(IdentityLookup(path=file.path, groups=tuple(groups), wanted=wanted))
                groups, rows = [], 0
            groups.append(group)
            rows += meta.row_group(group).num_rows
        if groups:
            found.append(IdentityLookup(path=file.path, groups=tuple(groups), wanted=wanted))
    return found


def look_up(task: IdentityLookup) -> pa.Table:
    """The rows of `sends` that are wanted: writer, sequence number and topic partition."""
    index = KeyIndex(task.wanted[:, 0], task.wanted[:, 1], "what is looked up")
    parts = []
    for group in task.groups:
        table = read_file(task.path, "sends", HOMES.names, group)
        hit = index.find(numbers(table, "writer"), numbers(table, "seq")) >= 0
        if hit.any():
            parts.append(table.filter(pa.array(hit)).cast(HOMES))
    return pa.concat_tables([HOMES.empty_table(), *parts])


def homes_of(found: pa.Table) -> Homes:
    """What was looked up, as an index. Raises BadDataError for a message that was sent twice."""
    _refuse_twice(found)
    return Homes(
        writer=numbers(found, "writer").astype(np.int64),
        seq=numbers(found, "seq"),
        topic=tuple(found["topic"].to_pylist()),
        partition=numbers(found, "partition").astype(np.int64),
    )


def shared_writers(source: Source, seqs: Mapping[TopicPartition, Sequence[pa.Table]]) -> list[SharedWriters]:
    """Tasks that make sure that no message was sent to two topic partitions.

    ``seqs`` tells which sequence numbers each writer sent to each partition (`results.SEQS`): only writers
    of several partitions, whose sequence numbers overlap, can have done so.
    """
    spans: dict[int, list[tuple[int, int, TopicPartition]]] = {}
    for where, tables in seqs.items():
        for table in tables:
            for row in table.to_pylist():
                spans.setdefault(row["writer"], []).append((row["low"], row["high"], where))
    suspects = {writer: mine for writer, mine in spans.items() if _overlap(mine)}
    if not suspects:
        return []
    wheres = {where for mine in suspects.values() for _, _, where in mine}
    files = tuple(file for file in source.files["sends"] if file.topic_partition in (None, *wheres))
    low = min(low for mine in suspects.values() for low, _, _ in mine)
    high = max(high for mine in suspects.values() for _, high, _ in mine) + 1
    pieces = max(1, -(-sum(file.rows for file in files) // _ROWS))
    bounds = sorted({low + (high - low) * number // pieces for number in range(pieces + 1)})
    writers = tuple(sorted(suspects))
    return [
        SharedWriters(files=files, writers=writers, seqs=Range(low=one, high=other))
        for one, other in pairwise(bounds)
    ]


def _overlap(spans: Sequence[tuple[int, int, TopicPartition]]) -> bool:
    """Whether spans of different partitions have a number in common."""
    reach: dict[TopicPartition, int] = {}
    for low, high, where in sorted(spans):
        if any(low <= end for other, end in reach.items() if other != where):
            return True
        reach[where] = max(high, reach.get(where, high))
    return False


def refuse_sent_twice(task: SharedWriters) -> None:
    """Raise BadDataError if one of the writers sent a sequence number of the range twice."""
    _refuse_twice(pa.concat_tables([HOMES.empty_table(), *_sends_of(task)]))


def _sends_of(task: SharedWriters) -> Iterator[pa.Table]:
    for file in task.files:
        table = read_file(file.path, "sends", HOMES.names, None, (task.seqs.window("seq"),))
        mine = task.seqs.of(numbers(table, "seq")) & np.isin(numbers(table, "writer"), task.writers)
        if mine.any():
            yield table.filter(pa.array(mine)).cast(HOMES)


def _refuse_twice(sends: pa.Table) -> None:
    counts = sends.group_by(["writer", "seq"]).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1))
    if twice.num_rows:
        writer, seq = twice["writer"][0].as_py(), twice["seq"][0].as_py()
        mine = sends.filter(pc.and_(pc.equal(sends["writer"], writer), pc.equal(sends["seq"], seq)))
        places = sorted({f"{row['topic']}/{row['partition']}" for row in mine.to_pylist()})
        raise BadDataError(
            f"sends hold message {seq} of writer {writer} in {' and in '.join(places)}; an identity "
            f"(writer, seq) may be sent only once."
        )
