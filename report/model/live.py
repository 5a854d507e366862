"""What the page of a run under way shows: the pictures of its final page, as far as the journals go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.history.time_zero import TimeZero
from report.model.beliefs import ToSeconds, lanes, leaders_by_epoch, splits
from report.model.faults import faults as faults_of
from report.model.gather import offsets_by_broker
from report.model.model import AcknowledgedRate, Fault, Lane, Mark, PartitionStory, Split
from report.model.tables import Row

WINDOW_S = 600.0
"""At most the last so many seconds are drawn."""


@dataclass(frozen=True, kw_only=True)
class LiveModel:
    """A run under way, now."""

    from_s: float
    to_s: float
    """Seconds from time zero, between which the pictures lie."""
    fault: str
    """The name of the first fault in force, from which times count; empty: there is none yet."""
    lasted_s: float
    """Since the run began."""
    marks: Sequence[Mark]
    faults: Sequence[Fault]
    partition: PartitionStory | None
    """The topic partition whose leaders changed most often."""
    controllers: Sequence[Lane]
    controller_splits: Sequence[Split]
    rates: Sequence[AcknowledgedRate]
    """By AZ."""
    acknowledged: int
    """Messages, since the run began."""


def live_model(
    rows: Mapping[str, Sequence[Row]],
    acknowledged: Mapping[str, Mapping[int, int]],
    *,
    zero: TimeZero,
    start_ns: int,
    now_ns: int,
) -> LiveModel:
    """The model of the rows of journals so far.

    ``rows`` by table, each in the order of time; ``acknowledged`` by AZ and by second from time zero.
    The run began at ``start_ns``.
    """

    def seconds(ns: int) -> float:
        return round((ns - zero.ns) / 1e9, 4)

    begun_s = seconds(start_ns)
    to_s = max(seconds(now_ns), begun_s + 1.0)
    from_s = max(begun_s, to_s - WINDOW_S)
    marks = [Mark(seconds(row["ns"]), row["name"], row["text"] or row["name"]) for row in rows["marks"]]
    controllers = lanes(rows["views"], seconds, to_s, None)
    return LiveModel(
        from_s=from_s,
        to_s=to_s,
        fault=zero.fault,
        lasted_s=to_s - begun_s,
        marks=[mark for mark in marks if mark.s >= from_s],
        faults=faults_of(rows["faults"], rows["processes"], seconds),
        partition=_partition(rows, seconds, from_s, to_s),
        controllers=controllers,
        controller_splits=splits(controllers, from_s, to_s),
        rates=[_rate(az, per_second, from_s) for az, per_second in sorted(acknowledged.items())],
        acknowledged=sum(sum(per_second.values()) for per_second in acknowledged.values()),
    )


def _partition(
    rows: Mapping[str, Sequence[Row]], seconds: ToSeconds, from_s: float, to_s: float
) -> PartitionStory | None:
    changes: Counter[tuple[str, int]] = Counter()
    last: dict[tuple[str, str, int], object] = {}
    for row in rows["views"]:
        if row["subject"] == "partition" and row["topic"] is not None and row["partition"] is not None:
            stated = (row["leader"], row["epoch"])
            key = (row["source"], row["topic"], row["partition"])
            changes[row["topic"], row["partition"]] += last.get(key) != stated
            last[key] = stated
    if not changes:
        return None
    topic, partition = place = min(changes, key=lambda place: (-changes[place], place))
    own_lanes = lanes(rows["views"], seconds, to_s, place)
    offsets = offsets_by_broker(
        [row for row in rows["watermarks"] if (row["topic"], row["partition"]) == place], seconds
    )
    return PartitionStory(
        topic=topic,
        partition=partition,
        replicas=tuple(offsets),
        findings=0,
        lanes=own_lanes,
        splits=splits(own_lanes, from_s, to_s),
        leaders=leaders_by_epoch(own_lanes),
        sends={},
        offsets=offsets,
        logs=None,
    )


def _rate(az: str, per_second: Mapping[int, int], from_s: float) -> AcknowledgedRate:
    shown = ((float(second), count) for second, count in sorted(per_second.items()) if second + 1 > from_s)
    return AcknowledgedRate(az=az, acks="", per_second=tuple(shown))
