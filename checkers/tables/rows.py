"""The rows of `life` (one per message) and of `findings` (one per root cause), from the kernel's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.causes import Causes, duplicate_causes, loss_causes
from checkers.evidence import (
    Evidence,
    Sightings,
    acknowledged_by,
    during,
    fault_names,
    fault_numbers,
    own_epoch_at,
    writer_columns,
)
from checkers.groups.steps import StepCauses, StreamStep, causes_of_steps
from checkers.partition.deliveries import SkippedMessages, Steps
from checkers.partition.fate import FATES
from checkers.partition.fates import Fates
from checkers.partition.logs import Log, PartitionReplicas, reference_of
from checkers.partition.messages import OK, Homes, Ints, ReadArrays, SendArrays, Texts
from checkers.partition.replicas import CORRUPT, DIFFERENCE_KINDS, ReplicaRecords
from checkers.partition.watched import Truncated
from checkers.records import facts_text
from checkers.removals import removal_causes
from checkers.tables.output import FINDING, LIFE, build
from checkers.tables.source import numbers

_FATE_NAMES = pa.array([fate.name for fate in FATES])
_OUTCOMES = pa.array(["ok", "fail", "info"])


def nullable(values: Ints, kind: pa.DataType) -> pa.Array:
    """An Arrow array in which negative numbers are null."""
    return pa.array(values, mask=np.asarray(values) < 0).cast(kind)


@dataclass(frozen=True, kw_only=True)
class Life:
    """Rows of `life`, each with the facts that its cause rests on."""

    table: pa.Table
    evidence: pa.Array

    def take(self, rows: Ints) -> Life:
        """Some rows."""
        return Life(table=self.table.take(pa.array(rows)), evidence=self.evidence.take(pa.array(rows)))


def life_of(
    partition: PartitionReplicas,
    evidence: Evidence,
    *,
    table: pa.Table,
    sends: SendArrays,
    logs: Sequence[Log],
    fates: Fates,
    seen: Sightings,
    states: pa.Array | None = None,
    timed_out: Causes | None = None,
) -> Life:
    """One row per message. ``table`` holds the rows of `sends`.

    ``states`` say what the logs decided about messages in transactions, ``timed_out`` which of them their
    coordinator aborted; null for the others.
    """
    count = len(sends)
    sent, done = numbers(table, "sent_ns"), numbers(table, "done_ns")
    ok = sends.outcome == OK
    acked = np.where(ok, done, -1)
    acked_by = acknowledged_by(
        evidence,
        partition.topic,
        partition.number,
        stated=numbers(table, "broker"),
        first_seen=seen.first_broker,
        writer=sends.writer,
        sent_ns=sent,
        done_ns=acked,
        replaced_epoch=_replaced_epochs(reference_of(partition, logs), fates),
    )
    acked_by = np.where(ok, acked_by, -1)
    described = writer_columns(evidence, sends.writer)
    # A leader appends before it acknowledges, so the record was there even if the observer did not see it.
    # With acks=0 nobody acknowledges.
    unseen = (
        ok & (seen.last_broker < 0) & (described["acks"].fill_null(-1).to_numpy(zero_copy_only=False) != 0)
    )
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
        **described,
        "sent_ns": table["sent_ns"],
        "done_ns": table["done_ns"],
        "outcome": _OUTCOMES.take(pa.array(sends.outcome)),
        "error": table["error"],
        "offset": nullable(sends.offset, pa.int64()),
        "attempts": table["attempts"],
        "broker": table["broker"],
        "acked_by": nullable(acked_by, pa.int32()),
        "copies": fates.copies,
        "replicas": _holders(fates.holders, logs),
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
        "overwritten_by": _overwriters(reference_of(partition, logs), fates),
        "fate": _FATE_NAMES.take(pa.array(fates.fate)),
        "state": states,
    }
    lost = loss_causes(
        partition,
        evidence,
        fate=fates.fate,
        acked_ns=acked,
        acked_by=acked_by,
        offset=sends.offset,
        seen=seen,
        reference=reference_of(partition, logs),
    )
    twice = duplicate_causes(partition, evidence, table=table, sends=sends, fates=fates)
    removed = removal_causes(partition, evidence, fates.removal)
    causes = lost.or_else(twice).or_else(removed)
    if timed_out is not None:
        causes = causes.or_else(timed_out)
    columns["cause"], columns["cause_facts"] = causes.kinds, causes.facts
    return Life(table=build(LIFE, columns, count), evidence=causes.evidence)


def _holders(masks: Ints, logs: Sequence[Log]) -> pa.Array:
    distinct: Ints
    place: Ints
    if len(masks) and int(masks.min()) == int(masks.max()):
        distinct, place = masks[:1], np.zeros(len(masks), dtype=np.int32)
    else:
        distinct, place = np.unique(masks, return_inverse=True)
    lists = [[log.broker for bit, log in enumerate(logs) if int(mask) >> bit & 1] for mask in distinct]
    return pa.array(lists, pa.list_(pa.int32())).take(pa.array(place.astype(np.int32)))


def _replaced_epochs(reference: Log, fates: Fates) -> Ints:
    """The leader epoch of the record at each absent message's offset, -1 where there is none."""
    there = fates.overwriter >= 0
    epochs = np.full(len(there), -1, dtype=np.int64)
    epochs[there] = reference.epoch[fates.overwriter[there]]
    return epochs


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


# ---- findings

_DIFFERENCES = pa.array([facts_text(difference=kind) for kind in DIFFERENCE_KINDS], pa.string())


def of_messages(life: Life, places: Ints, fates: Fates, name: str | None = None) -> pa.Table:
    """Findings about messages: ``places`` are rows of ``life``, and ``fates`` has the same rows.

    ``name`` is the class; without it, the class is the fate.
    """
    if not len(places):
        return FINDING.empty_table()
    everything = len(places) == life.table.num_rows and bool(np.all(places[1:] > places[:-1]))
    chosen = life if everything else life.take(places)
    part = chosen.table
    extra = fates.extra_offset[places]
    other_offset = np.where(extra >= 0, extra, fates.found_offset[places])
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
        "found_offset": nullable(other_offset, pa.int64()),
        "count": 1,
        "acked_ns": pc.if_else(pc.equal(part["outcome"], "ok"), part["done_ns"], pa.scalar(None, pa.int64())),
        "acked_by": part["acked_by"],
        "acked_during": part["acked_during"],
        "acked_fault": part["acked_fault"],
        "last_broker": part["last_broker"],
        "cause": part["cause"],
        "cause_facts": part["cause_facts"],
        "evidence": chosen.evidence,
    }
    return build(FINDING, columns, len(places))


def of_records(
    partition: PartitionReplicas, records: ReplicaRecords, homes: Homes | None, reported: Ints
) -> pa.Table:
    """Findings about damaged records, and records of no message of this partition, one per offset.

    If an offset has several records, the first counts. ``reported``: offsets with a finding of a message.
    """
    if not len(records):
        return FINDING.empty_table()
    distinct, first = np.unique(records.offset, return_index=True)
    pick = records.take(first[~np.isin(distinct, reported)])
    damaged = pa.array(pick.kind == CORRUPT)
    home = pa.nulls(len(pick), pa.string()) if homes is None else _home(homes, pick)
    home = pc.if_else(pc.or_(damaged, pc.fill_null(pc.equal(home, partition.name), False)), None, home)
    astray = home.is_valid()
    homes_named = home.dictionary_encode()
    sent_to = pa.array([facts_text(sent_to=name) for name in homes_named.dictionary.to_pylist()], pa.string())
    return build(
        FINDING,
        {
            "class": pc.if_else(damaged, "corrupt", pc.if_else(astray, "misrouted", "foreign")),
            "topic": partition.topic,
            "partition": partition.number,
            "offset": pick.offset,
            "epoch": nullable(pick.epoch, pa.int32()),
            "brokers": _brokers_at(records, pick.offset),
            "writer": nullable(pick.writer, pa.int32()),
            "seq": nullable(pick.seq, pa.int64()),
            "found_offset": pick.offset,
            "count": 1,
            "detail": sent_to.take(homes_named.indices),
        },
        len(pick),
    )


def _home(homes: Homes, records: ReplicaRecords) -> pa.Array:
    """`topic/partition` to which each record's message was sent; null if nobody sent it."""
    names = [f"{topic}/{number}" for topic, number in zip(homes.topic, homes.partition.tolist(), strict=True)]
    place = homes.place(records.writer, records.seq)
    return pa.array(names, pa.string()).take(nullable(place, pa.int64()))


def of_differences(partition: PartitionReplicas, records: ReplicaRecords) -> pa.Table:
    """Findings about replicas that disagree, one per offset; the first one at an offset counts."""
    if not len(records):
        return FINDING.empty_table()
    distinct, first = np.unique(records.offset, return_index=True)
    pick = records.take(first)
    return build(
        FINDING,
        {
            "class": "diverged",
            "topic": partition.topic,
            "partition": partition.number,
            "offset": distinct,
            "epoch": nullable(pick.epoch, pa.int32()),
            "brokers": _brokers_at(records, distinct),
            "writer": nullable(pick.writer, pa.int32()),
            "seq": nullable(pick.seq, pa.int64()),
            "count": pick.count,
            "detail": _DIFFERENCES.take(pa.array(pick.kind)),
        },
        len(distinct),
    )


def of_truncations(partition: PartitionReplicas, gone: Truncated) -> pa.Table:
    """Findings about committed batches of a watched topic that are on no replica any more."""
    return build(
        FINDING,
        {
            "class": "truncated",
            "topic": partition.topic,
            "partition": partition.number,
            "offset": gone.offset,
            "epoch": nullable(gone.epoch, pa.int32()),
            "count": gone.count,
            "acked_ns": gone.committed_ns,
            "last_broker": gone.last_broker,
            "detail": pa.array(
                [
                    facts_text(last_offset=last, epoch_there=None if epoch < 0 else epoch)
                    for last, epoch in zip(gone.last_offset.tolist(), gone.now_epoch.tolist(), strict=True)
                ],
                pa.string(),
            ),
        },
        len(gone),
    )


def _brokers_at(records: ReplicaRecords, offsets: Ints) -> pa.Array:
    """The brokers of the differences at each of ``offsets``, which rise."""
    concerned = np.flatnonzero(np.isin(records.offset, offsets))
    order = concerned[np.lexsort((records.broker[concerned], records.offset[concerned]))]
    where = np.searchsorted(offsets, records.offset[order])
    numbers = np.unique(records.broker)
    if len(numbers) <= 62:
        mask = np.zeros(len(offsets), dtype=np.int64)
        np.bitwise_or.at(mask, where, np.int64(1) << np.searchsorted(numbers, records.broker[order]))
        masks, inverse = np.unique(mask, return_inverse=True)
        lists = [[int(b) for bit, b in enumerate(numbers) if int(m) >> bit & 1] for m in masks]
        return pa.array(lists, pa.list_(pa.int32())).take(pa.array(inverse.astype(np.int32)))
    lists = [[] for _ in offsets]
    for place, broker in zip(where.tolist(), records.broker[order].tolist(), strict=True):
        lists[place].append(broker)
    return pa.array([list(dict.fromkeys(brokers)) for brokers in lists], pa.list_(pa.int32()))


def of_reads(partition: PartitionReplicas, name: str, reads: ReadArrays, rows: Ints) -> pa.Table:
    """Findings about single reads (``rows``)."""
    return build(
        FINDING,
        {
            "class": name,
            "topic": partition.topic,
            "partition": partition.number,
            "offset": reads.offset[rows],
            "writer": nullable(reads.writer[rows], pa.int32()),
            "seq": nullable(reads.seq[rows], pa.int64()),
            "count": 1,
            "reader": _readers(reads.group_names(rows), reads.reader[rows]),
        },
        len(rows),
    )


def of_steps(partition: PartitionReplicas, evidence: Evidence, steps: Steps) -> pa.Table:
    """Findings about steps back."""
    attributed = _causes_of_steps(partition, evidence, steps)
    moved = build(
        FINDING,
        {
            "class": pa.array(["non_monotonic" if g is None else "replay" for g in steps.group], pa.string()),
            "topic": partition.topic,
            "partition": partition.number,
            "offset": steps.offset,
            "writer": nullable(steps.writer, pa.int32()),
            "seq": nullable(steps.seq, pa.int64()),
            "count": 1,
            "reader": _readers(steps.group, steps.reader),
            **attributed.causes.columns(),
        },
        len(steps),
    )
    return moved.filter(attributed.own)


def of_skips(
    partition: PartitionReplicas, evidence: Evidence, steps: Steps, passed: SkippedMessages
) -> pa.Table:
    """Findings about steps ahead that pass over messages which the reader should have received."""
    rows = np.flatnonzero(passed.count > 0)
    attributed = _causes_of_steps(partition, evidence, steps.take(rows))
    skipped = build(
        FINDING,
        {
            "class": "skip",
            "topic": partition.topic,
            "partition": partition.number,
            "offset": passed.offset[rows],
            "writer": nullable(passed.writer[rows], pa.int32()),
            "seq": nullable(passed.seq[rows], pa.int64()),
            "count": passed.count[rows],
            "reader": _readers(steps.group[rows], steps.reader[rows]),
            **attributed.causes.columns(),
        },
        len(rows),
    )
    return skipped.filter(attributed.own)


def _causes_of_steps(partition: PartitionReplicas, evidence: Evidence, steps: Steps) -> StepCauses:
    """The cause of each step of a group (null for readers without a group), and its evidence."""
    return causes_of_steps(
        evidence,
        partition.topic,
        partition.number,
        [
            StreamStep(
                group=steps.group[row],
                reader=int(steps.reader[row]),
                ns=int(steps.ns[row]),
                before_reader=int(steps.before_reader[row]),
                before_ns=int(steps.before_ns[row]),
                back=bool(steps.back[row]),
                committed=int(steps.offset[row]) if steps.past[row] else None,
            )
            for row in range(len(steps))
        ],
    )


def _readers(groups: Texts, readers: Ints) -> pa.Array:
    names = [reader_name(*pair) for pair in zip(groups.tolist(), readers.tolist(), strict=True)]
    return pa.array(names, pa.string())


def reader_name(group: str | None, reader: int) -> str:
    """How findings name a stream: a group, or a reader without one."""
    return f"reader {reader}" if group is None else f"group {group}"


def undetermined(partition: PartitionReplicas, messages: int) -> pa.Table:
    """One finding for a partition whose final read proves no absence, however many messages that affects."""
    if partition.conclusive:
        return FINDING.empty_table()
    return build(
        FINDING,
        {
            "class": "undetermined",
            "topic": partition.topic,
            "partition": partition.number,
            "count": messages,
        },
        1,
    )


def counted(findings: pa.Table) -> pa.Table:
    """Findings by class: columns `class` and `count`."""
    counts = findings.group_by(["class"], use_threads=False).aggregate([([], "count_all")])
    return pa.table({"class": counts["class"], "count": counts["count_all"]})
