"""The figure that articles draw by hand: each replica's log by leader epoch, mark by mark."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from report.model.beliefs import ToSeconds, believed_at
from report.model.model import Lane, LogColumn, LogFigure, Mark, Offsets, Panel, ReplicaRecord, ReplicaState

LOOK_S = 0.23
"""Interval in which the observer reads each log. A panel shows what it had read this long after the mark."""
_SAME_S = 0.05
_NOTICED_S = 0.6
"""Longest time until the observer notices that a broker was killed."""
PANELS = 7
COLUMNS = 21
"""Number of columns that fit side by side on a page without scrolling."""
ROWS = 20_000
"""If the replicas of a partition have more records, only the remarkable part is drawn."""

MessageFacts = Mapping[tuple[int, int], tuple[str, bool, bool]]
"""By writer and seq: label, whether it was acknowledged, whether it is lost."""
LostMessages = Mapping[int, tuple[int, int]]
"""Writer and seq of lost messages by the offset at which each was acknowledged."""
_MISSING = pa.schema(
    [
        *(("offset", pa.int64()), ("epoch", pa.int32()), ("broker", pa.int32())),
        *(("writer", pa.int32()), ("seq", pa.int64())),
    ]
)
Meta = Callable[[pa.Table], MessageFacts]
"""The messages that the rows of a table name."""


@dataclass(frozen=True)
class DamagedRecord:
    """A record whose bytes are damaged in one replica's final log."""

    since_s: float | None
    """When a fault damaged it; None: no fault is recorded, and only the final log shows the damage."""
    epoch: int | None


@dataclass(frozen=True)
class _Sighting:
    record: ReplicaRecord
    broker: int
    seen_s: float
    gone_s: float | None


def log_figure(
    *,
    sightings: pa.Table,
    copies: pa.Table,
    meta: Meta,
    marks: Sequence[Mark],
    lanes: Sequence[Lane],
    offsets: Mapping[int, Sequence[Offsets]],
    killed: Mapping[int, Sequence[float]],
    seconds: ToSeconds,
    end_s: float,
    damaged: Mapping[tuple[int, int], DamagedRecord] | None = None,
    lost: LostMessages | None = None,
) -> LogFigure | None:
    """The figure of one topic partition; None if nothing is known of its logs.

    ``sightings`` and ``copies`` are those of the partition. ``killed`` says when the process of each broker
    was killed, and ``damaged`` which records are damaged in the final logs, by broker and offset. ``lost``
    are the lost messages of the partition.
    """
    sightings, copies, lost = _remarkable(sightings, copies, lost or {})
    messages = meta(sightings if sightings.num_rows else copies)
    final = _records(copies, messages, seconds, at_end=end_s)
    seen = _records(sightings, messages, seconds)
    if not seen and not final:
        return None
    brokers = sorted({one.broker for one in (*seen, *final)})
    moments = [*marks, Mark(end_s, "final logs", "all logs, read to their end")]
    if not seen:
        moments = moments[-1:]
        seen = final
    nexts = [*(moment.s for moment in moments[1:]), end_s]
    panels = [
        _with_damage(
            _panel(
                mark, _look(mark.s, then), brokers, seen, lanes, offsets, killed, last=mark is moments[-1]
            ),
            damaged or {},
            math.inf if mark is moments[-1] else _look(mark.s, then),
        )
        for mark, then in zip(moments, nexts, strict=True)
    ]
    panels = _with_missing(_telling(panels), _never_seen(lost, meta, (*seen, *final)))
    columns = _columns(panels)
    difference = _first_difference(panels)
    return LogFigure(columns, tuple(_by_column(panel, columns) for panel in panels), difference)


def _never_seen(lost: LostMessages, meta: Meta, records: Sequence[_Sighting]) -> tuple[ReplicaRecord, ...]:
    """The lost messages that no replica was seen to hold where they were acknowledged."""
    seen = {(one.record.offset, one.record.message) for one in records}
    rows = [
        {"offset": offset, "epoch": None, "writer": writer, "seq": seq, "broker": -1}
        for offset, (writer, seq) in sorted(lost.items())
        if (offset, f"{writer}/{seq}") not in seen
    ]
    table = pa.Table.from_pylist(rows, _MISSING)
    return tuple(one.record for one in _records(table, meta(table), float, at_end=0.0))


def _with_missing(panels: Sequence[Panel], missing: tuple[ReplicaRecord, ...]) -> list[Panel]:
    """The panels, of which the last shows what is missing in every log."""
    if not panels or not missing:
        return list(panels)
    last = panels[-1]
    return [
        *panels[:-1],
        replace(last, replicas=tuple(replace(one, missing=missing) for one in last.replicas)),
    ]


def _remarkable(
    sightings: pa.Table, copies: pa.Table, lost: LostMessages
) -> tuple[pa.Table, pa.Table, LostMessages]:
    """The part of long logs around the first truncated record or lost offset, or their end."""
    if max(sightings.num_rows, copies.num_rows) <= ROWS:
        return sightings, copies, lost
    basis = sightings if sightings.num_rows else copies
    offset = basis["offset"].to_numpy()
    first = min(lost, default=int(offset.max()) - 50)
    if sightings.num_rows and sightings["gone_ns"].null_count < sightings.num_rows:
        first = int(offset[~np.asarray(sightings["gone_ns"].is_null())].min())

    window = range(first - 20, first + 400)

    def near(table: pa.Table) -> pa.Table:
        at = table["offset"].to_numpy()
        return table.filter(pa.array((at >= window.start) & (at < window.stop)))

    return near(sightings), near(copies), {at: key for at, key in lost.items() if at in window}


def _records(
    table: pa.Table, meta: MessageFacts, seconds: ToSeconds, at_end: float | None = None
) -> list[_Sighting]:
    records = []
    for row in table.slice(0, ROWS).to_pylist():
        key = (row["writer"], row["seq"])
        label, acknowledged, lost = (
            meta.get(key, ("", False, False)) if None not in key else ("", False, False)
        )
        record = ReplicaRecord(
            offset=row["offset"],
            epoch=row["epoch"],
            message=f"{key[0]}/{key[1]}" if None not in key else "",
            text=label if label.strip("_") else ("" if key[1] is None else str(key[1])),
            acknowledged=acknowledged,
            lost=lost,
        )
        gone = row.get("gone_ns")
        seen_s = -math.inf if at_end is not None else seconds(row["seen_ns"])
        records.append(_Sighting(record, row["broker"], seen_s, None if gone is None else seconds(gone)))
    return records


def _look(mark_s: float, next_s: float) -> float:
    """The time that a panel shows: shortly after its mark, but not after the next mark at another time."""
    return min(mark_s + LOOK_S, next_s) if next_s - mark_s > _SAME_S else mark_s + LOOK_S


def _panel(
    mark: Mark,
    look_s: float,
    brokers: Sequence[int],
    seen: Sequence[_Sighting],
    lanes: Sequence[Lane],
    offsets: Mapping[int, Sequence[Offsets]],
    killed: Mapping[int, Sequence[float]],
    *,
    last: bool,
) -> Panel:
    by_source = {lane.source: lane for lane in lanes}
    replicas = []
    for broker in brokers:
        soon = [at for at in killed.get(broker, ()) if mark.s < at <= look_s + _NOTICED_S]
        now = min([look_s, *soon])
        there: dict[int, ReplicaRecord] = {}
        gone: dict[int, ReplicaRecord] = {}
        for one in seen:
            if one.broker != broker or (one.seen_s > now and not last):
                continue
            if one.gone_s is not None and (one.gone_s <= now or last):
                gone[one.record.offset] = one.record
            else:
                there[one.record.offset] = one.record
        reported = [one for one in offsets.get(broker, ()) if one.s <= now or last]
        lane = by_source.get(f"broker{broker}")
        since_s = _silent_since(lane, look_s, killed.get(broker, ())) if lane and not last else None
        if soon and since_s is not None and since_s > mark.s:
            since_s = None
        same = {offset for offset, record in gone.items() if there.get(offset) == record}
        heard = since_s is None
        replicas.append(
            ReplicaState(
                broker=broker,
                records=tuple(there[offset] for offset in sorted(there)) if heard else (),
                gone=tuple(gone[offset] for offset in sorted(gone) if offset not in same),
                high_watermark=reported[-1].high_watermark if reported and heard else None,
                leo=reported[-1].leo if reported and heard else None,
                silent=not heard,
                since_s=since_s,
            )
        )
    if not last:
        replicas = _with_older(replicas, by_source, mark.s)
    return Panel(mark.s, mark.name, mark.text, tuple(replicas))


def _with_damage(panel: Panel, damaged: Mapping[tuple[int, int], DamagedRecord], until_s: float) -> Panel:
    """The panel with marks at the records that were damaged by then; the last panel marks all."""
    if not damaged:
        return panel
    replicas = []
    for one in panel.replicas:
        records = {record.offset: record for record in one.records}
        for (broker, offset), damage in damaged.items():
            then = damage.since_s if damage.since_s is not None else math.inf
            if broker != one.broker or one.silent or then > until_s:
                continue
            nameless = ReplicaRecord(
                offset=offset, epoch=damage.epoch, message="", text="?", acknowledged=False, lost=False
            )
            if offset in records or until_s == math.inf:
                records[offset] = replace(records.get(offset, nameless), damaged=True)
        replicas.append(replace(one, records=tuple(records[offset] for offset in sorted(records))))
    return replace(panel, replicas=tuple(replicas))


def _silent_since(lane: Lane, now: float, killed: Sequence[float]) -> float | None:
    """Since when a broker had not answered at a time; None if it answered."""
    since: float | None = None
    for belief in lane.beliefs:
        if belief.from_s > now:
            break
        since = (belief.from_s if since is None else since) if belief.error else None
    if since is None:
        return None
    return next((at for at in killed if abs(at - since) <= _NOTICED_S), since)


def _with_older(replicas: Sequence[ReplicaState], lanes: Mapping[str, Lane], s: float) -> list[ReplicaState]:
    """Replicas at a time, with a note on those whose log must hold more than was last read of it.

    A follower has no record of an epoch that its leader lacks, and a replica in sync has all records
    below any high watermark.
    """
    top = max((one.high_watermark or 0 for one in replicas), default=0)
    stated = {
        one.broker: belief
        for one in replicas
        if (lane := lanes.get(f"broker{one.broker}")) is not None
        and (belief := believed_at(lane, s)) is not None
        and not belief.error
    }
    agreed = len({belief.epoch for belief in stated.values()}) == 1
    marked = []
    for one in replicas:
        belief = stated.get(one.broker)
        if one.silent or belief is None:
            marked.append(one)
            continue
        end = one.leo if one.leo is not None else len(one.records)
        ahead = belief.leader == one.broker and any(
            record.epoch == belief.epoch and record.offset >= end
            for other in replicas
            for record in other.records
        )
        marked.append(replace(one, older=ahead or (agreed and one.broker in belief.isr and end < top)))
    return marked


def _telling(panels: Sequence[Panel]) -> list[Panel]:
    """Panels that differ from the previous one; of too many, those that changed least are dropped."""
    kept: list[Panel] = []
    for panel in panels:
        if not any(one.records or one.gone or (kept and one.silent) for one in panel.replicas):
            continue
        if kept and _shape(kept[-1]) == _shape(panel):
            if panel is panels[-1]:
                kept[-1] = replace(panel, name=f"{kept[-1].name}, and at the end", text=panel.text)
            continue
        kept.append(panel)
    while len(kept) > PANELS:
        changes = [(_change(kept[n - 1], kept[n], kept[n + 1]), -n) for n in range(1, len(kept) - 1)]
        del kept[-min(changes)[1]]
    return kept


def _shape(panel: Panel) -> list[Any]:
    return [(one.broker, one.records, one.gone, one.silent) for one in panel.replicas]


def _change(before: Panel, panel: Panel, after: Panel) -> tuple[int, int]:
    """How much a panel changes; truncations and silences count most."""
    big = small = 0
    for one, now, then in zip(before.replicas, panel.replicas, after.replicas, strict=True):
        big += now.silent not in (one.silent, then.silent)
        big += len(now.gone) not in (len(one.gone), len(then.gone))
        big += _damaged(now) not in (_damaged(one), _damaged(then))
        big += {r.epoch for r in now.records} not in (
            {r.epoch for r in one.records},
            {r.epoch for r in then.records},
        )
        small += min(abs(len(now.records) - len(one.records)), abs(len(then.records) - len(now.records)))
    return big, small


def _damaged(replica: ReplicaState) -> set[int]:
    return {record.offset for record in replica.records if record.damaged}


def _first_difference(panels: Sequence[Panel]) -> int | None:
    differing: list[int] = []
    for panel in panels:
        held: dict[int, set[str]] = {}
        for replica in panel.replicas:
            for record in replica.records:
                held.setdefault(record.offset, set()).add(f"{record.message} {record.epoch} {record.damaged}")
        differing += [offset for offset, records in held.items() if len(records) > 1]
    return min(differing, default=None)


def _columns(panels: Sequence[Panel]) -> tuple[LogColumn, ...]:
    """Offsets; ranges that look the same in every panel are folded to their first two and their last."""
    looks: dict[int, list[object]] = {}
    for number, panel in enumerate(panels):
        for replica in panel.replicas:
            above = replica.high_watermark
            for kind, records in (
                ("there", replica.records),
                ("gone", replica.gone),
                ("missing", replica.missing),
            ):
                for record in records:
                    looks.setdefault(record.offset, []).append(
                        (
                            *(number, replica.broker, kind, record.epoch, record.acknowledged, record.lost),
                            record.damaged,
                            above is not None and record.offset >= above,
                        )
                    )
    messages: dict[int, set[str]] = {}
    for panel in panels:
        for replica in panel.replicas:
            for record in (*replica.records, *replica.gone, *replica.missing):
                messages.setdefault(record.offset, set()).add(record.message)
    missing = {record.offset for panel in panels for one in panel.replicas for record in one.missing}
    remarkable = [_first_difference(panels), min(missing, default=None)]
    first = min((offset for offset in remarkable if offset is not None), default=None)
    everything = sorted(looks)
    same_until = first - 2 if first is not None else everything[-1] - 2
    alike = [offset for offset in everything[2:] if offset < same_until]
    if len(alike) < 4:
        alike = []
    runs: list[list[int]] = []
    for offset in everything:
        if alike and alike[0] <= offset <= alike[-1]:
            continue
        look = (looks[offset], len(messages[offset]))
        if runs and runs[-1][-1] + 1 == offset and look == (looks[runs[-1][-1]], len(messages[runs[-1][-1]])):
            runs[-1].append(offset)
        else:
            runs.append([offset])
    for shown in (5, 3, 2, 1):
        columns = [column for run in runs for column in _folded(run, shown)]
        columns = sorted([*columns, *([_stretch(alike[0], alike[-1])] if alike else [])], key=_offset)
        if len(columns) <= COLUMNS:
            break
    if len(columns) > COLUMNS:
        middle = next((n for n, one in enumerate(columns) if first is not None and one.offset >= first), 0)
        start = min(max(0, middle - COLUMNS // 3), len(columns) - COLUMNS)
        damaged = {offset for panel in panels for one in panel.replicas for offset in _damaged(one)}
        kept = [
            number
            for number, one in enumerate(columns)
            if one.offset in missing or (one.count == 1 and one.offset in damaged)
        ][:COLUMNS]
        columns = _only(columns, {*range(start, start + COLUMNS), *kept})
    return tuple(columns)


def _only(columns: Sequence[LogColumn], kept: set[int]) -> list[LogColumn]:
    """The columns of these numbers, and one column for each range between them."""
    folded: list[LogColumn] = []
    begin: int | None = None
    for number, column in enumerate(columns):
        if number in kept:
            begin = None
            folded.append(column)
        elif begin is None:
            begin = column.offset
            folded.append(column)
        else:
            folded[-1] = _stretch(begin, column.offset + column.count - 1)
    return folded


def _stretch(first: int, last: int) -> LogColumn:
    """One column for all offsets from the first to the last."""
    return LogColumn(first, last - first + 1)


def _folded(run: list[int], shown: int) -> list[LogColumn]:
    if len(run) <= shown:
        return [LogColumn(offset) for offset in run]
    if shown == 1:
        return [LogColumn(run[0], len(run))]
    head, tail = (2, 1) if shown > 3 else (1, 1) if shown > 2 else (1, 0)
    middle = run[head : len(run) - tail]
    return [
        *(LogColumn(offset) for offset in run[:head]),
        LogColumn(middle[0], len(middle)),
        *(LogColumn(offset) for offset in run[len(run) - tail :]),
    ]


def _offset(column: LogColumn) -> int:
    return column.offset


def _by_column(panel: Panel, columns: Sequence[LogColumn]) -> Panel:
    """The panel with one record for each column, which says how many records it represents."""

    def folded(records: Sequence[ReplicaRecord]) -> tuple[ReplicaRecord, ...]:
        by_offset = {record.offset: record for record in records}
        joined = []
        for column in columns:
            inside = range(column.offset, column.offset + column.count)
            held = [by_offset[offset] for offset in inside if offset in by_offset]
            if held:
                joined.append(replace(held[0], offset=column.offset, count=len(held)))
        return tuple(joined)

    return replace(
        panel,
        replicas=tuple(
            replace(one, records=folded(one.records), gone=folded(one.gone), missing=folded(one.missing))
            for one in panel.replicas
        ),
    )
