"""The table `life`: one row per message, from arrays, with what the run tells about it and its causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.causes import duplicate_causes, loss_causes
from checkers.evidence import (
    Evidence,
    Sightings,
    during,
    fault_names,
    fault_numbers,
    leader_at,
    own_epoch_at,
    writer_columns,
)
from checkers.partition.fate import FATES
from checkers.partition.fates import Fates
from checkers.partition.logs import Log, Partition, reference_of
from checkers.partition.messages import OK, Ints, Sends
from checkers.tables.output import LIFE, build
from checkers.tables.source import numbers

_FATE_NAMES = pa.array([fate.name for fate in FATES])
_OUTCOMES = pa.array(["ok", "fail", "info"])


def nullable(values: Ints, kind: pa.DataType) -> pa.Array:
    """An Arrow array in which negative numbers are null."""
    return pa.array(values, mask=np.asarray(values) < 0).cast(kind)


@dataclass(frozen=True, kw_only=True)
class Life:
    """Rows of `life`, and beside each row what its cause rests on."""

    table: pa.Table
    evidence: pa.Array

    def take(self, rows: Ints) -> Life:
        """Some rows."""
        return Life(table=self.table.take(pa.array(rows)), evidence=self.evidence.take(pa.array(rows)))


def life_of(
    partition: Partition,
    evidence: Evidence,
    *,
    table: pa.Table,
    sends: Sends,
    logs: Sequence[Log],
    fates: Fates,
    seen: Sightings,
) -> Life:
    """One row per message. ``table`` holds the rows of `sends`."""
    return attributed(
        partition,
        evidence,
        table=table,
        sends=sends,
        fates=fates,
        seen=seen,
        holders=_holders(fates.holders, logs),
        overwriters=_overwriters(reference_of(partition, logs), fates),
    )


def attributed(
    partition: Partition,
    evidence: Evidence,
    *,
    table: pa.Table,
    sends: Sends,
    fates: Fates,
    seen: Sightings,
    holders: pa.Array,
    overwriters: pa.Array,
) -> Life:
    """The same, where it is known already who holds each message, and what stands at its offset."""
    count = len(sends)
    sent, done = numbers(table, "sent_ns"), numbers(table, "done_ns")
    ok = sends.outcome == OK
    acked = np.where(ok, done, -1)
    broker = numbers(table, "broker")
    acked_by = np.where(broker >= 0, broker, seen.first_broker)
    acked_by = np.where(
        acked_by >= 0, acked_by, leader_at(evidence, partition.topic, partition.number, acked)
    )
    acked_by = np.where(ok, acked_by, -1)
    # A leader appends before it acknowledges: what nobody saw there was there at that moment all the same.
    unseen = ok & (seen.last_broker < 0)
    last_broker = np.where(unseen, acked_by, seen.last_broker)
    own_epoch = own_epoch_at(
        evidence, partition.topic, partition.number, np.where(unseen, acked_by, -1), acked
    )
    last_epoch = np.where(unseen, own_epoch, seen.last_epoch)
    fault = during(evidence.faults, acked)
    columns = {
        "topic": partition.topic,
        "partition": partition.number,
        "writer": sends.writer,
        "seq": sends.seq,
        "label": table["label"],
        "txn": table["txn"],
        **writer_columns(evidence, sends.writer),
        "sent_ns": table["sent_ns"],
        "done_ns": table["done_ns"],
        "outcome": _OUTCOMES.take(pa.array(sends.outcome)),
        "error": table["error"],
        "offset": nullable(sends.offset, pa.int64()),
        "attempts": table["attempts"],
        "broker": table["broker"],
        "acked_by": nullable(acked_by, pa.int32()),
        "copies": fates.copies,
        "replicas": holders,
        "found_offset": nullable(fates.found_offset, pa.int64()),
        "found_epoch": nullable(fates.found_epoch, pa.int32()),
        "reads": np.asarray(fates.reads, dtype=np.int32),
        "sent_during": fault_names(evidence.faults, during(evidence.faults, sent)),
        "acked_during": fault_names(evidence.faults, fault),
        "acked_fault": fault_numbers(evidence.faults, fault),
        "last_broker": nullable(last_broker, pa.int32()),
        "last_offset": nullable(seen.last_offset, pa.int64()),
        "last_epoch": nullable(last_epoch, pa.int32()),
        "gone_ns": nullable(seen.gone_ns, pa.int64()),
        "overwritten_by": overwriters,
        "fate": _FATE_NAMES.take(pa.array(fates.fate)),
    }
    found = loss_causes(
        partition,
        evidence,
        fate=fates.fate,
        acked_ns=acked,
        acked_by=acked_by,
        offset=sends.offset,
        seen=seen,
    )
    twice = duplicate_causes(evidence, fates.fate, sends, numbers(table, "attempts"))
    columns["cause"] = pc.coalesce(found.texts, twice)
    return Life(table=build(LIFE, columns, count), evidence=found.evidence)


def _holders(masks: Ints, logs: Sequence[Log]) -> pa.Array:
    known: Ints
    place: Ints
    if len(masks) and int(masks.min()) == int(masks.max()):
        known, place = masks[:1], np.zeros(len(masks), dtype=np.int32)
    else:
        known, place = np.unique(masks, return_inverse=True)
    lists = [[log.broker for bit, log in enumerate(logs) if int(mask) >> bit & 1] for mask in known]
    return pa.array(lists, pa.list_(pa.int32())).take(pa.array(place.astype(np.int32)))


def _overwriters(reference: Log, fates: Fates) -> pa.Array:
    rows = np.flatnonzero(fates.overwriter >= 0)
    if not len(rows):
        return pa.nulls(len(fates.fate), pa.string())
    place = fates.overwriter[rows]
    writer, seq = pa.array(reference.writer[place]), pa.array(reference.seq[place])
    named = pc.binary_join_element_wise(writer.cast(pa.string()), seq.cast(pa.string()), "/")
    is_named = pc.and_(pc.greater_equal(writer, 0), pc.greater_equal(seq, 0))
    texts = pc.if_else(is_named, named, "nobody")
    where = np.full(len(fates.fate), -1, dtype=np.int64)
    where[rows] = np.arange(len(rows))
    return texts.take(nullable(where, pa.int64()))
