"""From arrays to rows: the life table and the findings, as Arrow tables."""

from __future__ import annotations

from typing import Any

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
from checkers.partition.fate import BENIGN
from checkers.partition.fates import FATE, FATE_NAMES, OK, Context, Fates, Log, Sends
from checkers.partition.replicas import KINDS, Difference
from checkers.tables.output import FINDING, LIFE, build
from checkers.tables.source import numbers


def nullable(values: Any, kind: Any) -> Any:
    """An Arrow array in which -1 is null."""
    return pa.array(values, mask=np.asarray(values) < 0).cast(kind)


def life_table(
    context: Context,
    evidence: Evidence,
    table: Any,
    sends: Sends,
    logs: list[Log],
    fates: Fates,
    read: Any,
    seen: Sightings,
) -> Any:
    """One row per message of the partition (or of a piece of it)."""
    holders, overwriters = _holders(fates.holders, logs), _overwriters(context, logs, fates)
    return attributed(context, evidence, table, sends, fates, read, seen, holders, overwriters)


def attributed(
    context: Context,
    evidence: Evidence,
    table: Any,
    sends: Sends,
    fates: Fates,
    read: Any,
    seen: Sightings,
    holders: Any,
    overwriters: Any,
) -> Any:
    """The same, where it is known already who holds each message, and what stands at its offset."""
    count = len(sends)
    sent, done = numbers(table, "sent_ns"), numbers(table, "done_ns")
    ok = sends.outcome == OK
    acked = np.where(ok, done, -1)
    broker = numbers(table, "broker")
    acked_by = np.where(broker >= 0, broker, seen.first_broker)
    acked_by = np.where(acked_by >= 0, acked_by, leader_at(evidence, context.topic, context.partition, acked))
    acked_by = np.where(ok, acked_by, -1)
    # A leader appends before it acknowledges: what nobody saw there was there at that moment all the same.
    unseen = ok & (seen.last_broker < 0)
    last_broker = np.where(unseen, acked_by, seen.last_broker)
    own_epoch = own_epoch_at(
        evidence, context.topic, context.partition, np.where(unseen, acked_by, -1), acked
    )
    last_epoch = np.where(unseen, own_epoch, seen.last_epoch)
    fault = during(evidence.faults, acked)
    columns = {
        "topic": context.topic,
        "partition": context.partition,
        "writer": sends.writer,
        "seq": sends.seq,
        "label": table["label"],
        "txn": table["txn"],
        **writer_columns(evidence, sends.writer),
        "sent_ns": table["sent_ns"],
        "done_ns": table["done_ns"],
        "outcome": pa.array(["ok", "fail", "info"]).take(pa.array(sends.outcome)),
        "error": table["error"],
        "offset": nullable(sends.offset, pa.int64()),
        "attempts": table["attempts"],
        "broker": table["broker"],
        "acked_by": nullable(acked_by, pa.int32()),
        "copies": fates.copies,
        "replicas": holders,
        "found_offset": nullable(fates.found_offset, pa.int64()),
        "found_epoch": nullable(fates.found_epoch, pa.int32()),
        "reads": np.asarray(read, dtype=np.int32),
        "sent_during": fault_names(evidence.faults, during(evidence.faults, sent)),
        "acked_during": fault_names(evidence.faults, fault),
        "acked_fault": fault_numbers(evidence.faults, fault),
        "last_broker": nullable(last_broker, pa.int32()),
        "last_offset": nullable(seen.last_offset, pa.int64()),
        "last_epoch": nullable(last_epoch, pa.int32()),
        "gone_ns": nullable(seen.gone_ns, pa.int64()),
        "overwritten_by": overwriters,
        "fate": pa.array(FATE_NAMES).take(pa.array(fates.fate)),
    }
    causes: Any = pa.nulls(count, pa.string())
    if count:
        causes = loss_causes(context, evidence, fates.fate, acked, acked_by, sends.offset, seen)
        twice = duplicate_causes(evidence, fates.fate, sends, numbers(table, "attempts"))
        causes = pc.coalesce(causes, twice)
    columns["cause"] = causes
    return build(LIFE, columns, count)


def _holders(masks: Any, logs: list[Log]) -> Any:
    known: Any
    place: Any
    if len(masks) and int(masks.min()) == int(masks.max()):
        known, place = masks[:1], np.zeros(len(masks), dtype=np.int32)
    else:
        known, place = np.unique(masks, return_inverse=True)
    lists = [[log.broker for bit, log in enumerate(logs) if int(mask) >> bit & 1] for mask in known]
    return pa.array(lists, pa.list_(pa.int32())).take(pa.array(place.astype(np.int32)))


def _overwriters(context: Context, logs: list[Log], fates: Fates) -> Any:
    rows = np.flatnonzero(fates.overwriter >= 0)
    reference = next((log for log in logs if log.broker == context.reference), None)
    if reference is None or not len(rows):
        return pa.nulls(len(fates.fate), pa.string())
    place = fates.overwriter[rows]
    writer, seq = pa.array(reference.writer[place]), pa.array(reference.seq[place])
    named = pc.binary_join_element_wise(writer.cast(pa.string()), seq.cast(pa.string()), "/")
    texts = pc.if_else(pc.greater_equal(writer, 0), named, "nobody")
    where = np.full(len(fates.fate), -1, dtype=np.int64)
    where[rows] = np.arange(len(rows))
    return texts.take(nullable(where, pa.int64()))


def flagged(context: Context, fates: Fates, logs: list[Log]) -> Any:
    """Messages that are a finding of their own."""
    in_sync = 0
    for bit, log in enumerate(logs):
        known = context.replicas.get(log.broker)
        if known is None or known.in_sync is not False:
            in_sync |= 1 << bit
    silent = _SILENT[fates.fate]
    if not silent.all():
        silent |= (fates.fate == FATE["diverged"]) & (fates.holders & in_sync != 0)
    return np.flatnonzero(~silent)


_SILENT = np.array([name in (*BENIGN, "undetermined") for name in FATE_NAMES])


def undetermined_row(context: Context, fates: Fates) -> Any:
    """One finding for a partition whose final read proves no absence, however much it leaves open."""
    if context.conclusive:
        return FINDING.empty_table()
    return build(
        FINDING,
        {
            "class": "undetermined",
            "topic": context.topic,
            "partition": context.partition,
            "count": int(np.count_nonzero(fates.fate == FATE["undetermined"])),
            "detail": "the final read did not reach the end of every log that could hold them",
        },
        1,
    )


def of_messages(life: Any, places: Any, fates: Fates, name: str | None = None) -> Any:
    """Findings about messages: ``places`` are rows of ``life``, to which ``fates`` belongs row by row."""
    if not len(places):
        return FINDING.empty_table()
    whole = len(places) == life.num_rows and bool(np.all(places[1:] > places[:-1]))
    part = life if whole else life.take(pa.array(places))
    extra = fates.extra_offset[places]
    found = np.where(extra >= 0, extra, fates.found_offset[places])
    columns = {
        "class": name or part["fate"],
        "topic": part["topic"],
        "partition": part["partition"],
        "offset": pc.coalesce(part["offset"], part["found_offset"]),
        "epoch": pc.coalesce(part["found_epoch"], part["last_epoch"]),
        "brokers": part["replicas"],
        "writer": part["writer"],
        "seq": part["seq"],
        "label": part["label"],
        "found_offset": nullable(found, pa.int64()),
        "count": 1,
        "acked_ns": pc.if_else(pc.equal(part["outcome"], "ok"), part["done_ns"], pa.scalar(None, pa.int64())),
        "acked_by": part["acked_by"],
        "acked_during": part["acked_during"],
        "acked_fault": part["acked_fault"],
        "last_broker": part["last_broker"],
        "cause": part["cause"],
    }
    return build(FINDING, columns, len(places))


def stray_rows(
    context: Context, sends: Sends, fates: Fates, logs: list[Log], named: tuple[int, int] | None = None
) -> tuple[Any, Any]:
    """Findings about records that are no message of this partition or damaged, one per offset.

    Also returns the offsets of such records, at which replicas are not compared again. ``named`` restricts
    it to records whose sequence lies from the first up to below the second.
    """
    parts = []
    order = sorted(logs, key=lambda log: log.broker != context.reference)
    for log in order:
        kinds = np.full(len(log.offset), -1, dtype=np.int8)
        kinds[log.foreign] = 0
        kinds[log.intact & ~log.home & ~log.control] = 1
        kinds[~log.intact & ~log.control] = 2
        if named is not None:
            kinds[(log.seq < named[0]) | (log.seq >= named[1])] = -1
        rows = np.flatnonzero(kinds >= 0)
        parts.append((rows, kinds[rows], log))
    offsets = np.concatenate([log.offset[rows] for rows, _, log in parts] or [np.empty(0, np.int64)])
    if not len(offsets):
        return FINDING.empty_table(), offsets
    kind = np.concatenate([kinds for _, kinds, _ in parts])
    writer = np.concatenate([log.writer[rows] for rows, _, log in parts])
    seq = np.concatenate([log.seq[rows] for rows, _, log in parts])
    epoch = np.concatenate([log.epoch[rows] for rows, _, log in parts])
    broker = np.concatenate([np.full(len(rows), log.broker, np.int32) for rows, _, log in parts])
    told = np.isin(fates.fate, [FATE["corrupt"], FATE["overwritten"]])
    distinct, first = np.unique(offsets, return_index=True)
    fresh = ~np.isin(distinct, sends.offset[told])
    pick = first[fresh]
    holders = _holders_of(offsets, broker, distinct[fresh])
    findings = build(
        FINDING,
        {
            "class": pa.array(["foreign", "misrouted", "corrupt"]).take(pa.array(kind[pick])),
            "topic": context.topic,
            "partition": context.partition,
            "offset": offsets[pick],
            "epoch": nullable(epoch[pick], pa.int32()),
            "brokers": holders,
            "writer": nullable(writer[pick], pa.int32()),
            "seq": nullable(seq[pick], pa.int64()),
            "found_offset": offsets[pick],
            "count": 1,
        },
        len(pick),
    )
    return findings, distinct


def _holders_of(offsets: Any, brokers: Any, wanted: Any) -> Any:
    place = np.minimum(np.searchsorted(wanted, offsets), max(0, len(wanted) - 1))
    mask = np.zeros(len(wanted), dtype=np.int64)
    known = np.unique(brokers)
    for bit, broker in enumerate(known):
        mine = np.flatnonzero(brokers == broker)
        hit = place[mine][wanted[place[mine]] == offsets[mine]] if len(wanted) else place[:0]
        mask[hit] |= 1 << bit
    masks, inverse = np.unique(mask, return_inverse=True)
    lists = [[int(b) for bit, b in enumerate(known) if int(m) >> bit & 1] for m in masks]
    return pa.array(lists, pa.list_(pa.int32())).take(pa.array(inverse.astype(np.int32)))


def difference_rows(context: Context, found: list[Difference], told: Any) -> Any:
    """One finding per offset at which replicas disagree; ``told`` are offsets with a finding already."""
    parts = [(d, np.flatnonzero(~np.isin(d.offset, told))) for d in found]
    parts = [(d, rows) for d, rows in parts if len(rows)]
    if not parts:
        return FINDING.empty_table()
    offset = np.concatenate([d.offset[rows] for d, rows in parts])
    distinct, first = np.unique(offset, return_index=True)
    broker = np.concatenate([np.full(len(rows), d.broker, np.int32) for d, rows in parts])
    kind = np.concatenate([np.full(len(rows), d.kind, np.int8) for d, rows in parts])
    chosen = {
        name: np.concatenate([getattr(d, name)[rows] for d, rows in parts])[first]
        for name in ("epoch", "writer", "seq", "count")
    }
    return build(
        FINDING,
        {
            "class": "diverged",
            "topic": context.topic,
            "partition": context.partition,
            "offset": distinct,
            "epoch": nullable(chosen["epoch"], pa.int32()),
            "brokers": _holders_of(offset, broker, distinct),
            "writer": nullable(chosen["writer"], pa.int32()),
            "seq": nullable(chosen["seq"], pa.int64()),
            "count": chosen["count"],
            "detail": pa.array(KINDS).take(pa.array(kind[first])),
        },
        len(distinct),
    )
