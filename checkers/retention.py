"""What the configuration of a topic says about the removal of its records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from checkers.evidence import Evidence, Row, whole_number

_KEYS = ("cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type")


@dataclass(frozen=True, kw_only=True)
class TopicRetention:
    """What a topic's configuration allowed at some time of the run; None: not recorded."""

    policies: tuple[str, ...] | None
    """Values of `cleanup.policy`."""
    age_ms: int | None
    """The lowest `retention.ms`; -1: without limit."""
    size_bytes: int | None
    """The lowest `retention.bytes`; -1: without limit."""
    stamped_by_broker: bool

    @property
    def recorded(self) -> bool:
        """Whether all that decides is known."""
        return None not in (self.policies, self.age_ms, self.size_bytes)

    @property
    def deletes(self) -> bool:
        """Whether retention applies at all."""
        return any("delete" in policy for policy in self.policies or ())


def retention_of(evidence: Evidence, topic: str) -> TopicRetention:
    """The most that a topic's configuration allowed, as read at the start and as changed by the run."""
    values: dict[str, list[str]] = {}
    for row in config_rows(evidence, topic):
        value = row["asked"] if row["value"] is None else row["value"]
        if value is not None:
            values.setdefault(row["key"], []).append(value)
    for fault in evidence.faults:
        if fault.mechanism == "configure" and any(_topic(name) == topic for name in fault.partitions):
            changed = fault.targets.get("properties")
            for key, value in (changed if isinstance(changed, dict) else {}).items():
                values.setdefault(key, []).append(str(value))
    return TopicRetention(
        policies=tuple(values["cleanup.policy"]) if "cleanup.policy" in values else None,
        age_ms=_lowest(values.get("retention.ms", ())),
        size_bytes=_lowest(values.get("retention.bytes", ())),
        stamped_by_broker=set(values.get("message.timestamp.type", ())) == {"LogAppendTime"},
    )


def config_rows(evidence: Evidence, topic: str) -> list[Row]:
    """The rows of `configs` about a topic's retention."""
    table = evidence.tables.get("configs")
    if table is None or not table.num_rows:
        return []
    of_topic = pc.and_(pc.equal(table["scope"], "topic"), pc.equal(table["name"], topic))
    rows: list[Row] = table.filter(pc.and_(of_topic, pc.is_in(table["key"], pa.array(_KEYS)))).to_pylist()
    return rows


def _lowest(values: Iterable[str]) -> int | None:
    """The lowest limit; -1 (no limit) is above all others. None without a number."""
    numbers = [number for value in values if (number := whole_number(value)) is not None]
    limits = [number for number in numbers if number >= 0]
    return min(limits, default=-1 if numbers else None)


def _topic(partition: str) -> str:
    return partition.rpartition("/")[0]
