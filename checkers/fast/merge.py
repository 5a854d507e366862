"""Merges the results of a partition's pieces: pure functions over typed results.

`merge` gives the result of the partition, which must not depend on where the partition was cut. Each finding
about a message or a record is written by exactly one range. This module adds what no range can see alone:
where logs end, the order of reads, and how much an incomplete read leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.evidence import Evidence
from checkers.fast.tasks import (
    CLASSES,
    FATES,
    PASSED,
    RECORDS,
    STEPS,
    UNSENT,
    KeyResult,
    OffsetResult,
    PassedResult,
    ReadOrderResult,
    record_of,
)
from checkers.partition.deliveries import Missed, Steps
from checkers.partition.logs import PartitionReplicas
from checkers.partition.messages import Ints
from checkers.partition.replicas import REFERENCE, ReplicaRecords, all_records
from checkers.tables.output import FINDING, build
from checkers.tables.rows import counted, joined, nullable, of_skips, of_steps, undetermined


@dataclass(frozen=True, kw_only=True)
class PartitionResult:
    """What became of a partition."""

    fates: pa.Table
    """Messages by writer, outcome and fate (`tasks.FATES`)."""
    written: pa.Table
    """Findings that the pieces have written, by class (`tasks.CLASSES`)."""
    findings: pa.Table
    """The findings that no piece can see alone, still to be written."""

    def classes(self) -> pa.Table:
        """All findings by class (`tasks.CLASSES`)."""
        return _summed(pa.concat_tables([self.written, counted(self.findings).cast(CLASSES)]), CLASSES)


def merge(
    partition: PartitionReplicas,
    evidence: Evidence,
    *,
    keys: Sequence[KeyResult],
    offsets: Sequence[OffsetResult],
    windows: Sequence[ReadOrderResult],
    passed: Sequence[PassedResult],
) -> PartitionResult:
    """The result of a partition from those of its pieces, in any order.

    ``passed`` tells what the steps ahead in ``windows`` passed over, in the order of `jumps`.
    """
    fates = _summed(_all([result.fates for result in keys], FATES), FATES)
    open_ends = fates.filter(pc.equal(fates["fate"], "undetermined"))["count"]
    steps = _steps(windows)
    return PartitionResult(
        fates=fates,
        written=_summed(
            _all([*(r.findings for r in keys), *(r.findings for r in offsets)], CLASSES), CLASSES
        ),
        findings=joined(
            [
                undetermined(partition, pc.sum(open_ends).as_py() or 0),
                of_steps(partition, evidence, steps.take(np.flatnonzero(steps.back))),
                of_skips(partition, evidence, jumps(windows), _passed(len(jumps(windows)), passed)),
                _unsent(partition, windows),
            ]
        ),
    )


def _all(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in tables)])


def _summed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Counts added up over equal keys."""
    keys = [name for name in schema.names if name != "count"]
    return table.group_by(keys).aggregate([("count", "sum")]).rename_columns(schema.names).cast(schema)


def _steps(windows: Sequence[ReadOrderResult]) -> Steps:
    return record_of(Steps, _all([result.steps for result in windows], STEPS))


def jumps(windows: Sequence[ReadOrderResult]) -> Steps:
    """The steps ahead of all windows, in a fixed order; the messages that they passed over must be found."""
    steps = _steps(windows)
    ahead = steps.take(np.flatnonzero(~steps.back))
    return ahead.take(np.lexsort((ahead.offset, ahead.low, ahead.reader, ahead.ns)))


def _passed(count: int, results: Sequence[PassedResult]) -> Missed:
    """Per jump, how many messages it passed over in all ranges, and the first of them."""
    table = _all([result.passed for result in results], PASSED)
    columns = {name: table[name].to_numpy() for name in PASSED.names}
    found = {name: np.full(count, -1, dtype=np.int64) for name in ("offset", "writer", "seq")}
    order = np.lexsort((columns["offset"], columns["jump"]))[::-1]  # the lowest offset is written last
    for name, values in found.items():
        values[columns["jump"][order]] = columns[name][order]
    passed = np.bincount(columns["jump"], weights=columns["count"], minlength=count).astype(np.int64)
    return Missed(count=passed, offset=found["offset"], writer=found["writer"], seq=found["seq"])


def _unsent(partition: PartitionReplicas, windows: Sequence[ReadOrderResult]) -> pa.Table:
    """Reads of records that name no message and that no replica holds: the first of each at each offset."""
    keys = ("offset", "writer", "seq")
    table = _all([result.unsent for result in windows], UNSENT).sort_by(
        [(name, "ascending") for name in (*keys, "ns")]
    )
    if not table.num_rows:
        return FINDING.empty_table()
    stacked = np.stack([table[name].to_numpy() for name in keys], axis=1)
    _, first = np.unique(stacked, axis=0, return_index=True)
    rows = table.take(pa.array(first))
    columns = {
        "class": "aborted_read",
        "topic": partition.topic,
        "partition": partition.number,
        "offset": rows["offset"],
        "writer": nullable(rows["writer"].to_numpy(), pa.int32()),
        "seq": nullable(rows["seq"].to_numpy(), pa.int64()),
        "count": 1,
        "reader": rows["reader"],
    }
    return build(FINDING, columns, rows.num_rows)


# ---- what a range has to know of the others


def later_lows(spans: Sequence[pa.Table]) -> list[Mapping[int, int]]:
    """For each range, by rising sequence numbers: the lowest offset of each writer in later ranges.

    Only what matters to the range: writers with messages of later ranges at lower offsets than some of its
    own.
    """
    known: dict[int, int] = {}
    found: list[Mapping[int, int]] = []
    for table in reversed(spans):
        rows = table.to_pylist()
        found.append(
            {
                row["writer"]: known[row["writer"]]
                for row in rows
                if known.get(row["writer"], row["high"]) < row["high"]
            }
        )
        for row in rows:
            known[row["writer"]] = min(row["low"], known.get(row["writer"], row["low"]))
    return found[::-1]


def taken_offsets(claims: Sequence[pa.Table]) -> list[Ints]:
    """For each range, its offsets of unreadable records that a newer message of another range claims."""
    best: dict[int, tuple[tuple[int, int, int], int]] = {}
    for number, table in enumerate(claims):
        for row in table.to_pylist():
            claim = ((row["sent_ns"], row["writer"], row["seq"]), number)
            best[row["offset"]] = max(claim, best.get(row["offset"], claim))
    return [
        np.array([o for o in table["offset"].to_pylist() if best[o][1] != number], dtype=np.int64)
        for number, table in enumerate(claims)
    ]


def offsets_by_broker(strays: pa.Table) -> dict[int, Ints]:
    """Rising offsets of `tasks.STRAYS` by broker."""
    broker, offset = strays["broker"].to_numpy(), strays["offset"].to_numpy()
    return {int(b): np.unique(offset[broker == b]) for b in np.unique(broker)}


def log_ends(tables: Sequence[pa.Table]) -> ReplicaRecords:
    """One record for each end of each replica's log: the first offset that it lacks, and how many.

    ``tables`` are what each range of offsets lacks there. The range that holds the first offset tells it.
    """
    records = record_of(ReplicaRecords, _all(tables, RECORDS))
    if not len(records):
        return all_records([])
    rows = np.lexsort((records.offset, records.broker, records.kind))
    table = np.stack([records.kind[rows], records.broker[rows]], axis=1)
    _, first, group = np.unique(table, axis=0, return_index=True, return_inverse=True)
    ends = records.take(rows[first])
    ends.count[:] = np.bincount(group.reshape(-1), weights=records.count[rows]).astype(np.int64)
    short = np.flatnonzero(ends.kind == REFERENCE)
    if len(short):  # where the reference ends is one offset, whatever each follower has behind it
        first = short[np.lexsort((ends.broker[short], ends.offset[short]))[0]]
        for values in (ends.offset, ends.epoch, ends.writer, ends.seq):
            values[short] = values[first]
    return ends.take(np.lexsort((ends.broker,)))
