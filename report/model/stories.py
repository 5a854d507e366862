"""Findings by cause, and the stories of some of their messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from report.model.beliefs import ToSeconds
from report.model.judged import finding_of
from report.model.model import Fault, FindingGroup, Lane, Mark, Story, StoryEvent
from report.model.tables import Row, RunTables, rows_of
from report.words.causes import cause_of, facts_of

SHOWN = 200
"""At most this many findings of a group are listed; the group has their number."""
_GROUPED = ["class", "cause", "cause_facts", "expected"]
STORIES = 24
"""At most this many messages have their story in the model."""


def finding_groups(
    table: pa.Table, seconds: ToSeconds, with_story: Iterable[str], life: pa.Table | None = None
) -> tuple[FindingGroup, ...]:
    """Findings grouped by class and cause; unexpected groups first, then the largest.

    ``life`` says how many copies duplicated messages have.
    """
    if not table.num_rows:
        return ()
    stories = frozenset(with_story)
    counts = table.group_by(_GROUPED, use_threads=False).aggregate([([], "count_all")]).to_pylist()
    groups = []
    for row in counts:
        rows = _members(table, row).slice(0, SHOWN).to_pylist()
        copies = _copies(rows, life) if row["class"] == "duplicated" and life is not None else {}
        shown = tuple(
            finding_of(
                one,
                acked_s=None if one["acked_ns"] is None else seconds(one["acked_ns"]),
                with_story=stories,
                copies=copies,
            )
            for one in rows
        )
        shown = tuple(sorted(shown, key=lambda one: (not one.story, one.place, one.offset or -1)))
        groups.append(
            FindingGroup(
                name=row["class"],
                cause=cause_of(row),
                cause_kind=row["cause"] or "",
                cause_facts=facts_of(row),
                expected=bool(row["expected"]),
                count=row["count_all"],
                promises=_promises(_members(table, row)),
                shown=shown,
            )
        )
    return tuple(sorted(groups, key=lambda one: one.rank))


def _copies(rows: Sequence[Row], life: pa.Table) -> dict[tuple[int, int], int]:
    """The number of records of each message in some findings, by writer and seq."""
    written = rows_of(life, {(row["writer"], row["seq"]) for row in rows if row["writer"] is not None})
    return {(row["writer"], row["seq"]): row["copies"] for row in written if row["copies"] is not None}


def _promises(members: pa.Table) -> dict[str, int]:
    counts = pc.value_counts(members["promise"].drop_null()).to_pylist()
    return {row["values"]: row["counts"] for row in counts}


def _members(table: pa.Table, group: Row) -> pa.Table:
    kept = pc.and_(pc.equal(table["class"], group["class"]), pc.equal(table["expected"], group["expected"]))
    for name in ("cause", "cause_facts"):
        same = pc.is_null(table[name]) if group[name] is None else pc.equal(table[name], group[name])
        kept = pc.and_(kept, pc.fill_null(same, False))
    return table.filter(kept)


def chosen_messages(table: pa.Table) -> list[tuple[int, int]]:
    """Messages whose stories are told, as writer and seq: from every group in turn, labelled ones first."""
    if not table.num_rows:
        return []
    named = table.filter(pc.and_(pc.is_valid(table["writer"]), pc.is_null(table["txn"])))
    queues = []
    for group in named.group_by(_GROUPED, use_threads=False).aggregate([([], "count_all")]).to_pylist():
        rows = (
            _members(named, group).select(["writer", "seq", "label", "expected"]).slice(0, 2000).to_pylist()
        )
        rows.sort(key=lambda row: (row["label"] is None, row["writer"], row["seq"]))
        queues.append((bool(group["expected"]), [(row["writer"], row["seq"]) for row in rows]))
    queues.sort(key=lambda queue: queue[0])
    chosen: dict[tuple[int, int], None] = {}
    for turn in range(STORIES):
        for _, queue in queues:
            if turn < len(queue) and len(chosen) < STORIES:
                chosen[queue[turn]] = None
    return list(chosen)


def stories(
    tables: RunTables,
    messages: Sequence[tuple[int, int]],
    seconds: ToSeconds,
    *,
    lanes: Mapping[tuple[str, int], Sequence[Lane]],
    faults: Sequence[Fault],
    marks: Sequence[Mark],
    log_events: Sequence[Row],
) -> tuple[Story, ...]:
    """The stories of some messages, in their order."""
    if not messages:
        return ()
    told = frozenset(messages)
    life = {(row["writer"], row["seq"]): row for row in tables.of_messages("life", told)}
    own: dict[tuple[int, int], list[StoryEvent]] = {key: [] for key in messages}
    _add_sightings(tables, told, seconds, own)
    for row in tables.of_messages("reads", told):
        broker = f"broker{row['broker']}" if row["broker"] is not None else ""
        text = f"read at offset {row['offset']}"
        own[row["writer"], row["seq"]].append(
            StoryEvent(
                s=seconds(row["ns"]), kind="read", source=broker, target=f"reader {row['reader']}", text=text
            )
        )
    stories = []
    for key in messages:
        if key in life:
            row = life[key]
            place = (row["topic"], row["partition"])
            around = _around(place, lanes.get(place, ()), faults, marks, log_events, seconds)
            read = [one["broker"] for one in tables.rows("replicas", ["broker"], place)]
            stories.append(_story(row, own[key], around, faults, seconds, read))
    return tuple(stories)


def _add_sightings(
    tables: RunTables,
    messages: Collection[tuple[int, int]],
    seconds: ToSeconds,
    own: Mapping[tuple[int, int], list[StoryEvent]],
) -> None:
    for row in tables.of_messages("sightings", messages):
        events, broker = own[row["writer"], row["seq"]], f"broker{row['broker']}"
        epoch = "" if row["epoch"] is None else f", epoch {row['epoch']}"
        text = f"offset {row['offset']}{epoch}"
        events.append(StoryEvent(s=seconds(row["seen_ns"]), kind="seen", source=broker, target="", text=text))
        if row["gone_ns"] is not None:
            events.append(
                StoryEvent(
                    s=seconds(row["gone_ns"]),
                    kind="gone",
                    source=broker,
                    target="",
                    text=f"gone: offset {row['offset']}",
                )
            )


def marks_and_faults(marks: Iterable[Mark], faults: Iterable[Fault]) -> list[StoryEvent]:
    """The marks of the scenario, and when faults were in force, as events of a story."""
    events = [StoryEvent(s=mark.s, kind="mark", source="", target="", text=mark.text) for mark in marks]
    for fault in faults:
        events.append(
            StoryEvent(s=fault.from_s, kind="fault", source="", target="", text=f"{fault.name}: in force")
        )
        if fault.to_s is not None:
            events.append(
                StoryEvent(s=fault.to_s, kind="healed", source="", target="", text=f"{fault.name}: healed")
            )
    return events


def _around(
    place: tuple[str, int],
    lanes: Sequence[Lane],
    faults: Sequence[Fault],
    marks: Sequence[Mark],
    log_events: Sequence[Row],
    seconds: ToSeconds,
) -> list[StoryEvent]:
    events = marks_and_faults(marks, faults)
    elected: set[int] = set()
    for lane in lanes:
        for belief in lane.beliefs:
            if belief.epoch is None or belief.error or belief.epoch in elected:
                continue
            elected.add(belief.epoch)
            first = min(
                b.from_s for one in lanes for b in one.beliefs if b.epoch == belief.epoch and not b.error
            )
            leader = f"broker{belief.leader}" if (belief.leader or 0) > 0 else ""
            text = f"leads in epoch {belief.epoch}" if leader else f"no leader in epoch {belief.epoch}"
            events.append(StoryEvent(s=first, kind="elected", source=leader, target="", text=text))
    for row in log_events:
        if (row["topic"], row["partition"]) == place and row["kind"] in ("truncated", "unclean_election"):
            offset = f" to offset {row['offset']}" if row["offset"] is not None else ""
            text = f"{row['kind'].replace('_', ' ')}{offset}"
            events.append(
                StoryEvent(s=seconds(row["ns"]), kind="logged", source=row["host"], target="", text=text)
            )
    return events


def _story(
    life: Row,
    own: list[StoryEvent],
    around: Sequence[StoryEvent],
    faults: Sequence[Fault],
    seconds: ToSeconds,
    read: Sequence[int],
) -> Story:
    """``read`` are the brokers whose log of its partition was read at the end."""
    client = life["host"] or life["az"] or "client"
    sent = seconds(life["sent_ns"])
    broker = next((b for b in (life["acked_by"], life["broker"]) if b is not None), None)
    target = f"broker{broker}" if broker is not None else ""
    acks = {-1: "all", None: "?"}.get(life["acks"], life["acks"])
    events = [StoryEvent(s=sent, kind="send", source=client, target=target, text=f"send, acks={acks}"), *own]
    if life["done_ns"] is not None:
        at = f" at offset {life['offset']}" if life["offset"] is not None else ""
        error = f" (error {life['error']})" if life["error"] else ""
        kind, text = {
            "ok": ("ack", f"acknowledged{at}"),
            "fail": ("refused", f"refused{error}"),
        }.get(life["outcome"], ("unknown", f"outcome unknown{error}"))
        events.append(
            StoryEvent(s=seconds(life["done_ns"]), kind=kind, source=target, target=client, text=text)
        )
    last = max(event.s for event in events)
    settled = life["fate"] in ("kept", "failed") or any(event.kind == "gone" for event in events)
    until = last if settled else last + 1.0
    in_force = [one for one in faults if one.from_s < sent and (one.to_s is None or one.to_s > sent)]
    events += [one for one in marks_and_faults((), in_force) if one.kind == "fault"]
    events += [one for one in around if sent <= one.s <= until]
    leading = [one for one in around if one.kind == "elected" and one.s < sent]
    events += leading[-1:] and [max(leading, key=lambda one: one.s)]
    columns = dict.fromkeys([client])
    for event in events:
        for node in (event.source, event.target):
            if node.startswith("broker"):
                columns[node] = None
    brokers = sorted(name for name in columns if name != client)
    readers = dict.fromkeys(event.target for event in events if event.kind == "read")
    return Story(
        message=f"{life['writer']}/{life['seq']}",
        label=life["label"] or "",
        place=f"{life['topic']}/{life['partition']}",
        fate=life["fate"],
        cause=cause_of(life),
        ending=_ending(life, read),
        columns=(client, *brokers, *readers),
        events=tuple(sorted(thinned(events), key=lambda event: event.s)),
    )


def thinned(events: Sequence[StoryEvent]) -> list[StoryEvent]:
    """At most 8 marks and 6 reads, because a story is about its message. Equal times keep their order."""
    limits = {"mark": 8, "read": 6, "logged": 8}
    kept: list[StoryEvent] = []
    for event in sorted(dict.fromkeys(events), key=lambda event: event.s):
        left = limits.get(event.kind, 99)
        limits[event.kind] = left - 1
        if left > 0:
            kept.append(event)
    return kept


def _ending(life: Row, read: Sequence[int]) -> str:
    if life["replicas"]:
        where = ", ".join(f"broker{number}" for number in life["replicas"])
        epoch = "" if life["found_epoch"] is None else f", epoch {life['found_epoch']}"
        if (life["copies"] or 0) > 1:
            place = f"offset {life['found_offset']}{epoch}"
            return f"{life['copies']} copies in the log, one of them at {place}; on {where}"
        return f"on {where} at offset {life['found_offset']}{epoch}"
    other = f"; its offset now holds {life['overwritten_by']}" if life["overwritten_by"] else ""
    last = f"; last seen on broker{life['last_broker']}" if life["last_broker"] is not None else ""
    if len(read) == 1:
        return f"not on broker{read[0]}, the only replica that was read{last}{other}"
    return f"on no replica{last}{other}"
