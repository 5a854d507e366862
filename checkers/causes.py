"""Why a message was lost, duplicated or left on one replica only, as far as the evidence goes.

Causes compare whole values: mechanisms of faults, exact names of hosts and partitions, events of one
partition. If the evidence does not suffice, the cause is *not known*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.evidence import Evidence, FaultSpan, Row, Sightings, broker_of
from checkers.partition.fate import CODE, LOSSES
from checkers.partition.fates import Fates
from checkers.partition.logs import Log, PartitionReplicas, epoch_starts
from checkers.partition.messages import FOREVER, INFO, OK, Ints, SendArrays
from checkers.records import Cause, evidence_row
from checkers.retention import retention_of
from checkers.tables.source import numbers
from harness.kafka.model import TopicPartition, broker_name

_HALTED = ("killed", "stopped", "exited", "paused")
"""Events of a process after which it answers nobody."""


@dataclass(frozen=True, kw_only=True)
class PartitionEvent:
    """A truncation or an election of one partition, placed in time."""

    table: str
    ns: int
    kind: str
    broker: int
    offset: int = -1
    epoch: int = -1
    isr_before: tuple[int, ...] = ()

    def row(self) -> str:
        """The row of the history that it rests on."""
        if self.table == "views":
            what = f"broker{self.broker} leads in epoch {self.epoch}; ISR before {list(self.isr_before)}"
        else:
            what = f"broker{self.broker} {self.kind} at offset {self.offset}"
        return evidence_row(self.table, self.ns, what)


@dataclass(frozen=True, kw_only=True)
class Causes:
    """A cause for each message; null: it has none.

    ``kinds``, ``facts`` and ``evidence`` are the columns `cause`, `cause_facts` and `evidence` of findings.
    """

    kinds: pa.Array
    facts: pa.Array
    evidence: pa.Array

    @classmethod
    def none(cls, count: int) -> Causes:
        """No cause for any of ``count`` messages."""
        texts = pa.nulls(count, pa.string())
        return cls(kinds=texts, facts=texts, evidence=pa.nulls(count, pa.list_(pa.string())))

    @classmethod
    def of(cls, causes: Sequence[Cause | None], which: pa.Array | None = None) -> Causes:
        """A cause for each message; ``which``: the place in ``causes`` of each message's cause, or null."""
        kinds = pa.array([cause and cause.kind for cause in causes], pa.string())
        facts = pa.array([cause and cause.text for cause in causes], pa.string())
        rows = pa.array([cause and list(cause.rows) for cause in causes], pa.list_(pa.string()))
        every = cls(kinds=kinds, facts=facts, evidence=rows)
        return every if which is None else every._taken(which)

    def take(self, rows: Ints) -> Causes:
        """Those of some messages."""
        return self._taken(pa.array(rows))

    def _taken(self, rows: pa.Array) -> Causes:
        return Causes(
            kinds=self.kinds.take(rows), facts=self.facts.take(rows), evidence=self.evidence.take(rows)
        )

    def or_else(self, others: Causes) -> Causes:
        """The same, with the other cause of each message that has none."""
        # A cause may have no facts, so they are chosen by its kind.
        lacks = pc.is_null(self.kinds)
        return Causes(
            kinds=pc.coalesce(self.kinds, others.kinds),
            facts=pc.if_else(lacks, others.facts, self.facts),
            evidence=pc.coalesce(self.evidence, others.evidence),
        )

    def columns(self) -> Mapping[str, pa.Array]:
        """The columns of a table of findings."""
        return {"cause": self.kinds, "cause_facts": self.facts, "evidence": self.evidence}


@dataclass(frozen=True, kw_only=True)
class _Loss:
    """One lost message: its acknowledgement, its offset, and which broker had it last."""

    acked_ns: int
    acked_by: int
    holder: int
    sighted: bool
    offset: int
    gone_ns: int
    again_ns: int
    """When it was last seen again on the broker that acknowledged it; -1 for never."""
    epoch_there: int
    """The epoch of the record that the final log holds at its offset, and where that epoch begins; -1: there
    is none, or it is not known."""
    epoch_start: int


@dataclass(frozen=True, kw_only=True)
class _Scene:
    """What is known about one partition, for all of its losses."""

    partition: PartitionReplicas
    evidence: Evidence
    cuts: list[PartitionEvent]
    elections: list[PartitionEvent]
    missed: list[Row]
    """Ranges of offsets that the observer missed."""


def fault_row(fault: FaultSpan) -> str:
    """The row of `faults` of a fault's beginning."""
    return evidence_row("faults", fault.from_ns, f"fault {fault.fault} `{fault.name}` {fault.moment}")


def fault_facts(fault: FaultSpan) -> dict[str, object]:
    """What a cause says of a fault: its number and its name."""
    return {"fault": fault.fault, "fault_name": fault.name}


def log_start_row(partition: PartitionReplicas, evidence: Evidence) -> str:
    """Where the reference log begins, as the final read found it."""
    what = f"the log of broker{partition.reference} begins at offset {partition.log_start}"
    return evidence_row("replicas", read_ns(evidence, partition.topic, partition.number), what)


def partition_events(
    evidence: Evidence, topic: str, partition: int
) -> tuple[list[PartitionEvent], list[PartitionEvent]]:
    """Truncations (from broker logs) and elections (from views) of a partition, by time."""
    truncations = [
        PartitionEvent(
            table="log_events",
            ns=row["ns"],
            kind=row["kind"],
            broker=broker_of(row["host"]),
            offset=or_minus_one(row["offset"]),
            epoch=or_minus_one(row["epoch"]),
        )
        for row in evidence.rows_about("log_events", TopicPartition(topic, partition))
        if row["kind"] in ("truncated", "truncated_to_hw")
    ]
    views: list[Row] = sorted(
        (
            row
            for row in evidence.rows_about("views", TopicPartition(topic, partition))
            if row["subject"] == "partition"
        ),
        key=lambda row: int(row["ns"]),
    )
    elections: list[PartitionEvent] = []
    epoch, isr = -2, tuple[int, ...]()
    for row in views:
        seen, leader = or_minus_one(row["epoch"]), or_minus_one(row["leader"])
        if seen > epoch and leader >= 0:
            elections.append(
                PartitionEvent(
                    table="views", ns=row["ns"], kind="elected", broker=leader, epoch=seen, isr_before=isr
                )
            )
        if seen >= epoch:
            epoch, isr = seen, tuple(row["isr"] or ())
    return sorted(truncations, key=lambda event: event.ns), elections


def or_minus_one(value: int | None) -> int:
    """A number that may be null."""
    return -1 if value is None else int(value)


def stale_leader(evidence: Evidence, where: TopicPartition, *, known_ns: int, ns: int) -> Cause | None:
    """A live broker that still named itself the leader at ``ns``, in an older epoch than was known before.

    A newer epoch was seen by ``known_ns``, for which the observer's views are asked.
    """
    newest: Row | None = None
    last: dict[str, Row] = {}
    for row in sorted(evidence.rows_about("views", where), key=lambda row: int(row["ns"])):
        if row["epoch"] is None or row["ns"] > ns:
            continue
        last[row["source"]] = row
        if row["ns"] <= known_ns and (newest is None or row["epoch"] > newest["epoch"]):
            newest = row
    if newest is None:
        return None
    for source, row in sorted(last.items()):
        leads = row["leader"] is not None and source == broker_name(row["leader"])
        if leads and row["epoch"] < newest["epoch"] and _runs(evidence, source, ns):
            return Cause(
                kind="stale_leader",
                facts={"broker": row["leader"], "epoch": row["epoch"]},
                rows=(
                    evidence_row("views", row["ns"], f"{source}: {source} leads in epoch {row['epoch']}"),
                    evidence_row("views", newest["ns"], f"{newest['source']}: epoch {newest['epoch']}"),
                ),
            )
    return None


def _runs(evidence: Evidence, host: str, at_ns: int) -> bool:
    """Whether the process of a host ran at a time, as far as `processes` says."""
    events = [row for row in evidence.rows("processes") if row["host"] == host and row["ns"] <= at_ns]
    newest = max(events, key=lambda row: int(row["ns"]), default=None)
    return newest is None or newest["event"] not in _HALTED


def loss_causes(
    partition: PartitionReplicas,
    evidence: Evidence,
    *,
    fate: Ints,
    acked_ns: Ints,
    acked_by: Ints,
    offset: Ints,
    seen: Sightings,
    reference: Log,
) -> Causes:
    """A cause for every message whose fate is a loss; null for the others. ``reference``: the final log."""
    rows = np.flatnonzero(np.isin(fate, [CODE[name] for name in LOSSES]))
    if not len(rows):
        return Causes.none(len(fate))
    cuts, elections = partition_events(evidence, partition.topic, partition.number)
    where = TopicPartition(partition.topic, partition.number)
    missed = [row for row in evidence.rows_about("unobserved", where) if row["source"] == "tail"]
    scene = _Scene(partition=partition, evidence=evidence, cuts=cuts, elections=elections, missed=missed)
    holder = np.where(seen.last_broker >= 0, seen.last_broker, acked_by)[rows]
    end = np.where(seen.gone_ns >= 0, seen.gone_ns, FOREVER)[rows]
    when, at, by = acked_ns[rows], offset[rows], acked_by[rows]
    # Messages between the same events, acknowledged by the same broker, have the same cause.
    marks = [event.ns for event in (*cuts, *elections)]
    marks += [ns for fault in evidence.faults for ns in (fault.from_ns, fault.until_ns)]
    marks += [row["ns"] for row in missed]
    edge_ns = np.unique(np.array(marks, dtype=np.int64))
    sighted = (seen.last_broker >= 0)[rows].astype(np.int64)
    again = np.where(seen.first_broker == acked_by, seen.again_ns, -1)[rows]
    cell = [np.searchsorted(edge_ns, when), np.searchsorted(edge_ns, end), np.searchsorted(edge_ns, again)]
    cell += [by, holder, sighted]
    places = [cut.offset for cut in cuts] + [fault.first_offset for fault in evidence.faults]
    places.append(partition.log_start)
    places += [or_minus_one(row[name]) for row in missed for name in ("from_offset", "to_offset")]
    offsets = np.unique(np.array(places, dtype=np.int64))
    cell += [np.searchsorted(offsets, at), np.searchsorted(offsets, at, side="right")]
    epoch_there, epoch_start = epoch_starts(reference, at)
    cell += [epoch_there, epoch_start]
    table = np.stack([np.asarray(values, dtype=np.int64) for values in cell], axis=1)
    _, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    causes = [
        _explain(
            scene,
            _Loss(
                acked_ns=int(when[i]),
                acked_by=int(by[i]),
                holder=int(holder[i]),
                sighted=bool(sighted[i]),
                offset=int(at[i]),
                gone_ns=int(end[i]),
                again_ns=int(again[i]),
                epoch_there=int(epoch_there[i]),
                epoch_start=int(epoch_start[i]),
            ),
        )
        for i in first
    ]
    which = np.full(len(fate), -1, dtype=np.int32)
    which[rows] = inverse.reshape(-1)
    return Causes.of(causes, pa.array(which, mask=which < 0))


def unclean_election(election: PartitionEvent, **more: object) -> Cause | None:
    """The cause that an election was unclean; None if it was not."""
    if not election.isr_before or election.broker in election.isr_before:
        return None
    facts = {"broker": election.broker, "epoch": election.epoch, "isr": list(election.isr_before), **more}
    return Cause(kind="unclean_election", facts=facts, rows=(election.row(),))


def _explain(scene: _Scene, loss: _Loss) -> Cause:
    """How one message was lost."""
    storage = _storage(scene, loss)
    if storage is not None:
        return storage
    faults, cuts, elections = scene.evidence.faults, scene.cuts, scene.elections
    later = [e for e in elections if e.ns >= loss.acked_ns and e.broker != loss.acked_by]
    ruling = next((e for e in reversed(elections) if e.ns < loss.acked_ns), None)
    cut = next((c for c in cuts if _took(c, loss)), None)
    both = _cut_alike(cut, cuts, loss) if cut else ()
    cut_row = tuple(same.row() for same in both)
    truncated: dict[str, object] = {}
    if both:
        truncated = {"truncated": [same.broker for same in both], "truncated_to": both[0].offset}
    usurped = ruling is not None and loss.acked_by >= 0 and ruling.broker != loss.acked_by
    winner = ruling if usurped else (later[0] if later else None)
    unclean = unclean_election(winner, **truncated) if winner is not None else None
    if unclean is not None:
        return replace(unclean, rows=(*unclean.rows, *cut_row))
    if cut is not None and cut.kind == "truncated_to_hw":
        facts = {"broker": cut.broker, "offset": cut.offset}
        return Cause(kind="high_watermark_truncation", facts=facts, rows=cut_row)
    if cut is None and 0 <= loss.offset < scene.partition.log_start:
        where = TopicPartition(scene.partition.topic, scene.partition.number)
        start = log_start_row(scene.partition, scene.evidence)
        return cause_of_log_start(scene.evidence, where, start, loss.acked_ns, loss.gone_ns)
    if winner is not None and cut is None and not loss.sighted:
        if (missed := _missed(scene, loss)) is not None:
            broker = loss.acked_by if missed["broker"] is None else missed["broker"]
            return Cause(kind="not_followed", facts={"broker": broker}, rows=(_missed_row(missed, broker),))
        # An election cannot take from a leader what it never had.
        return Cause(kind="never_seen")
    if usurped and ruling is not None:
        led = {"broker": loss.acked_by, "leader": ruling.broker, "epoch": ruling.epoch, **truncated}
        healed = [f for f in faults if f.until_ns <= loss.acked_ns]
        standing = [f for f in faults if f.from_ns <= loss.acked_ns < f.until_ns]
        if healed and not standing:
            last = max(healed, key=lambda fault: fault.until_ns)
            return Cause(
                kind="zombie_after_heal",
                facts={**led, **fault_facts(last)},
                rows=(fault_row(last), ruling.row(), *cut_row),
            )
        return Cause(kind="deposed_leader", facts={**led, "elected": "before"}, rows=(ruling.row(), *cut_row))
    if winner is not None:
        old = loss.acked_by if loss.acked_by >= 0 else loss.holder
        led = {"broker": old, "leader": winner.broker, "epoch": winner.epoch, **truncated}
        return Cause(kind="deposed_leader", facts={**led, "elected": "after"}, rows=(winner.row(), *cut_row))
    if cut is not None:
        facts = {"broker": cut.broker, "offset": cut.offset}
        return Cause(kind="truncated_without_election", facts=facts, rows=cut_row)
    return _later_epoch(scene, loss) or Cause(kind="unexplained_loss")


def cause_of_log_start(
    evidence: Evidence, where: TopicPartition, start: str, since_ns: int, gone_ns: int
) -> Cause:
    """Why a log begins later (``start``) than its topic's configuration explains.

    A record was acknowledged at ``since_ns`` and gone at ``gone_ns``. A broker with a replica compares its
    timestamp with its own clock, which may have been ahead by more than the rest of its time.
    """
    retention, read = retention_of(evidence, where.topic), read_ns(evidence, *where)
    holders = {broker_name(row["broker"]) for row in evidence.rows_about("replicas", where)}
    for fault in evidence.faults:
        ahead_s = fault.targets.get("by_s")
        if fault.mechanism != "clock_shift" or not isinstance(ahead_s, int | float) or ahead_s <= 0:
            continue
        if fault.stated or not holders & {*fault.hosts}:
            continue
        until_ns = min(gone_ns, fault.until_ns, gone_ns if read is None else read)
        age_ms = ahead_s * 1000 + max(0, until_ns - since_ns) / 1e6
        allowed_ms = -1 if retention.age_ms is None else retention.age_ms
        if fault.from_ns > until_ns or not retention.deletes or not 0 <= allowed_ms <= age_ms:
            continue
        lines = [
            evidence_row("log_events", row["ns"], f"{row['host']} {row['kind']} at offset {row['offset']}")
            for row in evidence.rows_about("log_events", where)
            if row["kind"] == "segment_expired" and row["host"] in fault.hosts and row["ns"] >= fault.from_ns
        ]
        facts = {**fault_facts(fault), "ahead_s": ahead_s, "retention_ms": retention.age_ms}
        return Cause(kind="clock_ahead", facts=facts, rows=(fault_row(fault), *lines[:1], start))
    return Cause(kind="log_start_moved", rows=(start,))


def _missed(scene: _Scene, loss: _Loss) -> Row | None:
    """What the observer missed on the broker that acknowledged the message, and that may hold it."""
    for row in scene.missed:
        begin, end = or_minus_one(row["from_offset"]), row["to_offset"]
        inside = loss.offset < 0 or (begin <= loss.offset and (end is None or loss.offset < end))
        there = row["broker"] is None or loss.acked_by in (-1, row["broker"])
        if inside and there and row["ns"] >= loss.acked_ns:
            return row
    return None


def _missed_row(row: Row, broker: int) -> str:
    begin, end = row["from_offset"], row["to_offset"]
    offsets = "unknown offsets" if begin is None or end is None else f"offsets {begin} to {end - 1}"
    return evidence_row("unobserved", row["ns"], f"{offsets} of broker{broker}")


def _later_epoch(scene: _Scene, loss: _Loss) -> Cause | None:
    """What the final log alone shows: another record stands at the message's offset, of a later epoch.

    A leader gives each offset once in its epoch, so an earlier leader acknowledged the message, and the later
    one did not have it. The first epoch in a log shows that only if the log begins at offset 0: else it may
    have begun in what was removed since.
    """
    log_start = scene.partition.spans.get(scene.partition.reference, (0, 0))[0]
    if loss.epoch_there <= 0 or (loss.epoch_start == log_start and log_start > 0):
        return None
    what = (
        f"epoch {loss.epoch_there} begins at offset {loss.epoch_start} in the log of "
        f"broker{scene.partition.reference}"
    )
    return Cause(
        kind="later_epoch",
        facts={"epoch": loss.epoch_there, "offset": loss.epoch_start},
        rows=(
            evidence_row(
                "copies", read_ns(scene.evidence, scene.partition.topic, scene.partition.number), what
            ),
        ),
    )


def _took(cut: PartitionEvent, loss: _Loss) -> bool:
    """Whether a later truncation, at or below its offset and on a broker that had it, can have removed it."""
    return (
        cut.ns >= loss.acked_ns
        and 0 <= cut.offset <= max(loss.offset, 0)
        and (loss.holder < 0 or cut.broker == loss.holder)
    )


def _cut_alike(cut: PartitionEvent, cuts: list[PartitionEvent], loss: _Loss) -> tuple[PartitionEvent, ...]:
    """The truncation that removed the message, and those of other brokers to the same offset."""
    alike = {cut.broker: cut}
    for other in cuts:
        if other.ns >= loss.acked_ns and (other.kind, other.offset) == (cut.kind, cut.offset):
            alike.setdefault(other.broker, other)
    return tuple(alike[broker] for broker in sorted(alike))


_TAKES_AT_ONCE = ("power_cut", "wipe")
"""Mechanisms of `DATA_LOSS` that leave nothing to truncate; a broker may truncate a damaged log itself."""


def _storage(scene: _Scene, loss: _Loss) -> Cause | None:
    """A storage fault that took the message from the replica that acknowledged it."""
    host = f"broker{loss.acked_by}"
    where = TopicPartition(scene.partition.topic, scene.partition.number)
    hits = [
        fault
        for fault in scene.evidence.data_losses(where)
        if loss.acked_ns <= fault.from_ns <= loss.gone_ns
        and (loss.offset < 0 or fault.first_offset <= loss.offset)  # recovery truncates from there on
    ]
    hit = {name for fault in hits for name in fault.hosts}
    later_cuts = [cut for cut in scene.cuts if cut.broker == loss.acked_by and cut.ns >= loss.acked_ns]
    for fault in hits:
        since = fault.from_ns
        if host not in fault.hosts or loss.again_ns > since:
            continue
        if any(0 <= cut.offset <= loss.offset for cut in later_cuts if cut.ns <= since):
            continue  # Kafka had truncated it before.
        there = (
            cut.offset == loss.offset and cut.kind == "truncated" for cut in later_cuts if cut.ns > since
        )
        if fault.mechanism in _TAKES_AT_ONCE and any(there):
            continue  # A log is truncated at the offset of a record only if it holds that record.
        if _decides(scene.elections, hit, loss, since):
            return storage_cause(scene.evidence, where, fault, loss.acked_by)
    return None


def _decides(elections: list[PartitionEvent], hit: set[str], loss: _Loss, since: int) -> bool:
    """Whether no spared broker led at the fault, or was elected later although it was not in the ISR."""
    ruling = next((election for election in reversed(elections) if election.ns <= since), None)
    if ruling is not None and ruling.broker != loss.acked_by and f"broker{ruling.broker}" not in hit:
        return False
    later = (
        election for election in elections if election.ns > since and f"broker{election.broker}" not in hit
    )
    return not any(election.isr_before and election.broker not in election.isr_before for election in later)


def storage_cause(evidence: Evidence, where: TopicPartition, fault: FaultSpan, broker: int) -> Cause:
    """The cause of a loss by a storage fault that took records of a partition from a broker."""
    row, facts = fault_row(fault), {**fault_facts(fault), "broker": broker}
    if fault.mechanism == "power_cut":
        return Cause(kind="unflushed_data_lost", facts=facts, rows=(row,))
    back = _led_alone(evidence, where, broker, fault.from_ns) if fault.mechanism == "wipe" else None
    if back is not None:
        return Cause(kind="last_replica_wiped", facts=facts, rows=(row, back))
    return Cause(kind="storage_fault", facts=facts, rows=(row,))


def _led_alone(evidence: Evidence, where: TopicPartition, broker: int, since_ns: int) -> str | None:
    """The first view after a time in which the broker leads as the only member of the ISR."""
    alone = (
        row
        for row in evidence.rows_about("views", where)
        if row["subject"] == "partition"
        and row["ns"] > since_ns
        and row["leader"] == broker
        and row["isr"] == [broker]
    )
    first = min(alone, key=lambda row: int(row["ns"]), default=None)
    if first is None:
        return None
    what = f"{first['source']}: broker{broker} leads in epoch {first['epoch']}; ISR [{broker}]"
    return evidence_row("views", first["ns"], what)


_REPEATED = (
    "",
    "retry_of_unknown_outcome",
    "retry_of_acknowledged",
    "idempotence_broken",
    "single_request",
    "requests_not_recorded",
    "failed_yet_appended",
    "refused_after_retry",
    "producer_id_expired",
)
"""The causes of `duplicate_causes`, by their place; the first: none."""
_REPEATED_KINDS = pa.array([kind or None for kind in _REPEATED], pa.string())


def duplicate_causes(
    partition: PartitionReplicas, evidence: Evidence, *, table: pa.Table, sends: SendArrays, fates: Fates
) -> Causes:
    """A cause for every duplicated or phantom message; null for the others.

    ``table`` holds the rows of `sends`. A request is appended once; only a second request that carried the
    message can be a client's retry.
    """
    attempts = numbers(table, "attempts")
    code = np.zeros(len(sends), dtype=np.int32)
    twice = fates.fate == CODE["duplicated"]
    idempotent = [w for w, row in evidence.writers.items() if row.get("idempotent")]
    code[twice] = np.where(
        attempts[twice] < 0, _REPEATED.index("requests_not_recorded"), _REPEATED.index("single_request")
    )
    code[twice & (sends.outcome == OK) & (attempts > 1)] = _REPEATED.index("retry_of_acknowledged")
    # A client that got no answer may not know its retries; one that counted a single request made none.
    code[twice & (sends.outcome == INFO) & (attempts != 1)] = _REPEATED.index("retry_of_unknown_outcome")
    if idempotent:
        by_idempotent = twice & np.isin(sends.writer, idempotent)
        code[by_idempotent] = _REPEATED.index("idempotence_broken")
        # A retry that was written again came before the answer, or before the log was read.
        read = read_ns(evidence, partition.topic, partition.number)
        done = numbers(table, "done_ns")
        until = np.where((sends.outcome == OK) | (read is None), done, read or 0)
        late = (until >= 0) & (until - sends.sent_ns >= evidence.producer_id_expiration_ns)
        code[by_idempotent & late] = _REPEATED.index("producer_id_expired")
    phantom = fates.fate == CODE["phantom"]
    code[phantom] = _REPEATED.index("failed_yet_appended")
    code[phantom & (attempts > 1)] = _REPEATED.index("refused_after_retry")
    rows = np.flatnonzero(code)
    if not len(rows):
        return Causes.none(len(code))
    which = np.full(len(code), -1, dtype=np.int64)
    which[rows] = np.arange(len(rows))
    grounds = pa.array(_duplicate_rows(partition, evidence, table, fates, rows), pa.list_(pa.string()))
    return Causes(
        kinds=_REPEATED_KINDS.take(pa.array(code)),
        facts=pa.nulls(len(code), pa.string()),
        evidence=grounds.take(pa.array(which, mask=which < 0)),
    )


def _duplicate_rows(
    partition: PartitionReplicas, evidence: Evidence, table: pa.Table, fates: Fates, rows: Ints
) -> list[list[str]]:
    """For each of the messages: what the client was told of it, and where it is in the final log."""
    read = read_ns(evidence, partition.topic, partition.number)
    sent = table.select(["sent_ns", "done_ns", "outcome", "attempts"]).take(pa.array(rows)).to_pylist()
    lines_by_message = []
    for row, send in zip(rows.tolist(), sent, strict=True):
        attempts = send["attempts"]
        count = "an unknown number of" if attempts is None else str(attempts)
        told = f"outcome {send['outcome'] or 'info'}, {count} request{'' if attempts == 1 else 's'}"
        ns = send["sent_ns"] if send["done_ns"] is None else send["done_ns"]
        first, further = int(fates.found_offset[row]), int(fates.extra_offset[row])
        places = f"offsets {first} and {further}" if further >= 0 else f"offset {first}"
        lines_by_message.append(
            [
                evidence_row("sends", ns, told),
                evidence_row("copies", read, f"at {places} of {partition.name}"),
            ]
        )
    return lines_by_message


def read_ns(evidence: Evidence, topic: str, partition: int) -> int | None:
    """When the partition's replicas were read, ns. Rows of `copies` have no other time."""
    return max(
        (
            row["ns"]
            for row in evidence.rows_about("replicas", TopicPartition(topic, partition))
            if row["ns"] is not None
        ),
        default=None,
    )
