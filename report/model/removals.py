"""Elections, removals of acknowledged messages from a replica's log, and the faults that erased messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from harness.kafka.model import broker_name
from report.model.beliefs import ToSeconds
from report.model.messages import LOST
from report.model.model import Fault, Lane, Turn, counted
from report.model.tables import Row, RunTables
from report.words.causes import facts_of

TOGETHER_S = 0.6
"""Copies that a replica loses within this time are one removal: the observer reads at this interval."""
MESSAGES = 20_000
"""With more lost messages, no sentence says what single faults did."""
_TRUNCATED = ("truncated", "truncated_to_hw")
_LOG_STARTS = ("log_start", "records_deleted")
_STARTS = ("became_leader", "became_follower")


def power_cut(row: Row, faults: Iterable[Fault], seconds: ToSeconds) -> float | None:
    """When a power cut erased a record that was seen and was gone at the broker's next read."""
    taken = _eraser(row, [one for one in faults if one.mechanism == "power_cut"], seconds)
    return taken.from_s if taken else None


def _eraser(row: Row, faults: Iterable[Fault], seconds: ToSeconds) -> Fault | None:
    """The last fault that erases logs between the last time a record was there and its absence."""
    if row["gone_ns"] is None:
        return None
    seen_s, gone_s = seconds(row["seen_ns"]), seconds(row["gone_ns"])
    host, place = f"broker{row['broker']}", f"{row['topic']}/{row['partition']}"
    erasers = [
        one
        for one in faults
        if (one.mechanism == "power_cut" or (one.mechanism == "wipe" and place in one.partitions))
        and one.injected
        and host in one.hosts
        and seen_s <= one.from_s <= gone_s
    ]
    return erasers[-1] if erasers else None


def _truncation(row: Row, log_events: Iterable[Row], seconds: ToSeconds) -> float | None:
    """When the broker said that it truncated its log to the record's offset or below."""
    if row["gone_ns"] is None:
        return None
    times = [
        seconds(event["ns"])
        for event in log_events
        if event["kind"] in _TRUNCATED
        and event["host"] == f"broker{row['broker']}"
        and (event["topic"], event["partition"]) == (row["topic"], row["partition"])
        and event["offset"] is not None
        and event["offset"] <= row["offset"]
        and row["seen_ns"] <= event["ns"] <= row["gone_ns"] + int(TOGETHER_S * 1e9)
    ]
    return times[-1] if times else None


def _start_moved(row: Row, log_events: Iterable[Row], seconds: ToSeconds) -> float | None:
    """When the broker said that its log begins above the record's offset."""
    times = [
        seconds(event["ns"])
        for event in log_events
        if event["kind"] in _LOG_STARTS
        and event["host"] == f"broker{row['broker']}"
        and (event["topic"], event["partition"]) == (row["topic"], row["partition"])
        and event["offset"] is not None
        and event["offset"] > row["offset"]
        and row["seen_ns"] <= event["ns"] <= row["gone_ns"] + int(TOGETHER_S * 1e9)
    ]
    return times[0] if times else None


def turns(
    lanes: Sequence[Lane],
    sightings: pa.Table,
    acknowledged: Collection[tuple[int, int]],
    faults: Sequence[Fault],
    processes: Sequence[Row],
    log_events: Sequence[Row],
    seconds: ToSeconds,
    from_s: float,
    to_s: float,
) -> tuple[Turn, ...]:
    """When leaders were elected, replicas lost acknowledged messages, and brokers were started.

    ``sightings`` and ``lanes`` are those of one topic partition; ``acknowledged`` has writers and seqs.
    """
    turns = [
        *elections(lanes, "{0} leads in epoch {1}", broker_name),
        *_removals(sightings, acknowledged, faults, log_events, seconds),
    ]
    sources = {lane.source for lane in lanes}
    turns += [
        Turn(
            s=seconds(row["ns"]),
            kind="started",
            source=row["host"],
            count=0,
            text=f"{row['host']}: the process was started",
        )
        for row in processes
        if row["event"] == "started" and row["host"] in sources
    ]
    return tuple(sorted((turn for turn in turns if from_s < turn.s < to_s), key=lambda one: one.s))


def elections(lanes: Sequence[Lane], words: str, name_of: Callable[[int], str]) -> Iterable[Turn]:
    """The first statement of each epoch, except the first epoch of all.

    ``words`` has placeholders for the leader's name and the epoch.
    """
    first: dict[int, tuple[float, int]] = {}
    for lane in lanes:
        for belief in lane.beliefs:
            if belief.error or belief.epoch is None or belief.leader is None or belief.leader < 0:
                continue
            earliest = first.get(belief.epoch)
            if earliest is None or belief.from_s < earliest[0]:
                first[belief.epoch] = (belief.from_s, belief.leader)
    for epoch, (s, leader) in sorted(first.items())[1:]:
        name = name_of(leader)
        yield Turn(s=s, kind="elected", source=name, count=0, text=words.format(name, epoch))


def _removals(
    sightings: pa.Table,
    acknowledged: Collection[tuple[int, int]],
    faults: Sequence[Fault],
    log_events: Sequence[Row],
    seconds: ToSeconds,
) -> Iterable[Turn]:
    groups: list[tuple[float, str, str, set[tuple[int, int]]]] = []
    here = [event for event in log_events if event["kind"] in _TRUNCATED]
    for row in sightings.filter(pc.is_valid(sightings["gone_ns"])).to_pylist():
        key = (row["writer"], row["seq"])
        if key not in acknowledged:
            continue
        s, why = seconds(row["gone_ns"]), ""
        eraser, truncated_s = _eraser(row, faults, seconds), _truncation(row, here, seconds)
        if eraser is not None:
            s, why = eraser.from_s, "lost power" if eraser.mechanism == "power_cut" else "was erased"
        elif truncated_s is not None:
            s, why = truncated_s, "truncated"
        elif (start_s := _start_moved(row, log_events, seconds)) is not None:
            s, why = start_s, "moved its log start"
        host = f"broker{row['broker']}"
        for group in groups:
            if group[1:3] == (host, why) and abs(group[0] - s) <= TOGETHER_S:
                group[3].add(key)
                break
        else:
            groups.append((s, host, why, {key}))
    for s, host, why, keys in groups:
        removed = f"{counted(len(keys), 'acknowledged message')}"
        text = f"{host} {why}: {removed} removed" if why else f"{removed} not found any more on {host}"
        yield Turn(s=s, kind="removed", source=host, count=len(keys), text=text)


def consequences(
    tables: RunTables,
    findings: pa.Table,
    faults: Sequence[Fault],
    log_events: Sequence[Row],
    seconds: ToSeconds,
) -> dict[int, str]:
    """By number of a fault: what it did to the lost messages, as far as the history shows it.

    Empty unless several faults were injected: for a single fault, "Why they are lost" says everything.
    """
    injected = [one for one in faults if one.injected and one.kind != "operator"]
    if len(injected) < 2 or not findings.num_rows:
        return {}
    lost = findings.filter(pc.is_in(findings["class"], pa.array(LOST, findings["class"].type)))
    lost = lost.filter(pc.is_valid(lost["writer"]))
    if not lost.num_rows or lost.num_rows > MESSAGES:
        return {}
    copies: dict[tuple[int, int], list[Row]] = {}
    rows_of: dict[tuple[str, int], list[Row]] = {}
    rows = {(row["writer"], row["seq"]): row for row in lost.to_pylist() if row["topic"] is not None}
    for place in {(row["topic"], row["partition"]) for row in rows.values()}:
        rows_of[place] = tables.table("sightings", None, place).to_pylist()
        for seen in rows_of[place]:
            copies.setdefault((seen["writer"], seen["seq"]), []).append(seen)
    leo: dict[tuple[str, int, str], list[tuple[float, int]]] = {}
    for place, here in rows_of.items():
        for one in here:
            at = (*place, f"broker{one['broker']}")
            leo.setdefault(at, []).append((seconds(one["seen_ns"]), one["offset"] + 1))
    for one in log_events:
        if one["kind"] in _STARTS and one["offset"] is not None:
            at = (one["topic"], one["partition"], one["host"])
            leo.setdefault(at, []).append((seconds(one["ns"]), one["offset"]))
    return {
        fault.number: _consequence(fault, injected, rows, copies, leo, log_events, seconds)
        for fault in injected
    }


def _consequence(
    fault: Fault,
    faults: Sequence[Fault],
    rows: Mapping[tuple[int, int], Row],
    copies: Mapping[tuple[int, int], Sequence[Row]],
    leo: Mapping[tuple[str, int, str], Sequence[tuple[float, int]]],
    log_events: Sequence[Row],
    seconds: ToSeconds,
) -> str:
    took = parts = during = spared = 0
    for key, row in rows.items():
        acked_s = None if row["acked_ns"] is None else seconds(row["acked_ns"])
        own = copies.get(key, ())
        erased = sum(_eraser(one, faults, seconds) is fault for one in own)
        if erased == len(own) and (erased or facts_of(row).get("fault") == fault.number):
            took += 1
        elif erased:
            parts += 1
        elif acked_s is not None and acked_s > fault.from_s:
            if fault.lasting and (fault.to_s is None or acked_s <= fault.to_s):
                during += 1
            else:
                spared += 1
        elif any(_survived(one, fault, leo, log_events, seconds) for one in own):
            spared += 1
    of_them = f"of the {len(rows)} lost messages" if len(rows) > 1 else "of the lost message"
    if took:
        which = "" if len(rows) == 1 else f"{'all' if took == len(rows) else took} "
        return f"This erased every copy of {which}{of_them.removeprefix('of ')}."
    if parts:
        which = of_them if len(rows) == 1 else f"of {counted(parts, 'lost message')}"
        return f"This erased some copies {which}, not all."
    if during:
        verb = "was" if during == 1 else "were"
        which = "The lost message" if len(rows) == 1 else f"{during} {of_them}"
        return f"{which} {verb} acknowledged meanwhile."
    if spared == len(rows):
        which = of_them if len(rows) == 1 else "of a lost message"
        return f"This erased no copy {which}."
    return f"Whether this erased a copy {of_them} is not known."


def _survived(
    copy: Row,
    fault: Fault,
    leo: Mapping[tuple[str, int, str], Sequence[tuple[float, int]]],
    log_events: Sequence[Row],
    seconds: ToSeconds,
) -> bool:
    """Whether a copy was still in its log after a fault had begun.

    It was if it is there at the end, if it was first seen after that, if the log still had that length before
    the copy was gone, or if the broker truncated the log later.
    """
    if copy["gone_ns"] is None or seconds(copy["seen_ns"]) > fault.from_s:
        return True
    gone_s = seconds(copy["gone_ns"])
    at = (copy["topic"], copy["partition"], f"broker{copy['broker']}")
    if any(fault.from_s < s < gone_s and end > copy["offset"] for s, end in leo.get(at, ())):
        return True
    truncated_s = _truncation(copy, log_events, seconds)
    return truncated_s is not None and truncated_s > fault.from_s
